"""Charts of the switches' memory: the jobs in the aggregators, their states, and the events.

An aggregator is *filling* while workers are missing in its sum, *held* when the sum is complete and
nobody has released it, else *free*. Shares of time come from the switches' own accumulators. Charts
over time come from samples (tables memory, pool and events) of the first repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from testbed.analysis.data.chart_data import Area, AreaChart, thin
from testbed.analysis.data.run_summary import first_repetition, job_names
from testbed.analysis.style import plot_style
from testbed.results.counters import EVENTS

if TYPE_CHECKING:
    from testbed.results import Results

JOBS = 10  # that an area can tell apart
PREEMPTIONS = ("preemptions", "preemptions_held")
# Of aggregator-time: columns of frame "run", title, colour, hatch.
_SHARES = (
    (["filling_completed_share"], "filling, completed", plot_style.FILLING, ""),
    (["filling_evicted_share"], "filling, evicted", plot_style.PARTIAL, "xxxx"),
    (["filling_pulled_share"], "filling, pulled", plot_style.PARTIAL, "...."),
    (
        ["filling_discarded_share", "filling_open_share"],
        "filling, discarded or open",
        plot_style.PARTIAL,
        "",
    ),
    (["held_share"], "held", plot_style.HELD, "////"),
    (["free_share"], "free", plot_style.FREE, ""),
)


@dataclass(frozen=True)
class ShareLayer:
    """A layer of stacked bars. `shares`: float64[runs] in %."""

    title: str
    color: str
    hatch: str
    shares: np.ndarray


def memory_shares(runs: Sequence[pd.DataFrame]) -> list[ShareLayer]:
    """Shares of aggregator-time of each run, from the lowest layer to the highest: the mean over
    repetitions and aggregators. Layers without any share are left out. `runs`: frame "run" of
    each."""
    layers = []
    for columns, title, color, hatch in _SHARES:
        shares = [100 * run[columns].fillna(0).sum(axis=1).mean() for run in runs]
        if any(shares):
            layers.append(ShareLayer(title, color, hatch, np.array(shares)))
    return layers


def busiest_switches(results: Results, most: int) -> list[str]:
    """Switches with samples that aggregated most, `most` or fewer."""
    counted = results.switch_counters
    counted = counted[counted["counter"].isin(["allocations", "additions", "completions"])]
    busy = counted.groupby("switch")["value"].sum().astype("float64")
    names = list(dict.fromkeys(results.memory["switch"]))
    return sorted(names, key=lambda name: (-busy.get(name, 0.0), names.index(name)))[:most]


def _samples(results: Results, switch: str) -> pd.DataFrame:
    rows = first_repetition(results.memory)
    return rows[rows["switch"] == switch]


def aggregators_by_state(results: Results, switch: str | None, most: int) -> AreaChart:
    """Filling, held and free aggregators of a switch, or of all switches together, in at most
    `most` steps."""
    rows = first_repetition(results.memory) if switch is None else _samples(results, switch)
    whole = rows[rows["job"].isna()]  # of all jobs together; else the rows of the jobs make it up
    rows = whole if len(whole) else rows
    capacity = int(rows.groupby("switch")["capacity"].max().sum())
    used = rows.groupby("time_ns")[["occupied", "held"]].sum().astype("float64")
    thinned = thin(used, most)
    filling, held = thinned["occupied"].to_numpy(), thinned["held"].to_numpy()
    areas = (
        Area("filling", plot_style.FILLING, "", filling),
        Area("held", plot_style.HELD, "////", held),
        Area("free", plot_style.FREE, "", capacity - filling - held),
    )
    return AreaChart(
        f"{switch}: {capacity} aggregators by state",
        capacity,
        thinned.index.to_numpy(),
        tuple(area for area in areas if area.heights.any()),
        len(used),
        _every_ns(used),
    )


def aggregators_by_job(results: Results, switch: str, most: int) -> AreaChart | None:
    """Aggregators in use by the job that owns them, in at most `most` steps; of many jobs those
    that use most, and the others together. None where jobs are not told apart."""
    rows = _samples(results, switch)
    rows = rows[rows["job"].notna()]
    if not len(rows):
        return None
    used = rows.assign(used=rows["occupied"] + rows["held"]).pivot_table(
        index="time_ns", columns="job", values="used", aggfunc="sum", fill_value=0
    )
    thinned = thin(used.astype("float64"), most)
    names = job_names(results.jobs)
    shown = list(thinned.columns)
    if len(shown) > JOBS:
        shown = sorted(thinned.sum().nlargest(JOBS - 1).index)
    areas = []
    for job in map(int, shown):
        style = plot_style.job_style(job, str(names.get(job, job)))
        areas.append(Area(style.title, style.color, style.hatch, thinned[job].to_numpy(), job))
    others = thinned.drop(columns=shown)
    if others.shape[1]:
        heights = others.sum(axis=1).to_numpy()
        areas.append(Area(f"{others.shape[1]} others", plot_style.EDGE, "", heights))
    capacity = int(rows["capacity"].max())
    title = f"{switch}: aggregators in use by job"
    time_ns = thinned.index.to_numpy()
    return AreaChart(title, capacity, time_ns, tuple(areas), len(used), _every_ns(used))


def _every_ns(samples: pd.DataFrame) -> float:
    """The usual time between two samples, by their index."""
    return float(np.median(np.diff(samples.index.to_numpy()))) if len(samples) > 1 else 0.0


def event_increments(results: Results, switch: str) -> pd.DataFrame:
    """Columns time_ns, event, count: the number of times that an event happened since the sample
    before."""
    rows = first_repetition(results.events)
    rows = rows[rows["switch"] == switch].sort_values(["event", "time_ns"])
    before = rows.groupby("event")["value"].shift(1).fillna(0).astype("int64")
    # A switch that was restarted counts from 0 again.
    count = (rows["value"] - before).where(rows["value"] >= before, rows["value"])
    return rows.assign(count=count)[["time_ns", "event", "count"]]


def preemptions(results: Results, switch: str, most: int) -> pd.Series:
    """The number of aggregators of a switch preempted since the entry before, int64 by time in ns:
    an entry for each span between two samples in which there were some. Of more than `most`
    entries, neighbours become one."""
    happened = event_increments(results, switch)
    counts = happened[happened["event"].isin(PREEMPTIONS)].groupby("time_ns")["count"].sum()
    counts = counts[counts > 0]
    if len(counts) <= most:
        return counts
    groups = np.arange(len(counts)) // -(-len(counts) // most)
    thinned = counts.groupby(groups).sum()
    thinned.index = counts.index.to_series().groupby(groups).last()
    return thinned


@dataclass(frozen=True)
class EventRates:
    """The rates of events per second. `time_ns`: the ends of the spans; `rates`:
    float64[spans] by the event's name, in the order of their declaration."""

    time_ns: np.ndarray
    rates: dict[str, np.ndarray]


