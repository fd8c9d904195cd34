"""Runs reach the rates that their plans state, in random networks in virtual time."""

from __future__ import annotations

import pytest

from tests.support.grid import plan_of
from tests.support.random_graphs import (
    graph_text,
    planned_experiment,
    share_of_stated_rate,
)

REACHED = 0.97
PLANNERS = ("none", "nearest", "nearest-anywhere", "grid", "grid-links", "two-level")
GRAPHS = range(1, 51, 8)  # all from 1 to 50 have been run so
# Those that run always: results share a direction with gradients, of the same job or of another.
ALWAYS = [(34, "nearest"), (27, "grid"), (47, "grid-links"), (37, "two-level")]
CASES = [
    *ALWAYS,
    *(
        pytest.param(seed, planner, marks=pytest.mark.slow)
        for planner in PLANNERS
        for seed in GRAPHS
        if (seed, planner) not in ALWAYS
    ),
]


@pytest.mark.parametrize(("seed", "planner"), CASES)
def test_a_run_reaches_the_stated_rate(seed, planner, tmp_path) -> None:
    path = tmp_path / "network.txt"
    path.write_text(graph_text(seed))
    assert share_of_stated_rate(planned_experiment(path, planner)) >= REACHED


@pytest.mark.parametrize(
    "options",
    [
        ", memory: atp",
        pytest.param(", memory: plain", marks=pytest.mark.slow),
        pytest.param(", collision: drop", marks=pytest.mark.slow),
    ],
)
def test_sums_of_sums_are_right_with_every_memory(options, tmp_path) -> None:
    path = tmp_path / "network.txt"
    path.write_text(graph_text(13))
    spec = planned_experiment(path, "two-level", options)
    assert any(group.parent for job in plan_of(spec).jobs for group in job.groups)
    assert share_of_stated_rate(spec) >= REACHED


def test_a_plan_that_ignores_results_states_more_than_a_run_reaches(tmp_path) -> None:
    path = tmp_path / "network.txt"
    path.write_text(graph_text(47))
    ignored = planned_experiment(path, "grid-links", ", results: ignored")
    counted = planned_experiment(path, "grid-links")
    assert plan_of(ignored).results == "ignored"
    assert plan_of(ignored).rate_bps > plan_of(counted).rate_bps
    assert share_of_stated_rate(ignored) < 0.9
