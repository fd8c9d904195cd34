"""`ina perf` on Mininet, and calls of a program that go by a system and by algorithms of hosts."""

from __future__ import annotations

import json

import pytest

from testbed.cli.main import main
from tests.support.ranks import Ranks
from tests.support.runs import succeeded

WORDS = ["perf", "all_reduce", "--runtime", "mininet", "--ranks", "3", "--iterations", "1"]


@pytest.mark.parametrize(
    "systems",
    [
        "double_tree",
        pytest.param("ring,halving_doubling,colocated_ps,switchml", marks=pytest.mark.slow),
    ],
)
def test_a_collective_is_measured_on_mininet(systems, capsys):
    assert main([*WORDS, "--sizes", "16K", "--system", systems, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [each["system"] for each in points] == systems.split(",")
    for each in points:
        assert each["wrong"] == 0 and each["over_bound"] >= 0.99


def test_calls_go_by_a_system_and_by_algorithms(tmp_path):
    made = Ranks(all=(0, 1, 2))
    for rank in range(3):
        for size in (100, 30_000):
            made.add(rank, "all_reduce", group="all", bytes=size)
        made.add(rank, "reduce_scatter", group="all", bytes=9000)
        made.add(rank, "broadcast", group="all", bytes=5000, peer=1)
    text = f"""
name: routes
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 100 Mbit/s, loss: 0.5 %}}
system: esa
memory: {{aggregators: 128}}
collectives:
  all_reduce: [{{up to: 1 KiB, use: double_tree}}, {{use: esa}}]
  reduce_scatter: [{{use: halving_doubling}}]
  broadcast: [{{use: ring}}]
jobs:
  - {{model: {made.write(tmp_path / "run.et")}, workers: 3, iterations: 3}}
"""
    read = succeeded(text, tmp_path / "results")
    assert read.state == "finished" and read.jobs.exact.all()
    table = read.table("collectives")
    assert set(zip(table["collective"], table["route"], strict=True)) == {
        ("all_reduce", "double_tree"),
        ("all_reduce", "system"),
        ("reduce_scatter", "halving_doubling"),
        ("broadcast", "ring"),
    }
