"""`run.py figure grid-rate` and `grid-skew`: the planners compared on networks of data centres.

These figures plan and run nothing, so they are not sweeps of an experiment file. A point is a
scenario, a number of workers and a seed; points are written as they are done, and a stopped command
goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd

from testbed.errors import UserError
from testbed.results import hand_over
from testbed.routing.plan import Plan
from testbed.routing.planners import PLANNERS, make_plan
from testbed.sweeps.planner_points import FIGURES, Point
from testbed.sweeps.planner_scenarios import SCENARIOS, draw

SPREADS_NS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
SLOTS = 512  # of a switch, where memory limits what it aggregates


def run_figure(name: str, results: Path, quick: bool, processes: int | None) -> int:
    """Plan what has not been planned yet, and draw. Returns the exit code."""
    from testbed.sweeps import planner_figures

    figure = FIGURES[name]
    folder = results / (f"{name}-quick" if quick else name)
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror}") from None
    data = folder / "data.csv"
    points = figure.quick if quick else figure.full
    frame = _known(data)
    done = {Point(*key) for key in zip(frame.scenario, frame.workers, frame.seed, strict=True)}
    left = [point for point in points if point not in done]
    print(f"{name}: {figure.claim}\n{len(points)} points, {len(left)} left")
    for point, rows in _plan_all(left, processes):
        new = pd.DataFrame(rows)
        frame = new if frame.empty else pd.concat([frame, new], ignore_index=True)
        frame.to_csv(data, index=False)
        print(f"{point.scenario}, {point.workers} workers, seed {point.seed}", flush=True)
    wanted = pd.DataFrame([vars(point) for point in points])
    frame = frame.merge(wanted)
    draw_it = planner_figures.rate if name == "grid-rate" else planner_figures.skew
    for path in draw_it(frame, folder / "figures" / name):
        print(path)
    for path in (folder, folder / "figures", data):
        hand_over(path)
    return 0


def _known(path: Path) -> pd.DataFrame:
    if path.exists():
        return pd.read_csv(path)
    return pd.DataFrame(columns=["scenario", "workers", "seed"])


def _plan_all(
    points: Sequence[Point], processes: int | None
) -> Iterator[tuple[Point, list[dict[str, object]]]]:
    """(point, its rows), one after the other or as they come in from several processes."""
    if processes is None or processes == 1:
        for point in points:
            yield point, rows_of(point)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from zip(points, pool.map(rows_of, points), strict=True)


def rows_of(point: Point) -> list[dict[str, object]]:
    """What each planner makes of a point: one row per planner and host spread."""
    network, jobs = draw(SCENARIOS[point.scenario], point.workers, point.seed)
    rows = []
    for planner in PLANNERS:
        plan = make_plan(network, jobs, planner, seed=point.seed)
        for spread_ns in SPREADS_NS:
            slots, aggregated_bps = with_memory(plan, spread_ns, network.frame_bytes)
            rows.append(
                {
                    **vars(point),
                    "planner": planner,
                    "rate_bps": float(plan.rate_bps),
                    "lp_bound_bps": None if plan.bound_bps is None else float(plan.bound_bps),
                    "aggregates": sum(len(job.groups) for job in plan.jobs),
                    "host_spread_ns": spread_ns,
                    "slots": slots,
                    "aggregated_bps": aggregated_bps,
                }
            )
    return rows


def with_memory(plan: Plan, spread_ns: int, frame_bytes: int) -> tuple[int, float]:
    """What arrival skew costs: the aggregators in use at the fullest switch, and the sum of what
    all switches aggregate in bit/s if each has SLOTS of them.

    An aggregator is in use from a fragment's first copy to its last: for the difference of the
    workers' path delays and `spread_ns`, by which hosts differ. By Little's law rate times that
    time are in use; a switch with fewer takes in as much less. `plan`: of a network whose hosts do
    not differ."""
    needed: dict[str, float] = {}
    for job in plan.jobs:
        for group in job.groups:
            hold_ns = group.hold_ns + (spread_ns if len(group.workers) > 1 else 0)
            in_use = float(group.rate_bps) * hold_ns / (1e9 * 8 * frame_bytes)
            needed[group.node] = needed.get(group.node, 0.0) + max(in_use, 1.0)
    aggregated = sum(
        float(plan.switches[name].load_bps) * min(1.0, SLOTS / count)
        for name, count in needed.items()
    )
    return round(max(needed.values(), default=0.0)), aggregated
