"""The figure of a run's iterations: when each worker computed, waited and communicated. It shows
the pieces of the report's timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patches import Patch
from p4fabric.base import units

from testbed.analysis.data.timeline_data import (
    PHASES,
    end_ns,
    merged,
    worker_phases,
    worker_rows,
)
from testbed.analysis.figures.figure_files import new_figure, note, which_repetition
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.results import Results

_BARS = 4000  # beyond that, bars of a vector figure become an image inside it


def timeline(results: Results) -> Figure:
    """Two lanes per worker of the first repetition: above, what it computes and its waits; below,
    its communication, from the first fragment of a tensor that leaves to the last result that
    arrives, and of a program its collectives, sends and receives."""
    rows = worker_rows(results)
    pieces, gap_ns = merged(worker_phases(results, rows), _BARS)
    last_ns = end_ns(results)
    scale, unit = units.time_unit(last_ns)
    figure = new_figure(plot_style.PAGE, 0.9 + 0.24 * len(rows.workers))
    axes = figure.add_subplot()
    jobs = rows.jobs
    gaps = [0.35 * (job != before) for before, job in zip(jobs, jobs[1:], strict=False)]
    places = [number + sum(gaps[:number]) for number in range(len(jobs))]
    for (row, phase), some in pieces.groupby(["row", "phase"]):
        style = plot_style.phase_style(phase, jobs[row])
        below = phase == "communication"
        axes.broken_barh(
            list(zip(some["start"] / scale, (some["end"] - some["start"]) / scale, strict=True)),
            (places[row] + (0.5 if below else 0.04), 0.36 if below else 0.42),
            facecolor=style.color,
            hatch=style.hatch,
            edgecolor=plot_style.GREY if phase == "waiting" else "white",
            linewidth=0,
            label=phase,
            rasterized=len(pieces) > _BARS,
        )
    axes.set_yticks([place + 0.45 for place in places], rows.labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1] + 1.0, -0.15)
    axes.set_xlim(0, last_ns / scale)
    axes.set_xlabel(f"time ({unit}){which_repetition(results, rows.repetition)}")
    if rows.total > len(rows.workers):
        axes.set_title(f"{len(rows.workers)} of {rows.total} workers", loc="left")
    if len(pieces) and gap_ns >= last_ns / 1000:  # as wide as the printed line of an axis
        note(figure, f"Phases of one kind less than {units.time(gap_ns)} apart are drawn as one.")
    shown = [phase for phase in PHASES if phase in set(pieces["phase"])]
    styles = [plot_style.phase_style(phase) for phase in shown]
    figure.legend(
        handles=[
            Patch(
                facecolor=style.color,
                hatch=style.hatch,
                edgecolor=plot_style.GREY if phase == "waiting" else "white",
                linewidth=0,
                label=style.title,
            )
            for phase, style in zip(shown, styles, strict=True)
        ],
        loc="outside upper center",
        ncols=len(shown),
    )
    return figure
