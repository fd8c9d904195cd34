"""The sweeps of bench/: what the command line changes, and the table of what was measured."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError

from bench import harness
from testbed.traffic.trace import load_trace


def test_values_of_the_command_line_replace_those_of_the_file():
    """Also where the file varies several keys together; models have the size that is asked for."""
    changes = ["jobs[*].model=alexnet,vgg16", "system={name: grid, window: 8}", "seed=4"]
    bench = harness.load("losses", [*changes, "memory.aggregators=500", "bench.values=1000"])
    found = [point.experiment for point in bench.sweep.points]
    assert [each.jobs[0].model for each in found] == ["alexnet", "vgg16"]
    for each in found:
        assert each.memory.aggregators == 500 and each.system.window == 8 and each.seed == 4
        for job in each.jobs:
            assert job.scale * load_trace(job.model).values == pytest.approx(1000, rel=0.1)
            assert job.compute_scale == pytest.approx(0.1 * job.scale, rel=0.1)
    assert bench.columns == ["sent again", "JCT ms"]
    larger = harness.load("losses", ["jobs[*].model=alexnet", "memory.aggregators=500"]).sweep
    assert len({point.label for point in larger.points}) == 13, "all systems are still there"
    assert all(point.values.get("memory.aggregators", 500) == 500 for point in larger.points)
    columns = harness.load("end_to_end", ["bench.columns=worker MB,server MB"]).columns
    assert columns == ["worker MB", "server MB"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("--fast", "losses: found '--fast'; allowed: KEY=VALUE,..."),
        ("bench.columns=speed", "bench.columns: found 'speed'; allowed: packets/s, GB/s"),
        ("links.los=0 %", "links.los"),
    ],
)
def test_a_change_that_cannot_be_is_told(change, said):
    with pytest.raises(UserError) as told:
        harness.load("losses", ["jobs[*].model=alexnet", "system=esa", change])
    assert said in str(told.value)


def test_the_table_has_medians_and_ratios_of_the_same_point():
    changes = ["jobs[*].model=resnet50,vgg16", "jobs[*].scale=0.5", "system=esa,ring"]
    bench = harness.load("scales", changes)
    bench.rounds = 3
    times = {"resnet50, esa": [3, 2, 8], "resnet50, ring": [6, 9, 4], "vgg16, ring": [1, 1, 1]}
    found = []
    for point in bench.sweep.points:
        name = f"{point.values['jobs[*].model']}, {point.values['system']}"
        rounds = [[float(each)] for each in times.get(name, [])]
        found.append(harness.Measured(point, rounds, ["ok", "degraded", "ok"][: len(rounds)]))
    head, *rows = harness.rows(bench, found)
    keys = ["jobs[*].scale", "jobs[*].model", "system"]
    assert head == [*keys, "JCT ms / scale", "ratio", "fidelity", "rounds"]
    assert {tuple(row[1:3]): row[3:] for row in rows} == {
        ("resnet50", "esa"): ["3.00", "1.000", "ok/degraded", "3.00, 2.00, 8.00"],
        ("resnet50", "ring"): ["6.00", "2.000", "ok/degraded", "6.00, 9.00, 4.00"],
        ("vgg16", "esa"): ["failed", "", "", ""],
        ("vgg16", "ring"): ["1.00", "-", "ok/degraded", "1.00, 1.00, 1.00"],
    }
