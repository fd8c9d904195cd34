"""The charts of a sweep: each measure against the varied number.

Each measure is a panel. If a number is varied, a panel has lines over it, otherwise bars. A system
without the varied key has the same value everywhere.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from p4fabric.base import units
from p4fabric.base.text_table import Estimate

from testbed.analysis.data.chart_data import BarChart, bar_series, interval_name
from testbed.analysis.data.run_summary import estimate
from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.style import key_words
from testbed.analysis.style.plot_style import PlotStyle, series_styles

RANGE = 20  # an axis whose largest number is so many times the smallest is logarithmic
RATIO_RANGE = 2.5  # of ratios


@dataclass(frozen=True)
class Measure:
    """`column` of the frame, `title`, and the `unit`: the scale of "time", "size", "rate" and
    "count" follows from the values. `lacks`: what a series without values does not have. `ratio`:
    whether 1 is the value to compare with."""

    column: str
    title: str
    unit: str = ""
    lacks: str = "value"
    ratio: bool = False


MEASURES = {
    "ps_packets_per_fragment": Measure(
        "ps_packets_per_fragment", "PS packets / fragment", lacks="server"
    ),
    "jct": Measure("jct_mean_ns", "average JCT", "time"),
    "jct_ratio": Measure("jct_ratio", "JCT relative to {against}", ratio=True),
    "jct_communicating": Measure("jct_communicating_ns", "JCT, communicating jobs", "time"),
    "jct_computing": Measure("jct_computing_ns", "JCT, computing jobs", "time"),
    "samples_per_s": Measure("samples_per_s", "samples / s, all jobs", "count"),
    "scaling_efficiency": Measure("scaling_efficiency", "scaling efficiency", "%"),
    "ttft_p50": Measure("ttft_p50_ns", "time to first token", "time", lacks="request"),
    "ttft_p99": Measure("ttft_p99_ns", "p99 time to first token", "time", lacks="request"),
    "tpot_p50": Measure("tpot_p50_ns", "time per output token", "time", lacks="request"),
    "tpot_p99": Measure("tpot_p99_ns", "p99 time per output token", "time", lacks="request"),
    "tokens_per_s": Measure("tokens_per_s", "tokens / s, all jobs", "count", lacks="request"),
    "network_share": Measure("network_share", "network, of requests", "%", lacks="request"),
    "jct_short": Measure("jct_short_ns", "JCT, short jobs", "time"),
    "jct_medium": Measure("jct_medium_ns", "JCT, medium jobs", "time"),
    "jct_long": Measure("jct_long_ns", "JCT, long jobs", "time"),
    "jct_p99": Measure("jct_p99_ns", "p99 JCT", "time"),
    "jct_p99_short": Measure("jct_p99_short_ns", "p99 JCT, short jobs", "time"),
    "jct_p99_medium": Measure("jct_p99_medium_ns", "p99 JCT, medium jobs", "time"),
    "jct_p99_long": Measure("jct_p99_long_ns", "p99 JCT, long jobs", "time"),
    "waiting": Measure("waiting_mean_ns", "average waiting for hosts", "time"),
    "in_switch_share": Measure(
        "in_switch_share", "completed in the switch", "%", lacks="switch memory"
    ),
    "ps_link_bytes": Measure("ps_link_bytes", "PS links, both ways", "size", lacks="server"),
    "filling_share": Measure("filling_share", "aggregators filling", "%", lacks="switch memory"),
    "held_share": Measure("held_share", "aggregators held", "%", lacks="switch memory"),
    "absorbed_per_aggregator_s": Measure(
        "absorbed_per_aggregator_s", "absorbed / s / aggregator", "count", lacks="switch memory"
    ),
    "retransmissions": Measure("retransmissions", "sent again", "count"),
    "flow_bps": Measure("flow_bps", "goodput of the first flow", "rate", lacks="flows"),
    "flows_bps": Measure("flows_bps", "goodput of a flow", "rate", lacks="flows"),
    "flows_jain": Measure("flows_jain", "Jain's index of flows", lacks="flows"),
    "sum_error": Measure("sum_error", "mean error of a sum", "error", lacks="sums"),
    "order_bits": Measure("order_bits", "bits of a sum changed by order", lacks="sums"),
    "server_share": Measure("server_share", "left to the server", "%", lacks="server"),
    "overflow_share": Measure("overflow_share", "results that overflowed", "%", lacks="results"),
    "worker_bytes": Measure("worker_bytes", "sent by workers", "size"),
    "link_bytes": Measure("link_bytes", "on all links", "size"),
}
USUAL = ("jct", "ps_packets_per_fragment", "in_switch_share", "ps_link_bytes")


@dataclass(frozen=True)
class Line:
    """A series over the varied number, in the panel's unit. `x`: float64[points], where each point
    stands on the axis (beside a name, if it has names); `words`: its value in the words of the
    experiment file. `constant`: what a series without values on the axis has everywhere; None: it
    has such values."""

    style: PlotStyle
    x: np.ndarray
    points: tuple[Estimate, ...]
    words: tuple[str, ...]
    constant: float | None

    @property
    def means(self) -> np.ndarray:
        """float64[points], NaN where nothing was measured."""
        return np.array([point.mean for point in self.points], dtype=float)

    @property
    def half_widths(self) -> np.ndarray:
        """float64[points]; NaN where there are too few repetitions to show an interval."""
        return np.array([point.shown_half_width for point in self.points], dtype=float)


@dataclass(frozen=True)
class Axis:
    """The axis of what was varied. `ticks`: position -> words of the experiment file. `named`:
    whether they are names, so that there is nothing between them."""

    label: str
    ticks: dict[float, str]
    logarithmic: bool
    named: bool = False


@dataclass(frozen=True)
class SweepPanel:
    """A measure of a sweep. `bars` where no number is varied, else None; `lines` over `axis`.
    `logarithmic`: whether the values are too far apart for a linear axis. `ratio`: whether 1 is
    the value to compare with. `missing`: series without a value, with what they lack; e.g.
    {"SwitchML": "no server"}."""

    column: str
    title: str
    unit: str
    logarithmic: bool
    ratio: bool
    missing: dict[str, str]
    bars: BarChart | None
    lines: tuple[Line, ...]
    axis: Axis | None

    @property
    def limit(self) -> float | None:
        """The end of the axis of bars that show a ratio, so that one that dwarfs the others does
        not hide their differences; None: nothing does."""
        if self.bars is None or not self.ratio:
            return None
        means = sorted(bar.estimate.mean for series in self.bars.series for bar in series.bars)
        small = [mean for mean in means if mean <= RATIO_RANGE * means[len(means) // 2]]
        return 1.15 * small[-1] if len(small) < len(means) else None

    @property
    def interval(self) -> str:
        """Kind of the intervals; "" where none is shown."""
        if self.bars is not None:
            return self.bars.interval
        return interval_name(point for line in self.lines for point in line.points)

    @property
    def names(self) -> list[str]:
        """The series, in the order in which they are drawn."""
        found = [each.style for each in (self.bars.series if self.bars else self.lines)]
        return [style.title for style in found]

    @property
    def label(self) -> str:
        """The title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def chosen(sweep: Sweep) -> list[Measure]:
    """The measures of the sweep's figure, or the usual ones where it declares none."""
    return [MEASURES[name] for name in (sweep.figure.panels if sweep.figure else USUAL)]


