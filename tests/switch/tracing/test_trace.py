"""`ina trace`: every hop of a fragment's packets, as they were in the run, and where it waited."""

from __future__ import annotations

import json
import re

import pytest
from p4fabric.base.config.pcapng import INBOUND
from p4fabric.base.errors import UserError
from p4fabric_testing.matrix import first_of

from testbed.cli import main as commands
from testbed.cli.commands.trace import _setup_of
from testbed.experiment import load_text
from testbed.protocols import wire
from testbed.results import find, read
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.tracing import replay, rerun
from testbed.tracing.fragments import Fragment, fragment_of, place_of, title_of
from testbed.tracing.packets import fragment_in
from testbed.tracing.path import ARRIVED, HANDLED, Path, Step

JOBS = """
jobs:
  - {name: a, model: resnet50, workers: 3, iterations: 2, scale: 0.002, compute_scale: 0.01}
  - {name: b, model: vgg16, workers: 3, iterations: 2, scale: 0.0005, compute_scale: 0.01}
"""
SMALL = """
values_per_packet: 16
jobs:
  - {name: a, model: resnet18, workers: 3, iterations: 1, scale: 0.0002, compute_scale: 0.01}
  - {name: b, model: vgg16, workers: 3, iterations: 1, scale: 0.00001, compute_scale: 0.01}
"""
STAR = "{kind: star, hosts: 8}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"


