"""`ina figure grid-rate` and `grid-skew`: the planners compared on networks of data centres.

A point is a scenario, a number of workers and a seed. Nothing of it is run: every planner makes its
plan. Apart from that, points are those of a sweep: they are worked out side by side, each is kept
as it ends, and a stopped command goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole
from p4fabric.base.steps import step
from rich.console import Console

from testbed.analysis.figures import figure_files
from testbed.analysis.style import plot_style
from testbed.results import hand_over
from testbed.results.environment import code
from testbed.routing.plan import Plan
from testbed.routing.planners import PLANNERS, make_plan
from testbed.runner import AS_IT_IS
from testbed.sweeps.figures import OF_PLANS
from testbed.sweeps.planner_scenarios import SCENARIOS, Scenario, draw
from testbed.sweeps.point_pool import executor, run_points
from testbed.sweeps.point_process import Outcome
from testbed.sweeps.sweep_runner import PointReporter

SPREADS_NS = (0, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
SLOTS = 512  # of a switch, where memory limits what it aggregates
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Point:
    """One network, planned for by all planners. `key`: its file in the figure's folder."""

    scenario: Scenario
    workers: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.scenario.name}-{self.workers}-{self.seed}.csv"

    @property
    def label(self) -> str:
        return f"{self.scenario.name}, {self.workers} workers, seed {self.seed}"

    @property
    def experiment(self) -> Point:
        return self


def _points(workers: Mapping[str, Sequence[int]], seeds: Sequence[int]) -> list[Point]:
    return [
        Point(SCENARIOS[scenario], count, seed)
        for seed in seeds
        for scenario, counts in workers.items()
        for count in counts
    ]


POINTS = {
    "grid-rate": _points(
        {"leaf-spine": (40, 80, 120, 160, 200, 250), "fat-tree": (40, 80, 120, 160, 190)}, SEEDS
    ),
    "grid-rate-quick": _points({"leaf-spine": (40,), "fat-tree": (40,)}, (1,)),
    "grid-skew": _points({"leaf-spine": (64,), "fat-tree": (64,)}, SEEDS),
    "grid-skew-quick": _points({"fat-tree": (16,)}, (1,)),
}


LEGEND_COLUMNS = 4


def run_figure(name: str, results: Path, quick: bool, processes: int | None) -> int:
    """Plan for the points that are left, and draw. Returns the exit code: 1 if a point failed."""
    version = f"{name}-quick" if quick else name
    folder = results / version
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror}") from None
    points = POINTS[version]
    left = [point for point in points if not (folder / point.key).exists()]
    console = Console()
    console.print(f"{name}: {OF_PLANS[name]}\n{len(points)} points, {len(left)} left")
    reporter: PointReporter[Point] = PointReporter(
        len(left), processes or os.cpu_count() or 1, console
    )
    if left:
        with executor(processes) as pool, step(console, reporter.state):
            for point, outcome in run_points(pool, left, folder, plan_point):
                reporter.ended(point, outcome.error)
    done = [folder / point.key for point in points if (folder / point.key).exists()]
    if done:
        frame = pd.concat(map(pd.read_csv, done), ignore_index=True)
        write_whole(folder / "data.csv", frame.to_csv(index=False))
        others = frame[frame.get("code", "") != code()]
        if number := len(others[["scenario", "workers", "seed"]].drop_duplicates()):
            console.print(
                f"{number} points were planned by other code; to plan them again, remove {folder}",
                **AS_IT_IS,
            )
        path = folder / "figures" / name
        with rc_context(plot_style.rc()):
            titles = {point.scenario.name: point.scenario.title for point in points}
            figure, table = (rate if name == "grid-rate" else skew)(frame, titles)
            handles, labels = figure.axes[0].get_legend_handles_labels()
            seeds = int(table.seeds.max())
            figure.legend(
                handles,
                labels,
                loc="outside lower center",
                ncols=min(len(labels), LEGEND_COLUMNS),
                title=f"bars: smallest and largest of {seeds} draws" if seeds > 1 else None,
            )
            for drawn in figure_files.save(figure, path):
                print(drawn)
        write_whole(path.with_suffix(".csv"), table.to_csv(index=False))
        print(path.with_suffix(".csv"))
    hand_over(folder, below=True)
    return 1 if reporter.failed else 0


