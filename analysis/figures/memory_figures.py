"""Figures of the switches' memory: who has the aggregators, and for what.

An aggregator is *filling* while its sum lacks workers, *held* when the sum is complete and nobody
has released it, else *free*. Shares of time come from the switches' own accumulators; the pictures
over time from samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.analysis.data.run_summary import interval, summary
from testbed.analysis.data.thinning import thin
from testbed.analysis.figures.figure_files import new_figure, which_repetition
from testbed.analysis.style import plot_style, units

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from testbed.results import Results

_SAMPLES = 1500  # steps of an area; more than the paper's printer can show
_AREAS = 10  # jobs that an area can tell apart

_STATES = (
    (("filling_completed_share",), "filling, completed", plot_style.FILLING, ""),
    (("filling_evicted_share",), "filling, evicted", plot_style.PARTIAL, "xxxx"),
    (("filling_pulled_share",), "filling, pulled", plot_style.PARTIAL, "...."),
    (
        ("filling_discarded_share", "filling_open_share"),
        "filling, discarded or open",
        plot_style.PARTIAL,
        "",
    ),
    (("held_share",), "held", plot_style.HELD, "////"),
    (("free_share",), "free", plot_style.FREE, ""),
)


def memory_shares(runs: Sequence[Results]) -> Figure:
    """Shares of aggregator-time, one stacked bar per run (mean over repetitions and aggregators):
    filling, by how it ended, held and free; PS packets per fragment stand beneath."""
    styles = plot_style.plot_styles(runs)
    frames = [summary(results)["run"] for results in runs]
    figure = new_figure(max(plot_style.COLUMN, 2.2 + 0.7 * len(runs)), 2.2)
    axes = figure.add_subplot()
    bottom = np.zeros(len(runs))
    for columns, label, color, hatch in _STATES:
        known = [frame[list(columns)].fillna(0).sum(axis=1) for frame in frames]
        shares = np.array([100 * share.mean() for share in known])
        if not shares.any():
            continue
        axes.bar(
            range(len(runs)),
            shares,
            bottom=bottom,
            width=0.6,
            color=color,
            hatch=hatch,
            edgecolor=_hatch_color(color),
            linewidth=0,
            label=label,
        )
        bottom += shares
    captions = [
        f"{look.title}\n{units.ratio(frame['ps_packets_per_fragment'].mean())}"
        for look, frame in zip(styles, frames, strict=True)
    ]
    axes.set_xticks(range(len(runs)), captions)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("PS packets per fragment below each run")
    axes.set_ylim(0, 100)
    axes.set_ylabel("aggregator-time (%)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, handlelength=1.4)
    return figure


def occupancy(results: Results) -> Figure:
    """Aggregators over time, two panels per switch: filling, held and free; and who owns what is
    in use, per job. From the samples of the first repetition."""
    samples = results.memory
    repetition = int(samples["repetition"].min())
    samples = samples[samples["repetition"] == repetition]
    switches = list(dict.fromkeys(samples["switch"]))
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    figure = new_figure(plot_style.PAGE, 0.5 + 2.5 * len(switches))
    panels = figure.subplots(2 * len(switches), 1, sharex=True, squeeze=False)[:, 0]
    scale, unit = units.time_unit(float(samples["time_ns"].max()))
    for number, switch in enumerate(switches):
        rows = samples[samples["switch"] == switch]
        states, owners = panels[2 * number : 2 * number + 2]
        capacity = int(rows["capacity"].max())
        of_jobs = rows[rows["job"].notna()]  # the other rows are of all jobs together
        totals = thin(_of_all_jobs(rows).groupby("time_ns")[["occupied", "held"]].sum(), _SAMPLES)
        time = totals.index.to_numpy() / scale
        _states(states, totals, capacity, scale)
        states.set_title(f"{switch}: {capacity} aggregators by state", loc="left")
        owners.set_title(f"{switch}: aggregators in use by job", loc="left")
        used = of_jobs.assign(used=of_jobs["occupied"] + of_jobs["held"])
        by_job = used.pivot_table(
            index="time_ns", columns="job", values="used", aggfunc="sum", fill_value=0
        )
        by_job = thin(by_job, _SAMPLES)
        shown = list(by_job.columns)
        if len(shown) > _AREAS:
            shown = sorted(by_job.sum().nlargest(_AREAS - 1).index)
        heights = [by_job[job] for job in shown]
        labels = [str(names.get(job, job)) for job in shown]
        colors = [plot_style.job_color(int(job)) for job in shown]
        hatches = [plot_style.job_hatch(int(job)) for job in shown]
        if len(shown) < len(by_job.columns):
            heights.append(by_job.drop(columns=shown).sum(axis=1))
            labels.append(f"{len(by_job.columns) - len(shown)} others")
            colors.append(plot_style.EDGE)
            hatches.append("")
        if len(heights):
            _areas(owners, by_job.index.to_numpy() / scale, heights, labels, colors, hatches)
        for axes in (states, owners):
            axes.set_ylim(0, capacity)
            axes.set_yticks(sorted({0, capacity // 2, capacity}))
            axes.set_ylabel("aggregators")
            axes.set_xlim(time.min(), max(time.max(), time.min() + 1e-9))
    panels[-1].set_xlabel(f"time ({unit}){which_repetition(results, repetition)}")
    return figure


def _states(axes: Axes, totals: pd.DataFrame, capacity: int, scale: float) -> None:
    """Filling, held and free aggregators over time. `totals`: occupied and held by time_ns."""
    free = capacity - totals["occupied"] - totals["held"]
    _areas(
        axes,
        totals.index.to_numpy() / scale,
        [totals["occupied"], totals["held"], free],
        ["filling", "held", "free"],
        [plot_style.FILLING, plot_style.HELD, plot_style.FREE],
        ["", "////", ""],
    )


def occupancies(runs: Sequence[tuple[str, Results]]) -> Figure:
    """Aggregators by state over time, one panel per run, given as (title, results), all switches
    together, from the first repetition. Beside the title stands what the aggregators did meanwhile:
    the contributions that each took in a second, as mean of all repetitions."""
    columns = 2 if len(runs) > 1 else 1
    rows = -(-len(runs) // columns)
    figure = new_figure(plot_style.PAGE, 0.5 + 1.3 * rows)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    samples = [_of_first(results) for _, results in runs]
    scale, unit = units.time_unit(max(float(each.index.max()) for each, _ in samples))
    for axes, (title, results), (totals, capacity) in zip(panels, runs, samples, strict=False):
        _states(axes, thin(totals, _SAMPLES), capacity, scale)
        axes.get_legend().remove()
        rate, half = interval(summary(results)["run"]["absorbed_per_aggregator_s"])
        spread = "" if np.isnan(half) else f" \u00b1 {units.number(half)}"
        absorbed = f"{units.number(rate)}{spread} absorbed / s / aggregator"
        axes.set_title(f"{title}\n{absorbed}", loc="left")
        axes.set_ylim(0, capacity)
        axes.set_yticks(sorted({0, capacity // 2, capacity}))
    for axes in panels[len(runs) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(runs) - columns) : len(runs)]:
        axes.set_xlabel(f"time ({unit})")
        axes.tick_params(labelbottom=True)
    figure.supylabel("aggregators", fontsize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    return figure


def _of_all_jobs(rows: pd.DataFrame) -> pd.DataFrame:
    """Of samples, those of all jobs together, or those that make them up."""
    whole = rows["job"].isna()
    return rows[whole] if whole.any() else rows


def _of_first(results: Results) -> tuple[pd.DataFrame, int]:
    """(occupied and held by time_ns, capacity) of all switches in the first repetition."""
    rows = results.memory
    rows = rows[rows["repetition"] == rows["repetition"].min()]
    rows = _of_all_jobs(rows)
    capacity = int(rows.groupby("switch")["capacity"].max().sum())
    return rows.groupby("time_ns")[["occupied", "held"]].sum(), capacity


def _areas(
    axes: Axes,
    time: np.ndarray,
    heights: Sequence[pd.Series],
    labels: Sequence[str],
    colors: Sequence[str],
    hatches: Sequence[str],
) -> None:
    bottom = np.zeros(len(time))
    for height, label, color, hatch in zip(heights, labels, colors, hatches, strict=True):
        top = bottom + height.to_numpy(dtype=float)
        axes.fill_between(
            time,
            bottom,
            top,
            step="post",
            facecolor=color,
            hatch=hatch,
            edgecolor=_hatch_color(color) if hatch else "none",
            linewidth=0,
            label=label,
        )
        bottom = top
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, handlelength=1.2)


def _hatch_color(color: str) -> str:
    return "black" if color == plot_style.HELD else "white"
