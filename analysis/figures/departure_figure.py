"""The figure of where the packets to the jobs' PSs come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from p4fabric.base import units

from testbed.analysis.data import departure_data
from testbed.analysis.data.run_summary import job_names
from testbed.analysis.figures.figure_files import new_figure
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.results import Results

_JOBS = 24  # jobs that get bars
_INSIDE = 0.06  # of the longest bar: shorter parts have no number in them


def departures(results: Results) -> Figure | None:
    """PS packets per fragment, a stacked bar per job with a part per cause, of at most 24 jobs;
    None where nothing was counted."""
    shares = departure_data.per_fragment(results).iloc[:_JOBS]
    if not len(shares):
        return None
    names = job_names(results.jobs)
    places = [float(place) for place in range(len(shares))]
    figure = new_figure(plot_style.PAGE, 0.9 + 0.32 * len(shares))
    axes = figure.add_subplot()
    begun = np.zeros(len(shares))
    longest = float(shares.sum(axis=1).max())
    for cause in shares:
        style, values = plot_style.cause_style(str(cause)), shares[cause].to_numpy()
        axes.barh(
            places,
            values,
            left=begun,
            height=0.7,
            color=style.color,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.4,
            label=style.title,
        )
        for place, value, start in zip(places, values, begun, strict=True):
            if value > _INSIDE * longest:
                dark = style.color in (plot_style.BLACK, plot_style.BLUE, plot_style.GREEN)
                axes.text(
                    start + value / 2,
                    place,
                    units.ratio(value),
                    ha="center",
                    va="center",
                    fontsize=6,
                    color="white" if dark or style.color == plot_style.VERMILION else "black",
                )
        begun += values
    axes.axvline(1, color=plot_style.BLACK, linewidth=0.6, linestyle=":")
    axes.set_yticks(places, [str(names[job]) for job in shares.index])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlabel("PS packets / fragment")
    figure.legend(loc="outside upper center", ncols=4)
    return figure
