"""The measures of a sweep: which there are, in which units, and where on an axis they stand.

What the figures of a paper (`sweep_figures`) and the HTML report draw is the same; how they draw it
differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.style import plot_style, units
from testbed.systems import SYSTEMS

RANGE = 20  # an axis whose largest number is so many times the smallest is logarithmic


@dataclass(frozen=True)
class Measure:
    """`column` of the frame, `title`, and the `unit`: "time", "size" and "count" find their scale
    from the values."""

    column: str
    title: str
    unit: str = ""


MEASURES = {
    "ps_packets_per_fragment": Measure("ps_packets_per_fragment", "PS packets / fragment"),
    "jct": Measure("jct_mean_ns", "average JCT", "time"),
    "jct_ratio": Measure("jct_ratio", "JCT relative to {against}"),
    "jct_communicating": Measure("jct_communicating_ns", "JCT, communicating jobs", "time"),
    "jct_computing": Measure("jct_computing_ns", "JCT, computing jobs", "time"),
    "waiting": Measure("waiting_mean_ns", "average waiting for hosts", "time"),
    "in_switch_share": Measure("in_switch_share", "completed in the switch", "%"),
    "ps_link_bytes": Measure("ps_link_bytes", "PS links, both ways", "size"),
    "filling_share": Measure("filling_share", "aggregators filling", "%"),
    "held_share": Measure("held_share", "aggregators held", "%"),
    "absorbed_per_aggregator_s": Measure(
        "absorbed_per_aggregator_s", "absorbed / s / aggregator", "count"
    ),
    "retransmissions": Measure("retransmissions", "sent again", "count"),
}
_USUAL = ("jct", "ps_packets_per_fragment", "in_switch_share", "ps_link_bytes")


def chosen(sweep: Sweep) -> list[Measure]:
    """What the sweep's figure shows, or the usual measures where it declares none."""
    return [MEASURES[name] for name in (sweep.figure.panels if sweep.figure else _USUAL)]


def is_wide(frame: pd.DataFrame, column: str) -> bool:
    """Whether the points' means are too far apart for a linear axis."""
    means = frame.groupby("point")[column].mean().dropna()
    return len(means) > 0 and means.min() > 0 and means.max() >= RANGE * means.min()


def with_links(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a column for the bytes on the PS links, both ways together."""
    return frame.assign(ps_link_bytes=frame["ps_link_bytes_in"] + frame["ps_link_bytes_out"])


def series_styles(series: Sequence[tuple[str, str]]) -> dict[str, plot_style.PlotStyle]:
    """A look per series, given as (title, system): the system's colour and marker; several of one
    system differ in hatch and line."""
    found: dict[str, plot_style.PlotStyle] = {}
    for title, name in series:
        if title not in found:
            system = SYSTEMS[name]
            count = sum(look.color == system.color for look in found.values())
            hatch = plot_style.HATCHES[count % len(plot_style.HATCHES)]
            found[title] = plot_style.PlotStyle(title, system.color, system.marker, hatch)
    return found


def positions(sweep: Sweep) -> dict[float, float]:
    """Where on the x axis each value that was asked for is drawn: at itself, or, where only a 0
    forbids a logarithmic axis, at its rank."""
    numbers = sorted(asked(sweep))
    positive = [number for number in numbers if number > 0]
    if numbers[0] == 0 and positive and positive[-1] >= RANGE * positive[0]:
        return {number: float(rank) for rank, number in enumerate(numbers)}
    return {number: number for number in numbers}


def asked(sweep: Sweep) -> dict[float, str]:
    """The values of the axis in the words of the experiment file."""
    return {
        point.values[sweep.axis].number: point.values[sweep.axis].short
        for point in sweep.points
        if sweep.axis in point.values
    }


def unit_of(values: pd.Series, unit: str) -> tuple[float, str]:
    """(what to divide by, label)"""
    largest = float(values.max())
    if unit == "time":
        return units.time_unit(largest)
    if unit == "size":
        return units.size_unit(largest)
    if unit == "count":
        return (
            (1e6, "million")
            if largest >= 1e6
            else (1e3, "thousand")
            if largest >= 1e4
            else (1.0, "")
        )
    return (0.01, "%") if unit == "%" else (1.0, unit)