def with_links(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a column for the bytes on the PS links, both ways together."""
    return frame.assign(ps_link_bytes=frame["ps_link_bytes_in"] + frame["ps_link_bytes_out"])


def panels(
    sweep: Sweep, frame: pd.DataFrame, labels: Mapping[str, str] | None = None
) -> list[SweepPanel]:
    """The panels of the measures that were measured, from left to right. Bars are sorted by the
    first of them. `frame`: of `frame` in sweep_data.py, not empty. `labels`: other names of series
    and keys, and other titles of measures (names as in MEASURES)."""
    frame, labels = with_links(frame), labels or {}
    styles = series_styles(list(dict.fromkeys(zip(frame["series"], frame["system"], strict=True))))
    axis = _axis(sweep, labels)
    measured = [each for each in chosen(sweep) if frame[each.column].notna().any()]
    if axis is None and measured:
        means = frame.groupby("series")[measured[0].column].mean()
        styles = {
            name: styles[name] for name in sorted(styles, key=lambda name: _last(means[name]))
        }
    named, own = sweep.titles(labels), set(labels.values())
    notes = frame.groupby("series")["fallbacks"].agg(lambda found: max(found, key=len))
    for name, note in notes.items():
        if note and named[str(name)] not in own:
            named[str(name)] += f", {note}"
    styles = {name: replace(style, title=named.get(name, name)) for name, style in styles.items()}
    titles = {each.column: labels[name] for name, each in MEASURES.items() if name in labels}
    return [
        _panel(
            sweep,
            frame,
            replace(each, title=titles.get(each.column, each.title)),
            styles,
            axis,
            named,
        )
        for each in measured
    ]


def _last(value: float) -> float:
    """A key by which the unknown comes last."""
    return np.inf if np.isnan(value) else float(value)


def _panel(
    sweep: Sweep,
    frame: pd.DataFrame,
    measure: Measure,
    styles: dict[str, PlotStyle],
    axis: Axis | None,
    named: Mapping[str, str],
) -> SweepPanel:
    scale, unit = _unit(frame[measure.column], measure.unit)
    against = sweep.figure.against if sweep.figure else ""
    title = measure.title.format(against=named.get(sweep.series_called(against), against))
    values = {
        name: frame[frame["series"] == name].set_index("x")[measure.column] / scale
        for name in styles
    }
    bars, lines = None, []
    if axis is None:
        series = [bar_series(style, {style.title: values[name]}) for name, style in styles.items()]
        groups = tuple(style.title for style in styles.values())
        bars = BarChart(f"{title} ({unit})" if unit else title, unit, groups, tuple(series))
    else:
        places = dict(zip(sorted(_axis_labels(sweep)), axis.ticks, strict=True))
        lines = [_line(style, values[name], places, axis) for name, style in styles.items()]
        if axis.named:
            lines = _side_by_side(lines)
    most = {"time": RANGE, "error": RANGE, "": RATIO_RANGE if measure.ratio else np.inf}.get(
        measure.unit, np.inf
    )
    wide = axis is not None and _range(frame, measure.column) >= most
    missing = {
        styles[name].title: f"no {measure.lacks}"
        for name, each in values.items()
        if not each.notna().any()
    }
    return SweepPanel(
        measure.column, title, unit, wide, measure.ratio, missing, bars, tuple(lines), axis
    )


def _line(style: PlotStyle, values: pd.Series, places: dict[float, float], axis: Axis) -> Line:
    """The line of `values`, indexed by the varied number. `places`: where each is drawn."""
    everywhere = values[values.index.isna()].dropna()
    over = values[values.index.notna()]
    groups = [(places[x], group) for x, group in over.groupby(level=0)]
    return Line(
        style,
        np.array([place for place, _ in groups], dtype=float),
        tuple(estimate(group) for _, group in groups),
        tuple(axis.ticks[place] for place, _ in groups),
        float(everywhere.mean()) if len(everywhere) else None,
    )


def _side_by_side(lines: list[Line]) -> list[Line]:
    """The lines, so far apart at each name that they do not hide each other."""
    step = 0.6 / len(lines)
    first = -step * (len(lines) - 1) / 2
    return [replace(line, x=line.x + first + step * rank) for rank, line in enumerate(lines)]


def axis_label(sweep: Sweep, labels: Mapping[str, str] | None = None) -> str:
    """Name of the axis: of `labels`, else of the file, else the key's words."""
    declared = sweep.figure.x_label if sweep.figure else ""
    key = sweep.axis or ""
    return (labels or {}).get(key) or declared or key_words.words(key)


def _axis_labels(sweep: Sweep) -> dict[float, str]:
    """The values of the axis in the words of the experiment file."""
    on_axis = [point.values[sweep.axis] for point in sweep.points if sweep.axis in point.values]
    return {value.number: value.short for value in on_axis if value.number is not None}


def _axis(sweep: Sweep, labels: Mapping[str, str]) -> Axis | None:
    """The axis of the varied number; None where none is varied. Each value stands at itself, or, if
    only a 0 forbids a logarithmic axis, at its rank."""
    if sweep.axis is None:
        return None
    words = _axis_labels(sweep)
    numbers = sorted(words)
    positive = [number for number in numbers if number > 0]
    label = axis_label(sweep, labels)
    if sweep.named_axis:
        return Axis(label, words, False, named=True)
    label, words = _with_one_unit(label, words, key_words.unit(sweep.axis))
    if numbers[0] == 0 and positive and positive[-1] >= RANGE * positive[0]:
        return Axis(label, {float(n): words[number] for n, number in enumerate(numbers)}, False)
    wide = numbers[-1] >= RANGE * numbers[0]
    logarithmic = numbers[0] > 0 and (wide or _powers_of_two(numbers))
    return Axis(label, {number: words[number] for number in numbers}, logarithmic)


def _powers_of_two(numbers: Sequence[float]) -> bool:
    """True for three numbers or more of which each is the one before times 2, 4, 8, ..."""
    ratios = [b / a for a, b in itertools.pairwise(numbers)]
    return len(ratios) > 1 and all(ratio >= 2 and math.log2(ratio) % 1 == 0 for ratio in ratios)


def _with_one_unit(label: str, words: dict[float, str], plain: str) -> tuple[str, dict[float, str]]:
    """The unit that all values have, a 0 excepted, is said once, by the label. `plain`: that of
    values without one."""
    parts = {number: re.fullmatch(r"([\d.]+)(?: (\S+))?", text) for number, text in words.items()}
    units = {part[2] or plain if part else "" for number, part in parts.items() if number}
    if len(units) != 1 or units == {""}:
        return label, words
    (unit,) = units
    said = label if f"({unit})" in label else f"{label} ({unit})"
    return said, {number: part[1] if part else "0" for number, part in parts.items()}


def _range(frame: pd.DataFrame, column: str) -> float:
    """The ratio of the largest of the points' means to the smallest; 0 if that says
    nothing."""
    means = frame.groupby("point")[column].mean().dropna()
    return float(means.max() / means.min()) if len(means) > 0 and means.min() > 0 else 0.0


def _unit(values: pd.Series, unit: str) -> tuple[float, str]:
    """(what to divide by, label)"""
    largest = float(values.max())
    if unit == "time":
        return units.time_unit(largest)
    if unit == "rate":
        return 1e9, "Gbit/s"
    if unit == "size":
        return units.size_unit(largest)
    if unit == "count":
        if largest >= 1e6:
            return 1e6, "million"
        return (1e3, "thousand") if largest >= 1e4 else (1.0, "")
    return (0.01, "%") if unit == "%" else (1.0, "" if unit == "error" else unit)
