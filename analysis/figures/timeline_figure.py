"""The figure of a run's iterations: when each worker computed, and when it communicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch

from testbed.analysis.figures.figure_files import new_figure, which_repetition
from testbed.analysis.style import plot_style, units

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from testbed.results import Results

_WORKERS = 32  # rows of a timeline
_BARS = 4000  # beyond that, bars of a vector figure become an image inside it


def timeline(results: Results) -> Figure:
    """One row per worker: its compute (dark, above) and its communication (light, below) in every
    iteration, of the first repetition. Compute is from the first layer's forward step to the last
    backward step, waiting for layers included; communication from the first fragment of a tensor
    that leaves to the last result that arrives. Shades alternate from iteration to iteration."""
    rows = results.iterations
    repetition = int(rows["repetition"].min())
    rows = rows[rows["repetition"] == repetition].sort_values(["job", "worker", "iteration"])
    first_sent = _first_sent(results, repetition)
    rows = rows.merge(first_sent, on=["job", "worker", "iteration"], how="left")
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    workers = list(rows.groupby(["job", "worker"]))
    shown = workers
    if len(workers) > _WORKERS:  # some of every job rather than all of the first
        of_each = max(1, _WORKERS // rows["job"].nunique())
        rank: dict[int, int] = {}
        shown = []
        for (job, worker), spans in workers:
            rank[job] = rank.get(job, 0) + 1
            if rank[job] <= of_each and len(shown) < _WORKERS:
                shown.append(((job, worker), spans))
    scale, unit = units.time_unit(float(rows["end_ns"].max()))
    figure = new_figure(plot_style.PAGE, 0.9 + 0.24 * len(shown))
    axes = figure.add_subplot()
    small = len(rows) > _BARS
    labels, ticks, place = [], [], 0.0
    previous = None
    for (job, worker), spans in shown:
        if previous is not None and job != previous:
            place += 0.35
        previous = job
        odd = spans["iteration"].to_numpy() % 2 == 1
        color = plot_style.job_color(int(job))
        compute_end = spans["compute_end_ns"].astype("float64")
        sent = spans["first_sent_ns"].astype("float64").fillna(compute_end)
        bars = (
            (spans["start_ns"].astype("float64"), compute_end, 0.0, 1.0, 0.75),
            (sent, spans["end_ns"].astype("float64"), 0.44, 0.5, 0.28),
        )
        for begin, end, down, even_alpha, odd_alpha in bars:
            for part, alpha in ((~odd, even_alpha), (odd, odd_alpha)):
                pieces = np.column_stack([begin[part], (end - begin)[part]]) / scale
                axes.broken_barh(
                    pieces,
                    (place + down, 0.42),
                    facecolor=color,
                    alpha=alpha,
                    linewidth=0,
                    rasterized=small,
                )
        labels.append(f"{names.get(job, job)} w{worker}")
        ticks.append(place + 0.43)
        place += 1.0
    axes.set_yticks(ticks, labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(place, -0.15)
    axes.set_xlim(0, float(rows["end_ns"].max()) / scale)
    axes.set_xlabel(f"time ({unit}){which_repetition(results, repetition)}")
    if len(workers) > len(shown):
        axes.set_title(f"{len(shown)} of {len(workers)} workers", loc="left")
    figure.legend(
        handles=[
            Patch(facecolor=plot_style.BLACK, alpha=0.9, label="compute: forward to backward"),
            Patch(
                facecolor=plot_style.BLACK,
                alpha=0.4,
                label="communication: first sent to last result",
            ),
        ],
        title="shades alternate from iteration to iteration",
        loc="outside upper center",
        ncols=2,
    )
    return figure


def _first_sent(results: Results, repetition: int) -> pd.DataFrame:
    tensors = results.tensors
    tensors = tensors[tensors["repetition"] == repetition]
    return tensors.groupby(["job", "worker", "iteration"], as_index=False)["first_sent_ns"].min()
