"""Charts of jobs: completion and iteration times, packets and bytes at their parameter servers
(PS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data.chart_data import BarChart, BarSeries, bar_series
from testbed.analysis.data.run_summary import (
    interval,
    iteration_times,
    job_names,
    longest_jobs,
)
from testbed.analysis.style import plot_style
from testbed.analysis.style.plot_style import PlotStyle

if TYPE_CHECKING:
    from testbed.results import Results


def jct_by_run(
    per_job: Sequence[pd.DataFrame], styles: Sequence[PlotStyle], max_jobs: int
) -> tuple[BarChart, str]:
    """(chart, what its groups are: "name" or "model"): JCT per job, or per model of more than
    `max_jobs` jobs, and on average; a bar per run. `per_job`: frame "jobs" of each run."""
    by = "name"
    names = _all(per_job, by)
    if len(names) > max_jobs:
        by = "model"
        names = _all(per_job, by)
    groups = [*names, "average"] if len(names) > 1 else names
    samples = [
        {
            group: _mean_jct(jobs if group == "average" else jobs[jobs[by] == group])
            for group in groups
        }
        for jobs in per_job
    ]
    longest = max((each.max() for row in samples for each in row.values() if len(each)), default=0)
    scale, unit = units.time_unit(float(longest))
    series = [bar_series(style, row, scale) for style, row in zip(styles, samples, strict=True)]
    return BarChart(f"JCT ({unit})", unit, tuple(groups), tuple(series)), by


def _all(frames: Sequence[pd.DataFrame], column: str) -> list[str]:
    return list(dict.fromkeys(str(name) for frame in frames for name in frame[column]))


def _mean_jct(jobs: pd.DataFrame) -> pd.Series:
    """Mean JCT in ns of some rows of frame "jobs", per repetition."""
    return jobs.groupby("repetition")["jct_ns"].mean()


def jct_by_job(per_job: pd.DataFrame, beside: float = 0.0) -> BarChart | None:
    """JCT, a bar per job; None when no job ended. `per_job`: frame "jobs" of a run. `beside`: the
    largest value in ns of charts that have the same unit."""
    ended = per_job.dropna(subset=["jct_ns"])
    if not len(ended):
        return None
    scale, unit = units.time_unit(max(beside, float(ended["jct_ns"].max())))
    return _by_job(ended, "jct_ns", f"JCT ({unit})", unit, scale)


def ps_packets_by_job(per_job: pd.DataFrame) -> BarChart | None:
    """PS packets per fragment, a bar per job; None without parameter servers."""
    column = "ps_packets_per_fragment"
    known = per_job.dropna(subset=[column])
    return _by_job(known, column, "packets / fragment", "", 1.0) if len(known) else None


def _by_job(per_job: pd.DataFrame, column: str, axis: str, unit: str, scale: float) -> BarChart:
    series: list[BarSeries] = []
    for number, rows in per_job.groupby("job"):
        name = job_names(rows).iloc[0]
        style = plot_style.job_style(int(number), name)
        series.append(bar_series(style, {name: rows[column]}, scale, int(number)))
    groups = tuple(each.style.title for each in series)
    return BarChart(axis, unit, groups, tuple(series))


def ps_bytes_by_job(per_job: pd.DataFrame, beside: float = 0.0) -> BarChart | None:
    """Bytes on the links of the parameter servers, a bar per job and direction; None without
    servers. `beside`: the largest number of charts that have the same unit."""
    columns = ["ps_link_bytes_in", "ps_link_bytes_out"]
    known = per_job.dropna(subset=columns)
    if not len(known):
        return None
    scale, unit = units.size_unit(max(beside, float(known[columns].max().max())))
    jobs = {job_names(rows).iloc[0]: rows for _, rows in known.groupby("job")}
    styles = (
        PlotStyle("to the PS", plot_style.DIRECTIONS[0], "o", ""),
        PlotStyle("from the PS", plot_style.DIRECTIONS[1], "o", "///"),
    )
    series = [
        bar_series(style, {name: rows[column] for name, rows in jobs.items()}, scale)
        for column, style in zip(columns, styles, strict=True)
    ]
    return BarChart(unit, unit, tuple(jobs), tuple(series))


def ps_packets_by_run(runs: Sequence[pd.DataFrame], styles: Sequence[PlotStyle]) -> BarChart | None:
    """PS packets per fragment, a bar per run; None where no run has parameter servers. `runs`:
    frame "run" of each."""
    series = [
        bar_series(style, {style.title: run["ps_packets_per_fragment"]})
        for run, style in zip(runs, styles, strict=True)
    ]
    series = [each for each in series if each.bars]
    groups = tuple(each.style.title for each in series)
    return BarChart("packets / fragment", "", groups, tuple(series)) if series else None


@dataclass(frozen=True)
class IterationLine:
    """The iteration times of a job. `times`: indexed by iteration, float64 columns mean, min and
    max in the chart's unit."""

    job: int
    name: str
    times: pd.DataFrame


@dataclass(frozen=True)
class IterationChart:
    """A line per job. `repeated`: min and max are the 95 % confidence interval over repetitions;
    else they are the fastest and the slowest worker."""

    unit: str
    repeated: bool
    lines: tuple[IterationLine, ...]


def iteration_lines(results: Results, beside: float = 0.0) -> IterationChart | None:
    """Time of each iteration of the jobs with the longest JCTs, the mean over workers and
    repetitions; None when none ended. `beside`: the largest time in ns of charts that have the same
    unit."""
    times = iteration_times(results).dropna(subset=["time_ns"])
    times = times[times["job"].isin(longest_jobs(results.jobs)["job"])]
    if not len(times):
        return None
    scale, unit = units.time_unit(max(beside, float(times["time_ns"].max())))
    names = job_names(results.jobs)
    repeated = times["repetition"].nunique() > 2
    lines = []
    for job, rows in times.groupby("job"):
        spread = rows.groupby("iteration")["time_ns"].agg(["mean", "min", "max"]) / scale
        if repeated:
            means = rows.groupby(["iteration", "repetition"])["time_ns"].mean() / scale
            half = means.groupby("iteration").agg(lambda values: interval(values)[1])
            spread["min"], spread["max"] = spread["mean"] - half, spread["mean"] + half
        lines.append(IterationLine(int(job), str(names.get(job, job)), spread))
    return IterationChart(unit, repeated, tuple(lines))
