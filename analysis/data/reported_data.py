"""Measures that the programs of a sweep have reported, per series: over time, and at the end.

A loss is reported step by step, and steps take longer with one system than with another. So the
reports of a repetition are averaged in bins of time, the same for all series of a job, and the
repetitions are compared bin by bin. A bin without a report keeps the value before, as does the time
after a repetition's last report, until the last repetition of the series has ended. Time counts
from the first report: before it, a program loads its libraries and its data, which on a machine
with many ranks takes longer than many steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from p4fabric.base.text_table import Estimate

from testbed.analysis.data.run_summary import estimate
from testbed.analysis.data.sweep_data import Sweep
from testbed.results import Results

BINS = 60


@dataclass(frozen=True)
class ReportedLine:
    """A measure of a job in the runs of one series. `system`: its name.

    `time_s`: float64[n], the ends of the bins, since the first report. `means` and `half_widths`:
    float64[n], over the repetitions; the half width of the 95 % confidence interval is NaN where
    there are too few. `last`: the last report, over the repetitions."""

    series: str
    system: str
    time_s: np.ndarray
    means: np.ndarray
    half_widths: np.ndarray
    last: Estimate


@dataclass(frozen=True)
class Reported:
    """A measure of a job: a line per series."""

    job: str
    measure: str
    lines: tuple[ReportedLine, ...]

    @property
    def over_time(self) -> bool:
        """True if it was reported more than once."""
        return any(len(line.time_s) > 1 for line in self.lines)


def reported(sweep: Sweep) -> list[Reported]:
    """The reports that the sweep's figure shows, job by job, in the order of the file. A
    measure that a job does not report has no entry."""
    assert sweep.figure is not None
    samples: dict[tuple[str, str], dict[tuple[str, str], list[pd.Series]]] = {}
    for point in sweep.points:
        if point.results is None or not point.results.finished:
            continue
        series = (point.series(*sweep.placed), point.system)
        for job, name, values in _reports(point.results, sweep.figure.reported):
            samples.setdefault((job, name), {}).setdefault(series, []).append(values)
    return [
        Reported(job, measure, tuple(_lines(of_series)))
        for (job, measure), of_series in samples.items()
    ]


def _reports(results: Results, measures: tuple[str, ...]) -> Iterator[tuple[str, str, pd.Series]]:
    """(job, measure, values by their time in s since the first of them) for each repetition, of
    the lowest rank that reports it."""
    table = results.measures
    for job in results.jobs.itertuples():
        of_job = table[(table["job"] == job.job) & (table["repetition"] == job.repetition)]
        for name in measures:
            said = of_job[of_job["name"] == name].dropna(subset=["value"])
            said = said[said["worker"] == said["worker"].min()].sort_values("number")
            if len(said):
                time_s = (said["time_ns"] - said["time_ns"].iloc[0]).to_numpy() / 1e9
                yield str(job.name), name, pd.Series(said["value"].to_numpy(), index=time_s)


def _lines(of_series: dict[tuple[str, str], list[pd.Series]]) -> Iterator[ReportedLine]:
    ends = {series: max(each.index[-1] for each in runs) for series, runs in of_series.items()}
    step = max(ends.values()) / BINS or 1.0
    for (series, system), runs in of_series.items():
        count = max(1, int(np.ceil(ends[series, system] / step)))
        binned = pd.DataFrame([_binned(each, step, count) for each in runs])
        known = [number for number in range(count) if binned[number].notna().all()]
        of_bins = [estimate(binned[number]) for number in known]
        yield ReportedLine(
            series,
            system,
            step * (1 + np.array(known, dtype=float)),
            np.array([each.mean for each in of_bins]),
            np.array([each.shown_half_width for each in of_bins]),
            estimate(pd.Series([each.iloc[-1] for each in runs])),
        )


def _binned(values: pd.Series, step: float, count: int) -> pd.Series:
    """The mean of the reports in each of `count` bins of `step` seconds; NaN before the first."""
    bins = np.minimum((values.index.to_numpy() / step).astype(int), count - 1)
    return values.groupby(bins).mean().reindex(range(count)).ffill()