def plan_point(point: Point, path: str) -> Outcome:
    """Write each planner's numbers for a point, a row per planner and host spread."""
    network, jobs = draw(point.scenario, point.workers, point.seed)
    rows, made_by = [], code()
    for planner in PLANNERS:
        plan = make_plan(network, jobs, planner, seed=point.seed)
        for spread_ns in SPREADS_NS:
            slots, aggregated_bps = with_memory(plan, spread_ns, network.frame_bytes)
            rows.append(
                {
                    "scenario": point.scenario.name,
                    "workers": point.workers,
                    "seed": point.seed,
                    "planner": planner,
                    "rate_bps": float(plan.rate_bps),
                    "lp_bound_bps": None if plan.bound_bps is None else float(plan.bound_bps),
                    "aggregates": sum(len(job.groups) for job in plan.jobs),
                    "host_spread_ns": spread_ns,
                    "slots": slots,
                    "aggregated_bps": aggregated_bps,
                    "code": made_by,
                }
            )
    write_whole(Path(path), pd.DataFrame(rows).to_csv(index=False))
    return Outcome()


def with_memory(plan: Plan, spread_ns: int, frame_bytes: int) -> tuple[int, float]:
    """The cost of arrival skew: the aggregators in use at the fullest switch, and the sum of what
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


# -- drawing


def rate(frame: pd.DataFrame, titles: dict[str, str]) -> tuple[Figure, pd.DataFrame]:
    """The smallest worker's rate over the number of workers, a panel per scenario, and the numbers
    drawn. `frame`: rows of `plan_point`; `titles`: of its scenarios, by name."""
    frame = frame[frame.host_spread_ns == 0].assign(rate_gbps=frame.rate_bps / 1e9)
    table = _means(frame, "workers", "rate_gbps")
    figure = Figure(figsize=(plot_style.PAGE, 3.0), layout="constrained")
    panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
    for (scenario, title), panel in zip(titles.items(), panels, strict=True):
        _lines(panel, table[table.scenario == scenario], "workers", "rate_gbps")
        panel.set(xlabel="workers", yscale="log", title=title)
    panels[0].set_ylabel("rate of the slowest worker\n/ Gbit/s")
    return figure, table


def skew(frame: pd.DataFrame, titles: dict[str, str]) -> tuple[Figure, pd.DataFrame]:
    """Aggregators needed at the fullest switch, and the sum of what all switches aggregate with a
    memory of fixed size, over the spread of the hosts; arguments and result as those of `rate`."""
    frame = frame[frame.planner != "none"].assign(  # `none` aggregates nothing
        spread_us=frame.host_spread_ns / 1e3, aggregated_tbps=frame.aggregated_bps / 1e12
    )
    table = _means(frame, "spread_us", "slots", "aggregated_tbps")
    figure = Figure(figsize=(plot_style.PAGE, 2.4 * len(titles)), layout="constrained")
    rows = figure.subplots(len(titles), 2, squeeze=False)
    for (scenario, title), row in zip(titles.items(), rows, strict=True):
        part = table[table.scenario == scenario]
        for panel, column, label in (
            (row[0], "slots", "aggregators in use\nat the fullest switch"),
            (row[1], "aggregated_tbps", "aggregated by all switches\n/ Tbit/s"),
        ):
            _lines(panel, part, "spread_us", column)
            panel.set(ylabel=label, xlabel="spread of the hosts / us")
            panel.set_xscale("symlog", linthresh=1)
        # What is 0 in a draw would fill the axis with powers of ten of nothing.
        row[0].set_yscale("log")
        row[0].set_ylim(bottom=max(part.slots.min(), 1) / 2)
        row[0].set_title(title)
    return figure, table


def _means(frame: pd.DataFrame, x: str, *columns: str) -> pd.DataFrame:
    """Means over the seeds, and the smallest and largest value. Draws of a network differ more than
    an interval of three of them could say, and a logarithmic axis has no place for one below 0."""
    rows = []
    for (scenario, planner, at), part in frame.groupby(["scenario", "planner", x], sort=False):
        row = {"scenario": scenario, "planner": planner, x: at, "seeds": part.seed.nunique()}
        for column in columns:
            values = part[column]
            row |= {
                column: values.mean(),
                f"{column}_smallest": values.min(),
                f"{column}_largest": values.max(),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def _lines(panel: Axes, table: pd.DataFrame, x: str, column: str) -> None:
    for name, planner in PLANNERS.items():
        part = table[table.planner == name].sort_values(x)
        if len(part):
            means = part[column]
            ends = means - part[f"{column}_smallest"], part[f"{column}_largest"] - means
            panel.errorbar(
                part[x],
                means,
                yerr=[end.clip(lower=0) for end in ends],  # a mean is rounded
                label=planner.title,
                color=planner.color,
                marker=planner.marker,
                markersize=4,
                linewidth=1,
                capsize=2,
            )
