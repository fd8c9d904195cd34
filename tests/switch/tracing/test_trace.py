"""`ina trace`: every hop of a fragment's packets, as they were in the run, and where it waited."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from testbed.cli import main as commands
from testbed.cli.commands.trace import _setup_of
from testbed.config.pcapng import INBOUND, packets
from testbed.experiment import load_text
from testbed.results import find, read
from testbed.runtimes.program import prepare
from testbed.tracing import lanes, rerun
from testbed.tracing.fragments import Fragment, fragment_of, title_of
from testbed.tracing.packets import packet_in
from testbed.tracing.path import ENDS
from tests.support.matrix import first_of

JOBS = """
jobs:
  - {name: a, model: resnet50, workers: 3, iterations: 2, scale: 0.002, compute_scale: 0.01}
  - {name: b, model: vgg16, workers: 3, iterations: 2, scale: 0.0005, compute_scale: 0.01}
"""
ONE = """
jobs:
  - {name: a, model: resnet18, workers: 3, iterations: 1, scale: 0.0005, compute_scale: 0}
"""
STAR = "{kind: star, hosts: 8}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"


def made(
    tmp_path,
    system="{name: esa, window: 64}",
    topology=STAR,
    links="",
    more="",
    pcap=False,
    jobs=JOBS,
):
    """The results folder of a run, with captures of all hosts' ports if `pcap`."""
    has_memory = any(f"name: {name}" in system for name in ("esa", "atp", "switchml", "grid"))
    memory = "memory: {aggregators: 24}" if has_memory else ""
    text = f"""
name: traced
runtime: virtual
seed: 3
topology: {topology}
links: {{bandwidth: 1 Gbit/s, delay: 5 us{links}}}
system: {system}
{memory}
{jobs}{more}"""
    path = tmp_path / "traced.yaml"
    path.write_text(text)
    words = []
    if pcap:
        network = load_text(text).topology_object()
        for switch in network.switches:
            for port, (there, _, _) in network.ports(switch).items():
                if network.is_host(there):
                    words += ["--pcap", f"{switch}:{port}"]
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report", *words]) == 0
    return find(tmp_path)[-1]


