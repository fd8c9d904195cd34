"""Charts as plain data.

Each chart is prepared once: values in the unit that its axis names, in the order in which they are
drawn, with the style of every series. figures/ draws it with matplotlib, html/ with Plotly. Charts
of one kind only have their dataclasses beside the function that prepares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from p4fabric.base import units
from p4fabric.base.text_table import Estimate

from testbed.analysis.data.run_summary import estimate
from testbed.analysis.style.plot_style import PlotStyle

SPARSE = 200  # samples


@dataclass(frozen=True)
class Bar:
    """A bar of `group`: float64[repetitions], one known value for each, in the chart's unit."""

    group: str
    samples: np.ndarray

    @cached_property
    def estimate(self) -> Estimate:
        return estimate(pd.Series(self.samples))


@dataclass(frozen=True)
class BarSeries:
    """Bars of one style, at most one per group. `job`: whose they all are; None: no one job's."""

    style: PlotStyle
    bars: tuple[Bar, ...]
    job: int | None = None


@dataclass(frozen=True)
class BarChart:
    """Bars side by side in groups. `unit` is that of all samples, "" for a plain number."""

    axis: str
    unit: str
    groups: tuple[str, ...]
    series: tuple[BarSeries, ...]

    @property
    def interval(self) -> str:
        """See `interval_name`."""
        return interval_name(bar.estimate for each in self.series for bar in each.bars)


def interval_name(estimates: Iterable[Estimate]) -> str:
    """Kind of the intervals of a chart's estimates, with the number of samples; "" where none is
    shown."""
    counts = [each.count for each in estimates if each.shown_half_width > 0]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"95 % confidence interval, n = {low}{f' to {high}' if high > low else ''}"


def bar_series(
    style: PlotStyle, samples: Mapping[str, pd.Series], scale: float = 1.0, job: int | None = None
) -> BarSeries:
    """The bars of `samples` (group -> a value for each repetition) / `scale`. A group without a
    known value has no bar."""
    known = {group: values.astype("float64").dropna() for group, values in samples.items()}
    bars = [Bar(group, values.to_numpy() / scale) for group, values in known.items() if len(values)]
    return BarSeries(style, tuple(bars), job)


@dataclass(frozen=True)
class Area:
    """One of stacked areas: float64[samples] of height. `job`: whose it is; None: no one job's."""

    title: str
    color: str
    hatch: str
    heights: np.ndarray
    job: int | None = None


@dataclass(frozen=True)
class AreaChart:
    """Areas over time, from the lowest to the highest. `time_ns`: int64[steps], the time of each
    sample, or of the first of those that were thinned to one mean; `samples`: their number before;
    `every_ns`: the time between two of them."""

    title: str
    capacity: int
    time_ns: np.ndarray
    areas: tuple[Area, ...]
    samples: int
    every_ns: float

    @property
    def sparse(self) -> bool:
        """True for so few samples that each is drawn as a bar, with gaps: of what was between them
        nothing is known."""
        return self.samples <= SPARSE

    @property
    def bar_ns(self) -> float:
        """The width of such a bar: of most, nothing lies on the next one."""
        steps = np.diff(self.time_ns)
        return 0.6 * float(np.quantile(steps, 0.05)) if len(steps) else 1.0

    @property
    def note(self) -> str:
        """Number of samples, and their treatment."""
        count, every = units.number(self.samples), units.time(self.every_ns)
        shown = len(self.time_ns)
        means = f", drawn as {units.number(shown)} means" if shown < self.samples else ""
        return f"{count} samples, one every {every}{means}"


def thin(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Rows, `most` or fewer, each the mean of neighbours and at the first one's index."""
    if len(frame) <= most:
        return frame
    bins = np.arange(len(frame)) * most // len(frame)
    starts = frame.index[np.unique(bins, return_index=True)[1]]
    thinned = frame.groupby(bins).mean()
    thinned.index = starts
    return thinned


def limit_per_owner(owners: Sequence[int], most: int) -> list[int]:
    """Numbers of at most `most` of `owners`, as many of each owner as there is room for."""
    if len(owners) <= most:
        return list(range(len(owners)))
    of_each = max(1, most // len(set(owners)))
    rank = pd.Series(owners).groupby(list(owners)).cumcount()
    return rank.index[rank < of_each].tolist()[:most]
