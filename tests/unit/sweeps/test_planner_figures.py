"""The figures that compare planners, from their commands to their files."""

from __future__ import annotations

import pandas as pd
import pytest
from p4fabric_testing.matrix import first_of

from testbed.cli import main as commands
from testbed.routing.planners import PLANNERS, make_plan
from testbed.sweeps import planner_figures
from testbed.sweeps.figures import OF_PLANS
from testbed.sweeps.planner_scenarios import Scenario
from tests.support.plan_networks import example

LITTLE = Scenario("little", "little", "leaf_spine", {"leaves": 3, "spines": 2, "hosts": 3})


@pytest.mark.parametrize("name", first_of(OF_PLANS, 1))
def test_a_figure_is_made_by_its_command(name, tmp_path, monkeypatch, capsys) -> None:
    points = [planner_figures.Point(LITTLE, 3, 1)]
    monkeypatch.setitem(planner_figures.POINTS, f"{name}-quick", points)
    command = ["figure", name, "--quick", "--results", str(tmp_path), "--processes", "1"]
    assert commands.main(command) == 0
    folder = tmp_path / f"{name}-quick"
    data = pd.read_csv(folder / "data.csv")
    assert set(data.planner) == set(PLANNERS) and set(data.workers) == {3}
    drawn = pd.read_csv(folder / "figures" / f"{name}.csv")
    assert len(drawn) and drawn.notna().to_numpy().sum()
    for ending in (".pdf", ".png"):
        assert (folder / "figures" / f"{name}{ending}").stat().st_size > 5000
    # A second call plans nothing anew.
    capsys.readouterr()
    assert commands.main(command) == 0
    assert "0 left" in capsys.readouterr().out
    assert commands.main([*command, "--scale", "2"]) == 2


def test_memory_limits_what_is_aggregated() -> None:
    """Little's law by hand: S1's three workers at 3 Gbit/s, frames of 326 B, hosts that differ by
    0.1 ms: 3e9 / 8 / 326 x 1e-4 = 115.0 aggregators; W4..W6 and W7, W8 as many at S2 and S3."""
    network, jobs = example()
    plan = make_plan(network, jobs, "grid-links")
    assert planner_figures.with_memory(plan, 0, network.frame_bytes) == (1, 24e9)
    slots, aggregated = planner_figures.with_memory(plan, 100_000, network.frame_bytes)
    assert slots == 115 and aggregated == 24e9
    slots, aggregated = planner_figures.with_memory(plan, 10_000_000, network.frame_bytes)
    assert slots == 11503
    assert aggregated == pytest.approx(24e9 * planner_figures.SLOTS / 11503, rel=1e-3)
