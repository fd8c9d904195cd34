"""Pictures of plans, and the figures that compare planners, from their commands to their files."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from testbed.cli import main as commands
from testbed.cli import plan_picture
from testbed.routing.planners import PLANNERS, make_plan
from testbed.sweeps import planner_comparison as planner_figures
from testbed.sweeps.planner_scenarios import SCENARIOS, Scenario, draw
from tests.support.paths import GRID_EXAMPLE
from tests.support.plan_networks import example

LITTLE = Scenario("little", "little", "leaf_spine", {"leaves": 3, "spines": 2, "hosts": 3})


def texts(figure, panel):
    return [text.get_text() for text in figure.axes[panel].texts]


def test_a_picture_shows_loads_and_rates() -> None:
    network, jobs = example()
    plans = [make_plan(network, jobs, name) for name in ("none", "nearest", "grid-links")]
    figure = plan_picture.draw(network, plans)
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles[1] == "nearest: 2.4375 Gbit/s, LP bound 3"
    none, nearest, links = (texts(figure, panel) for panel in range(3))
    assert {"S1", "W4", "PS", "1 / 3", "3 / 3", "9 / 9", "1.5"} <= set(none)
    assert nearest.count("2.4375") == 4 and "6.75 / 9" in nearest
    assert links.count("3 / 3") == 3


def test_a_picture_of_a_large_network_has_no_hosts() -> None:
    network, jobs = draw(SCENARIOS["fat-tree"], workers=10, seed=1)
    figure = plan_picture.draw(network, [make_plan(network, jobs, "nearest", paths=2)])
    assert texts(figure, 0) == []
    places = plan_picture.positions(network)
    assert len({round(places[switch.name][1], 3) for switch in network.switches}) == 3  # layers


def test_the_command_draws(tmp_path, capsys) -> None:
    path = tmp_path / "example.png"
    words = ["plan", str(GRID_EXAMPLE), "--planner", "none,grid-links", "--picture", str(path)]
    assert commands.main(words) == 0
    out = capsys.readouterr().out
    assert "grid-links" in out and path.stat().st_size > 5000
    assert commands.main([*words, "--json"]) == 2
    assert "name one planner" in capsys.readouterr().err
    assert commands.main(["plan", str(GRID_EXAMPLE), "--picture", "x.doc"]) == 2
    assert ".pdf" in capsys.readouterr().err


@pytest.mark.parametrize("name", planner_figures.FIGURES)
def test_figures(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(SCENARIOS, "little", LITTLE)
    points = planner_figures._points({"little": (3,)}, 1)
    figure = replace(planner_figures.FIGURES[name], quick=points)
    monkeypatch.setitem(planner_figures.FIGURES, name, figure)
    command = ["figure", name, "--quick", "--results", str(tmp_path)]
    assert commands.main(command) == 0
    folder = tmp_path / f"{name}-quick"
    data = pd.read_csv(folder / "data.csv")
    assert set(data.planner) == set(PLANNERS) and set(data.workers) == {3}
    drawn = pd.read_csv(folder / "figures" / f"{name}.csv")
    assert len(drawn) and drawn.notna().to_numpy().sum()
    for ending in (".pdf", ".png"):
        assert (folder / "figures" / f"{name}{ending}").stat().st_size > 5000
    # A second call plans nothing anew.
    monkeypatch.setattr(planner_figures, "rows_of", None)
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
