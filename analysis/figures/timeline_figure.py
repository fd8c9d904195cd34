"""The figure of a run's iterations: when each worker computed, and when it communicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patches import Patch

from testbed.analysis.data.timeline_data import iteration_spans, worker_rows
from testbed.analysis.figures.figure_files import new_figure, which_repetition
from testbed.analysis.style import plot_style, units

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.results import Results

_BARS = 4000  # beyond that, bars of a vector figure become an image inside it


def timeline(results: Results) -> Figure:
    """One row per worker: its compute (dark, above) and its communication (light, below) in every
    iteration, of the first repetition. Compute is from the first layer's forward step to the last
    backward step, waiting for layers included; communication from the first fragment of a tensor
    that leaves to the last result that arrives. Shades alternate from iteration to iteration."""
    rows = worker_rows(results)
    spans = iteration_spans(results, rows)
    first = results.iterations[results.iterations["repetition"] == rows.repetition]
    last_ns = float(first["end_ns"].max())
    scale, unit = units.time_unit(last_ns)
    figure = new_figure(plot_style.PAGE, 0.9 + 0.24 * len(rows.workers))
    axes = figure.add_subplot()
    jobs = rows.jobs
    gaps = [0.35 * (job != before) for before, job in zip(jobs, jobs[1:], strict=False)]
    places = [number + sum(gaps[:number]) for number in range(len(jobs))]
    for number, iterations in spans.groupby("row"):
        odd = iterations["iteration"] % 2 == 1
        bars = (
            ("start_ns", "compute_end_ns", 0.0, 1.0, 0.75),
            ("first_sent_ns", "end_ns", 0.44, 0.5, 0.28),
        )
        for begin, end, down, even_alpha, odd_alpha in bars:
            for part, alpha in ((iterations[~odd], even_alpha), (iterations[odd], odd_alpha)):
                starts, ends = part[begin] / scale, part[end] / scale
                axes.broken_barh(
                    list(zip(starts, ends - starts, strict=True)),
                    (places[int(number)] + down, 0.42),
                    facecolor=plot_style.job_color(jobs[int(number)]),
                    alpha=alpha,
                    linewidth=0,
                    rasterized=len(first) > _BARS,
                )
    axes.set_yticks([place + 0.43 for place in places], rows.labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[-1] + 1.0, -0.15)
    axes.set_xlim(0, last_ns / scale)
    axes.set_xlabel(f"time ({unit}){which_repetition(results, rows.repetition)}")
    if rows.total > len(rows.workers):
        axes.set_title(f"{len(rows.workers)} of {rows.total} workers", loc="left")
    words = (
        (0.9, "compute: forward to backward"),
        (0.4, "communication: first sent to last result"),
    )
    figure.legend(
        handles=[Patch(facecolor=plot_style.BLACK, alpha=a, label=text) for a, text in words],
        title="shades alternate from iteration to iteration",
        loc="outside upper center",
        ncols=2,
    )
    return figure
