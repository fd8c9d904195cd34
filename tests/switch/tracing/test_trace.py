"""`ina trace`: every hop of a fragment's packets, as they were in the run, and where it waited."""

from __future__ import annotations

import json
import re

import pytest
from p4fabric.base.config.pcapng import INBOUND, packets
from p4fabric_testing.matrix import first_of

from testbed.cli import main as commands
from testbed.cli.commands.trace import _setup_of
from testbed.experiment import load_text
from testbed.results import find, read
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.tracing import rerun
from testbed.tracing.fragments import Fragment, fragment_of, title_of
from testbed.tracing.packets import packet_in
from testbed.tracing.path import HANDLED

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


def test_the_first_eviction_names_who_did_it(tmp_path, capsys):
    folder = made(tmp_path)
    (trace,) = traced(folder, capsys, "--first-evicted")
    (eviction,) = [step for step in trace["steps"] if step.get("evicted_by")][:1]
    assert eviction["event"] == "preemptions"  # what it says of it: test_traces_by_packet.py
    assert eviction["before"]["fragment"] == trace["fragment"] != eviction["evicted_by"]


@pytest.mark.parametrize("system", ["{name: esa, window: 64}", "{name: ring}"])
def test_the_slowest_are_those_of_the_captures(system, tmp_path, capsys):
    """The second run is the first one, to the nanosecond."""
    folder = made(tmp_path, system, links=", loss: 1 %", pcap=True)
    first, last = {}, {}
    for file in (folder / "captures").iterdir():
        host, seen = file.stem, set()
        for each in packets(file):
            packet = packet_in(each.frame, 32)
            key = packet.job, packet.fragment
            if each.direction == INBOUND and (packet.is_gradient or packet.is_part_of_hosts):
                first[key] = min(first.get(key, each.time_ns), each.time_ns)
            elif (packet.is_result or packet.is_whole_of_hosts) and (
                each.direction != INBOUND and (key, host) not in seen
            ):
                seen.add((key, host))
                last[key] = max(last.get(key, 0), each.time_ns)
    wanted = sorted((last[key] - first[key] for key in last), reverse=True)[:3]
    found = traced(folder, capsys, "--slowest", "3")
    assert [trace["late_ns"] for trace in found] == wanted


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