def traced(folder, capsys, *words) -> list[dict]:
    capsys.readouterr()
    assert commands.main(["trace", str(folder), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["traces"]


def test_what_hosts_sent_and_got_is_what_was_captured(tmp_path, capsys):
    """The second run is the first one, to the nanosecond."""
    folder = made(tmp_path, pcap=True)
    (trace,) = traced(folder, capsys, "--fragment", "a/1/fc:0")
    number = trace["steps"][0]["packet"]["fragment"]
    assert trace["filter"] == f"ina.job == 0 && ina.fragment == {number}"
    captured = []
    for file in (folder / "captures").iterdir():
        host = f"h{file.stem.rpartition('-')[2]}"
        for each in packets(file):
            packet = packet_in(each.frame, 32)
            if packet is not None and (packet.job, packet.fragment) == (0, number):
                kind = "sent" if each.direction == INBOUND else "arrived"
                captured.append((each.time_ns, host, kind, packet.workers))
    ends = read(folder).iterations.query("job == 0 and iteration == 1").end_ns.max()
    seen = [
        (
            step["time_ns"],
            step["node"],
            step["kind"],
            sum(1 << n for n in step["packet"]["workers"]),
        )
        for step in trace["steps"]
        if step["kind"] in ("sent", "arrived")
    ]
    assert len(seen) >= 8
    assert sorted(seen) == sorted(each for each in captured if each[0] <= max(ends, seen[-1][0]))


def test_a_fragment_that_meets_nobody_is_added_up_and_released(tmp_path, capsys):
    folder = made(tmp_path, more="", system="{name: esa, window: 4}")
    (trace,) = traced(folder, capsys, "--fragment", "a/0/fc:0")
    steps = trace["steps"]
    events = [step["event"] for step in steps if step["kind"] == "handled"]
    assert events == ["allocations", "additions", "completions", "results_passed"]
    first, second, third, _ = (step for step in steps if step["kind"] == "handled")
    assert first["before"]["state"] == "empty" and first["after"]["state"] == "filling"
    assert first["after"]["fragment"] == trace["fragment"] and len(first["after"]["workers"]) == 1
    assert second["before"] == first["after"] and len(second["after"]["workers"]) == 2
    assert third["after"]["state"] == "empty" and third["leaves"]["workers"] == [0, 1, 2]
    # Each step follows from an earlier one, but for what workers send first.
    for step in steps:
        if step["cause"] is None:
            assert step["kind"] == "sent" and step["packet"]["text"].startswith("gradient")
        else:
            assert steps[step["cause"]]["time_ns"] <= step["time_ns"]
    assert not any(step["end"] for step in steps)
    # Workers hand over in 5 us and a frame's time, the switch takes 400 ns, and so on back.
    assert trace["late_ns"] == sum(wait["time_ns"] for wait in trace["waits"])
    assert trace["late_ns"] == steps[-1]["time_ns"] - steps[0]["time_ns"]


def test_the_first_eviction_names_who_did_it(tmp_path, capsys):
    folder = made(tmp_path)
    (trace,) = traced(folder, capsys, "--first-evicted")
    (eviction,) = [step for step in trace["steps"] if step.get("evicted_by")][:1]
    assert eviction["event"] == "preemptions"
    assert eviction["before"]["fragment"] == trace["fragment"]
    assert eviction["after"]["fragment"] == eviction["evicted_by"] != trace["fragment"]
    assert eviction["packet"]["priority"] > eviction["before"]["priority"]
    assert "partial" in eviction["leaves"]["text"]
    left = eviction["leaves"]["workers"]
    assert left == eviction["before"]["workers"]
    gone = [step for step in trace["steps"] if step["cause"] == eviction["number"]]
    assert [step["packet"]["workers"] for step in gone] == [left]
    # What it took along had been added before.
    added = trace["steps"][eviction["content"]]
    assert added["after"]["workers"] == left and added["node"] == eviction["node"]


def test_the_slowest_are_those_of_the_captures(tmp_path, capsys):
    folder = made(tmp_path, pcap=True)
    first, last = {}, {}
    for file in (folder / "captures").iterdir():
        host, seen = file.stem, set()
        for each in packets(file):
            packet = packet_in(each.frame, 32)
            key = packet.job, packet.fragment
            if each.direction == INBOUND and packet.is_gradient:
                first[key] = min(first.get(key, each.time_ns), each.time_ns)
            elif packet.is_result and each.direction != INBOUND and (key, host) not in seen:
                seen.add((key, host))
                last[key] = max(last.get(key, 0), each.time_ns)
    wanted = sorted((last[key] - first[key] for key in last), reverse=True)[:3]
    found = traced(folder, capsys, "--slowest", "3")
    assert [trace["late_ns"] for trace in found] == wanted


@pytest.mark.parametrize(
    "system, topology, links",
    first_of(
        [
            ("{name: switchml}", RACKS, ", loss: 1 %"),
            ("{name: esa, window: 64}", STAR, ", loss: 2 %, duplicate: 1 %"),
            ("{name: atp}", RACKS, ", loss: 1 %"),
            ("{name: grid}", RACKS, ", loss: 1 %"),
            ("{name: ps}", STAR, ", loss: 1 %"),
        ],
        2,
    ),
)
def test_of_every_system_the_late_path_adds_up(system, topology, links, tmp_path, capsys):
    folder = made(tmp_path, system, topology, links)
    found = traced(folder, capsys, "--slowest", "3")
    assert len(found) == 3
    for trace in found:
        starts = [wait["begin_ns"] for wait in trace["waits"]]
        ends = [wait["end_ns"] for wait in trace["waits"]]
        assert starts[1:] == ends[:-1] and trace["late_ns"] == ends[-1] - starts[0] > 0
        sent = [step for step in trace["steps"] if step["kind"] == "sent"]
        assert starts[0] == min(step["time_ns"] for step in sent)
    # With losses the slowest ones have lost a packet, and it is marked.
    assert any(step["end"] for trace in found for step in trace["steps"])


def test_each_drop_loss_and_double_is_that_of_its_packet(tmp_path):
    """All fragments' marks together are what the links have counted; a packet waits in no queue for
    longer than the queue is; and each comes out as often as it went in."""
    links = ", loss: 5 %, duplicate: 5 %, queue: 6 packets"
    folder = made(tmp_path, topology=RACKS, links=links, jobs=ONE)
    results = read(folder)
    setup = _setup_of(results, 0)
    compiled = prepare(setup).compiled
    seen, _ = rerun.survey(setup, compiled)
    wanted = sorted({*seen._first, *(fragment for fragment, _ in seen._had)})
    found, _ = rerun.paths(setup, compiled, wanted)
    marks: Counter[str] = Counter()
    longest_ns = 7 * 320 * 8  # six packets that wait, and the one on the wire, at 1 Gbit/s
    for path in found.values():
        took = Counter(step.cause.number for step in path.steps if step.cause is not None)
        for step in path.steps:
            what = {each for each, _ in step.ends}
            marks.update(each for each, _ in step.ends if each in ENDS)
            if step.kind in ("sent", "left"):
                ways = 2 if "duplicated" in what else 0 if what else 1
                assert step.kind == "sent" and not ways or took[step.number] >= ways, step.end
                if step.kind == "left":
                    assert took[step.number] == ways and step.cause is not None
                    assert 0 <= step.time_ns - step.cause.time_ns <= longest_ns
            if step.kind in ("handled", "arrived") and step.packet.key:
                assert step.cause is not None or step.packet.fragment not in wanted
    counted = results.links[["losses", "queue_drops", "duplicates"]].sum()
    assert marks["lost"] == counted.losses > 10
    assert marks["queue drop"] == counted.queue_drops > 0
    assert marks["duplicated"] == counted.duplicates > 10
    worst = max(found.items(), key=lambda pair: sum(len(step.ends) for step in pair[1].steps))
    figure = lanes.figure(setup, *worst)
    drawn = [line.get_marker() for line in figure.axes[0].get_lines()]
    ended = Counter(what for step in worst[1].steps for what, _ in step.ends)
    assert set(ended) & set(lanes.MARKS)
    for what, mark in lanes.MARKS.items():
        if what != "egress drop":  # which looks like an eviction
            assert drawn.count(mark) == ended[what]


@pytest.mark.parametrize(
    "system", first_of(["double_tree", "ring", "halving_doubling", "colocated_ps"], 1)
)
def test_where_hosts_add_up_the_late_path_adds_up_as_well(system, tmp_path, capsys):
    """From the first partial sum of a fragment to the whole sum at its last worker."""
    folder = made(tmp_path, f"{{name: {system}}}", STAR, ", loss: 1 %", pcap=True)
    first, last = {}, {}
    for file in (folder / "captures").iterdir():
        host, seen = file.stem, set()
        for each in packets(file):
            packet = packet_in(each.frame, 32)
            key = packet.job, packet.fragment
            if packet.extra == 0:
                continue  # an acknowledgement
            if each.direction == INBOUND:
                first[key] = min(first.get(key, each.time_ns), each.time_ns)
            elif packet.extra % 2 == 0 and (key, host) not in seen:  # the whole sum
                seen.add((key, host))
                last[key] = max(last.get(key, 0), each.time_ns)
    wanted = sorted((last[key] - first[key] for key in last), reverse=True)[:3]
    found = traced(folder, capsys, "--slowest", "3")
    assert [trace["late_ns"] for trace in found] == wanted
    for trace in found:
        starts = [wait["begin_ns"] for wait in trace["waits"]]
        ends = [wait["end_ns"] for wait in trace["waits"]]
        assert starts[1:] == ends[:-1] and trace["late_ns"] == ends[-1] - starts[0] > 0


def test_as_text_with_a_picture(tmp_path, capsys):
    folder = made(tmp_path)
    picture = tmp_path / "lanes.svg"
    words = ["trace", str(folder), "--slowest", "2", "--picture", str(picture)]
    assert commands.main(words) == 0
    out, err = capsys.readouterr()
    assert out.count("where it waited") == 2 and "ina.job == " in out
    assert re.search(r"(allocations|preemptions); aggregator \d+: ", out) and "lanes-2.svg" in err
    assert sorted(each.name for each in tmp_path.glob("*.svg")) == ["lanes-1.svg", "lanes-2.svg"]
    assert (tmp_path / "lanes-1.svg").read_text().startswith("<?xml")


RANKS = """
name: gpt
runtime: virtual
topology: {kind: star, hosts: 5}
links: {bandwidth: 100 Gbit/s, delay: 1 us, loss: 1 %%}
system: %s
memory: {aggregators: 512}
values_per_packet: 256
jobs:
  - name: gpt
    model: {transformer: llama2-7b, sequence: 4096, global_batch: 4, layers: 1}
    parallel: {tp: 2, dp: 2}
    workers: 4
    iterations: 1
    scale: 0.0005
"""


@pytest.mark.parametrize("system", first_of(["switchml", "esa"], 1))
def test_each_name_that_is_printed_can_be_asked_for(system, tmp_path, capsys):
    """Those of a program's groups too, and the example of an error."""
    path = tmp_path / "gpt.yaml"
    path.write_text(RANKS % system)
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report"]) == 0
    folder = find(tmp_path)[-1]
    setup = _setup_of(read(folder), 0)
    for number in (*range(setup.platform.numbers), 60_000):
        for fragment in (Fragment(number, 0), Fragment(number, 2144)):
            assert fragment_of(setup, title_of(setup, fragment)) == fragment
    (slowest,) = traced(folder, capsys, "--slowest", "1")
    assert "gpt/group " in slowest["fragment"]
    (again,) = traced(folder, capsys, "--fragment", slowest["fragment"])
    assert again == slowest
    for word in ("nonsense", "gpt/0/fc:3"):
        assert commands.main(["trace", str(folder), "--fragment", word]) == 2
        example = capsys.readouterr().err.rpartition("such as ")[2].strip()
        (trace,) = traced(folder, capsys, "--fragment", example)
        assert trace["steps"]


@pytest.mark.parametrize(
    "words, message",
    [
        (("--fragment", "a/9/fc:0"), "job a has iterations 0 to 1, not 9"),
        (("--fragment", "c/0/fc:0"), "there is no job 'c'; jobs are a, b"),
        (("--fragment", "a/0/fcc:0"), "no tensor 'fcc'; did you mean fc"),
        (("--fragment", "a/0/fc:99999999"), "tensor fc has positions 0 to "),
        (("--fragment", "nonsense"), "allowed: JOB/ITERATION/TENSOR:POSITION or JOB#NUMBER"),
        (("--fragment", "a#99999999"), "no packet of it was seen"),
        (("--fragment", "a/0/fc:0", "--repetition", "1"), "the run has 0 to 0"),
        (
            ("--fragment", "a/0/fc:0", "--picture", "x.gif"),
            "x.gif: name a file that ends in .pdf, .png or .svg",
        ),
        ((), "one of the arguments --fragment --slowest --first-evicted is required"),
    ],
)
def test_mistakes_are_named(words, message, shared, capsys):
    capsys.readouterr()
    assert commands.main(["trace", str(shared), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return made(tmp_path_factory.mktemp("shared"))
