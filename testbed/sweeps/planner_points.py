"""Which points the figures grid-rate and grid-skew plan for (planner_comparison.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WORKERS = {
    "leaf-spine": (40, 80, 120, 160, 200, 250),
    "fat-tree": (40, 80, 120, 160, 190),
}
SEEDS = 3
SKEW_WORKERS = 64


@dataclass(frozen=True)
class Point:
    """What is planned for once, by all planners."""

    scenario: str
    workers: int
    seed: int


@dataclass(frozen=True)
class PlannerFigure:
    """A figure: its points, in full size and quick, and what a plan contributes to its table."""

    name: str
    claim: str
    full: tuple[Point, ...]
    quick: tuple[Point, ...]


def points(workers: Mapping[str, Sequence[int]], seeds: int) -> tuple[Point, ...]:
    """Every scenario with each of its numbers of workers, with seeds 1 to `seeds`."""
    return tuple(
        Point(scenario, count, seed)
        for seed in range(1, seeds + 1)
        for scenario, counts in workers.items()
        for count in counts
    )


FIGURES = {
    each.name: each
    for each in (
        PlannerFigure(
            "grid-rate",
            "Choosing where to aggregate, with links in mind, keeps the slowest worker fast as"
            " workers are added.",
            points(WORKERS, SEEDS),
            points({"leaf-spine": (40,), "fat-tree": (40,)}, 1),
        ),
        PlannerFigure(
            "grid-skew",
            "The further apart a fragment's copies arrive, the more aggregators are held, and the"
            " more memory limits what switches can add.",
            points({"leaf-spine": (SKEW_WORKERS,), "fat-tree": (SKEW_WORKERS,)}, SEEDS),
            points({"fat-tree": (16,)}, 1),
        ),
    )
}
