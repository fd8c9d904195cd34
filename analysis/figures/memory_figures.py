"""Figures of the switches' memory: who has the aggregators, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from p4fabric.base import units
from p4fabric.base.text_table import text_of

from testbed.analysis.data import memory_chart_data
from testbed.analysis.data.chart_data import AreaChart
from testbed.analysis.data.run_summary import estimate, first_repetition, summary
from testbed.analysis.data.timeline_data import end_ns
from testbed.analysis.figures.figure_files import hatch_color, new_figure, which_repetition
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from testbed.results import Results

_SAMPLES = 1500  # steps of an area; more than the paper's printer can show


def memory_shares(runs: Sequence[Results]) -> Figure:
    """Shares of aggregator-time, one stacked bar per run (mean over repetitions and aggregators):
    filling, by how it ended, held and free; PS packets per fragment stand beneath."""
    styles = plot_style.plot_styles(runs)
    frames = [summary(results)["run"] for results in runs]
    needed = 2.2 + 0.7 * len(runs)
    figure = new_figure(min(max(plot_style.COLUMN, needed), plot_style.PAGE), 2.2)
    axes = figure.add_subplot()
    bottom = np.zeros(len(runs))
    for layer in memory_chart_data.memory_shares(frames):
        axes.bar(
            range(len(runs)),
            layer.shares,
            bottom=bottom,
            width=0.6,
            color=layer.color,
            hatch=layer.hatch,
            edgecolor=hatch_color(layer.color),
            linewidth=0,
            label=layer.title,
        )
        bottom += layer.shares
    room = max(5, int(14 * (figure.get_figwidth() - 1.6) / len(runs)))
    captions = [
        f"{fill(style.title, room)}\n{units.ratio(frame['ps_packets_per_fragment'].mean())}"
        for style, frame in zip(styles, frames, strict=True)
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
    figure = new_figure(plot_style.PAGE, 0.5 + 2.5 * len(switches))
    panels = figure.subplots(2 * len(switches), 1, sharex=True, squeeze=False)[:, 0]
    last_ns = end_ns(results)
    scale, unit = units.time_unit(last_ns)
    for number, switch in enumerate(switches):
        states = memory_chart_data.aggregators_by_state(results, switch, _SAMPLES)
        owners = memory_chart_data.aggregators_by_job(results, switch, _SAMPLES)
        for axes, chart in zip(panels[2 * number :], (states, owners), strict=False):
            axes.set_title(f"{switch}: aggregators in use by job", loc="left")
            if chart is not None:
                _areas(axes, chart, scale)
                axes.set_title(chart.title, loc="left")
                axes.legend(
                    loc="lower right",
                    bbox_to_anchor=(1.0, 1.0),
                    ncols=min(len(chart.areas), 5),
                    handlelength=1.2,
                    borderaxespad=0.1,
                )
            _pool_axis(axes, states.capacity)
            axes.set_ylabel("aggregators")
            axes.set_xlim(0, max(last_ns / scale, 1e-9))
    panels[-1].set_xlabel(f"time ({unit}){which_repetition(results, repetition)}; {states.note}")
    return figure


def occupancies(runs: Sequence[tuple[str, Results]]) -> Figure:
    """Aggregators by state over time, one panel per run, given as (title, results), all switches
    together, from the first repetition. Below the title stands what the aggregators did meanwhile:
    the contributions that each took in a second, as mean of all repetitions."""
    columns = 2 if len(runs) > 1 else 1
    rows = -(-len(runs) // columns)
    figure = new_figure(plot_style.PAGE, 0.5 + 1.3 * rows)
    panels = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
    last = max(float(first_repetition(results.memory)["time_ns"].max()) for _, results in runs)
    scale, unit = units.time_unit(last)
    for axes, (title, results) in zip(panels, runs, strict=False):
        chart = memory_chart_data.aggregators_by_state(results, None, _SAMPLES)
        _areas(axes, chart, scale)
        rate = estimate(summary(results)["run"]["absorbed_per_aggregator_s"])
        absorbed = f"{text_of(rate, units.number)} absorbed / s / aggregator"
        axes.set_title(f"{title}\n{absorbed}", loc="left")
        _pool_axis(axes, chart.capacity)
    for axes in panels[len(runs) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(runs) - columns) : len(runs)]:
        axes.set_xlabel(f"time ({unit})")
        axes.tick_params(labelbottom=True)
    figure.supylabel("aggregators", fontsize=8)
    drawn: dict[str, Artist] = {}
    for axes in panels:  # a state that never occurs has no area
        handles, names = axes.get_legend_handles_labels()
        drawn |= zip(map(str, names), handles, strict=True)
    shown = [name for name in ("filling", "held", "free") if name in drawn]
    figure.legend([drawn[name] for name in shown], shown, loc="outside upper center", ncols=3)
    return figure


def _areas(axes: Axes, chart: AreaChart, scale: float) -> None:
    """Stacked areas over time; of few samples bars. `scale`: ns per unit of the time axis."""
    time, bottom = chart.time_ns / scale, np.zeros(len(chart.time_ns))
    for area in chart.areas:
        look: dict[str, Any] = {
            "facecolor": area.color,
            "hatch": area.hatch,
            "edgecolor": hatch_color(area.color) if area.hatch else "none",
            "linewidth": 0,
            "label": area.title,
        }
        if chart.sparse:
            axes.bar(time, area.heights, chart.bar_ns / scale, bottom, **look)
        else:
            axes.fill_between(time, bottom, bottom + area.heights, step="post", **look)
        bottom = bottom + area.heights


def _pool_axis(axes: Axes, capacity: int) -> None:
    axes.set_ylim(0, capacity)
    axes.set_yticks(sorted({0, capacity // 2, capacity}))