def event_rates(results: Results, switch: str, most: int) -> EventRates | None:
    """The rates of a switch's events in about `most` spans; None where they were not sampled."""
    happened = event_increments(results, switch)
    if not len(happened):
        return None
    times = np.sort(_samples(results, switch)["time_ns"].unique())
    bins = times[:: -(-len(times) // most)]
    present = set(happened["event"])
    rates = {}
    for event in (name for name in EVENTS if name in present):
        some = happened[happened["event"] == event]
        span = pd.cut(some["time_ns"], bins, labels=False)
        counts = some.groupby(span)["count"].sum().reindex(range(len(bins) - 1), fill_value=0)
        if counts.any():
            rates[event] = counts.to_numpy() / (np.diff(bins) / 1e9)
    return EventRates(bins[1:], rates)


@dataclass(frozen=True)
class PoolMap:
    """The places of a pool where aggregators are in use. `first`: int64[blocks], the first
    aggregator of each block; `time_ns`: int64[moments]; `used` and `held`: float64[blocks, moments]
    in % of the aggregators that were looked at, `seen` of `capacity`."""

    first: np.ndarray
    time_ns: np.ndarray
    used: np.ndarray
    held: np.ndarray
    seen: int
    capacity: int


def pool_map(results: Results, switch: str, most: int | None = None) -> PoolMap | None:
    """Aggregators in use by place in a switch's pool and time, in at most `most` steps (None: at
    all moments); None where it was not sampled."""
    rows = first_repetition(results.pool)
    rows = rows[rows["switch"] == switch]
    if not len(rows):
        return None
    rows = rows.assign(
        used=(100.0 * (rows["filling"] + rows["held"]) / rows["seen"]).round(1),
        held=(100.0 * rows["held"] / rows["seen"]).round(1),
    )
    used, held = (
        rows.pivot_table(index="first", columns="time_ns", values=column, aggfunc="mean")
        for column in ("used", "held")
    )
    if most is not None:
        used, held = thin(used.T, most).T, thin(held.T, most).T
    return PoolMap(
        used.index.to_numpy(),
        used.columns.to_numpy(),
        used.to_numpy(),
        held.to_numpy(),
        int(rows.groupby("first")["seen"].max().sum()),
        int(_samples(results, switch)["capacity"].max()),
    )
