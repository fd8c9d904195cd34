"""`ina trace` of a run on Mininet: from its captures, with the events of its switch made again."""

from __future__ import annotations

import json

import pytest
from p4fabric.base.config.pcapng import INBOUND

from testbed.cli import main as commands
from testbed.cli.commands.trace import _setup_of
from testbed.results import read
from testbed.tracing.replay import read_captures
from tests.support.runs import succeeded
from tests.support.wire_tap import TAP, Network

TEXT = """
name: traced
topology: {kind: star, hosts: 4}
links: {bandwidth: 10 Mbit/s, delay: 1 ms}
system: {name: esa, window: 16}
memory: {aggregators: 8}
jobs:
  - {name: a, model: alexnet, workers: 3, iterations: 1, scale: 0.0002, compute_scale: 0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    ports = [word for host in range(1, 5) for word in ("--pcap", f"s1:h{host}")]
    return succeeded(TEXT, tmp_path_factory.mktemp("traced") / "results", *ports).folder


def test_what_is_captured_may_be_on_a_wire(folder):
    captured = read_captures(_setup_of(read(folder), 0), folder)
    network = Network(captured.setup)
    network.live = True
    for (switch, port), rows in captured.files.items():
        ends = switch, captured.ports.neighbour(switch, port)
        for each in rows:
            link = network.link(*(ends[::-1] if each.direction == INBOUND else ends))
            TAP.note(network, link, each.frame)
    assert len(network.frames) > 1000


def traced(folder, capsys, *words):
    capsys.readouterr()
    assert commands.main(["trace", str(folder), *words, "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out)["traces"], err


def test_all_fragments_events_add_up_to_the_runs_counters(folder, capsys):
    """The switch that is made again counts what the switch of the run has counted."""
    results = read(folder)
    fragments = int(results.jobs.fragments.iloc[0])
    names = [word for n in range(fragments) for word in ("--fragment", f"a#{n}")]
    found, _ = traced(folder, capsys, *names)
    counted = results.switch_counters.groupby("counter").value.sum()
    again = [
        (step["event"], step["number"])
        for trace in found
        for step in trace["steps"]
        if step["kind"] == "handled" and step["packet"]["fragment_title"] == trace["fragment"]
    ]
    for event in ("completions", "results_passed"):
        seen = sum(name == event for name, _ in again)
        # Where the switch of the run was late, a few packets have met another order.
        assert abs(seen - counted[event]) <= max(2, counted[event] // 20), event


def test_without_captures_it_says_what_to_type(folder, tmp_path, capsys):
    for name in ("status.json", "experiment.yaml", "environment.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tables").mkdir()
    for path in (folder / "tables").iterdir():
        (tmp_path / "tables" / path.name).write_bytes(path.read_bytes())
    assert commands.main(["trace", str(tmp_path), "--slowest", "1"]) == 2
    assert "--pcap for every port, such as" in capsys.readouterr().err
    (tmp_path / "captures").mkdir()
    one = folder / "captures" / "s1-1.pcapng"
    (tmp_path / "captures" / one.name).write_bytes(one.read_bytes())
    found, said = traced(tmp_path, capsys, "--fragment", "a#3")
    assert "its captures lack --pcap s1:h2 --pcap s1:h3 --pcap s1:h4" in said
    assert {step["kind"] for step in found[0]["steps"]} == {"sent", "arrived"}