def made(
    tmp_path,
    system="{name: esa, window: 64}",
    topology=STAR,
    links="",
    pcap=False,
    jobs=JOBS,
):
    """The results folder of a run, with captures of all ports if `pcap`."""
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
{jobs}"""
    path = tmp_path / "traced.yaml"
    path.write_text(text)
    words = []
    if pcap:
        network = load_text(text).topology_object()
        for switch in network.switches:
            words += [w for port in network.ports(switch) for w in ("--pcap", f"{switch}:{port}")]
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report", *words]) == 0
    return find(tmp_path)[-1]


def traced(folder, capsys, *words) -> list[dict]:
    capsys.readouterr()
    assert commands.main(["trace", str(folder), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["traces"]


def test_the_first_eviction_names_who_did_it(tmp_path, capsys):
    folder = made(tmp_path)
    (trace,) = traced(folder, capsys, "--first-evicted")
    (eviction,) = [step for step in trace["steps"] if step.get("evicted_by")][:1]
    assert eviction["event"] == "preemptions"  # what it says of it: test_traces_by_packet.py
    assert eviction["before"]["fragment"] == trace["fragment"] != eviction["evicted_by"]


def test_without_switch_memory_no_sum_was_evicted(tmp_path, capsys):
    folder = made(tmp_path, "{name: ring}")
    assert commands.main(["trace", str(folder), "--first-evicted"]) == 2
    assert "has no switch memory" in capsys.readouterr().err


@pytest.mark.parametrize("system", ["{name: esa, window: 32}", "{name: ring}"])
def test_captures_say_what_the_second_run_says(system, tmp_path, capsys):
    """To the nanosecond: switches that are made again get what those of the run got. No two packets
    reach a switch at once, whose order captures do not have."""
    ends = [(f"h{n}", f"s{1 + n // 5}") for n in range(1, 9)]
    each = [f"{{between: [{h}, {s}], delay: {5000 + 137 * int(h[1])} ns}}" for h, s in ends]
    links = f", loss: 1 %, duplicate: 1 %, queue: 5 packets, each: [{', '.join(each)}]"
    folder = made(tmp_path, system, RACKS, links, pcap=True, jobs=SMALL)
    setup = _setup_of(read(folder), 0)
    compiled, captured = prepare(setup).compiled, replay.read_captures(setup, folder)
    survey, again = rerun.survey(setup, compiled)[0], replay.survey(captured)
    assert again.late == survey.late and again.evicted == survey.evicted
    assert [late.time_ns for late in survey.late[:3]] == [
        trace["late_ns"] for trace in traced(folder, capsys, "--slowest", "3")
    ]
    wanted = [late.fragment for late in survey.late]
    (found, _), (seen, said) = (
        rerun.paths(setup, compiled, wanted),
        replay.paths(captured, compiled, wanted),
    )
    assert not said
    begin_ns = min(path.steps[0].time_ns for path in found.values())
    for fragment, path in found.items():
        assert _plain(seen[fragment], 0) == _plain(path, begin_ns)
    came = (step for path in found.values() for step in path.steps if step.kind == ARRIVED)
    marks = wire.PARTIAL | wire.REMINDED
    left = [s for s in came if s.packet.is_gradient and s.packet.flags & marks == wire.PARTIAL]
    first = min(left, key=lambda step: step.time_ns, default=None)
    assert survey.evicted == (first and (first.packet.job, first.packet.fragment))
    place = next(each for each in captured.files if each[0] == "s1")
    ours = [
        each
        for each in captured.files[place]
        if each.direction != INBOUND and fragment_in(each.frame)[:2] in wanted
    ]
    captured.files[place].remove(ours[0])
    _, said = replay.paths(captured, compiled, wanted)
    assert len(said) == 1 and said[0].startswith("s1: 1 packets of these fragments left it")


def _plain(path: Path, begin_ns: int) -> list[tuple]:
    """All that a path says, with times since `begin_ns`."""

    def of(step: Step | None) -> tuple:
        if step is None:
            return ()
        own = step.time_ns - begin_ns, step.node, step.kind, step.peer, step.packet, step.event
        return *own, step.before, step.after, step.leaves, step.port, step.copies, step.ends

    # Of parts that hosts sent at once, either one is the first.
    waits = [(w.what.partition(" later than ")[0], w.where, w.time_ns) for w in path.waits]
    return sorted((of(s), of(s.cause), of(s.content)) for s in path.steps) + waits


def test_as_text_with_a_picture(tmp_path, capsys):
    folder = made(tmp_path)
    picture = tmp_path / "lanes.svg"
    words = ["trace", str(folder), "--slowest", "2", "--figure", str(picture)]
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


def test_every_value_has_its_fragment():
    """By a count of all fragments, tensor after tensor and iteration after iteration."""
    text = f"name: counted\nruntime: virtual\ntopology: {STAR}\nsystem: ps{JOBS}"
    setup = set_up(load_text(text.replace("0.002,", "0.00002,").replace("0.0005,", "0.00001,")))
    size = setup.platform.values
    for job, each in enumerate(setup.listed):
        trace, number = each.trace(), 0
        for iteration in range(each.iterations):
            for tensor, (layer, values) in enumerate(zip(trace.layers, trace.sizes, strict=True)):
                for first in range(0, values, size):
                    fragment = Fragment(job, number)
                    place = place_of(setup, fragment)
                    assert place == (each.name, iteration, layer.name, tensor, first)
                    for position in (first, min(first + size, values) - 1):
                        assert (
                            fragment_of(setup, place._replace(position=position).text) == fragment
                        )
                    number += 1
                with pytest.raises(UserError, match=f"has positions 0 to {values - 1}, not"):
                    fragment_of(setup, place._replace(position=values).text)
        assert number == setup.jobs[job].fragments * each.iterations
        with pytest.raises(UserError, match="has iterations 0 to 1, not 2"):
            fragment_of(setup, place._replace(iteration=each.iterations).text)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--fragment", "c/0/fc:0"), "there is no job 'c'; jobs are a, b"),
        (("--fragment", "a/0/fcc:0"), "no tensor 'fcc'; did you mean fc"),
        (("--fragment", "nonsense"), "allowed: JOB/ITERATION/TENSOR:POSITION or JOB#NUMBER"),
        (("--fragment", "a#99999999"), "no packet of it was seen"),
        (("--fragment", "a/0/fc:0", "--repetition", "1"), "the run has 0 to 0"),
        (
            ("--fragment", "a/0/fc:0", "--figure", "x.gif"),
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


FAILING = """
name: failing
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 2}
links: {bandwidth: 1 Gbit/s, delay: 5 us}
system: {name: tree, mode: quotas, window: 8}
memory: {aggregators: 256}
values_per_packet: 64
jobs:
  - {name: a, model: resnet18, workers: 4, iterations: 1, scale: 0.0004, compute_scale: 0}
faults:
  - {at: 40 us, fault: link_down, between: [s1, s3], failover: 30 us}
"""


def test_aggregators_are_those_of_the_trees_of_the_moment():
    """Before a link fails, and after it."""
    setup = set_up(load_text(FAILING))
    wanted = [Fragment(0, 0), Fragment(0, setup.jobs[0].fragments - 1)]
    found, error = rerun.paths(setup, prepare(setup).compiled, wanted)
    assert not error
    roots = []
    for fragment, path in found.items():
        added = [s for s in path.steps if s.kind == HANDLED and s.packet.is_gradient]
        assert {step.after and step.after.fragment for step in added} == {fragment}
        roots.append(added[-1].node)
    assert roots == ["s3", "s4"]
