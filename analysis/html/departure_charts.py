"""The chart of where the packets to a job's PS come from, drawn with Plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base import units

from testbed.analysis.data import departure_data
from testbed.analysis.data.run_summary import job_names, jobs_left_out, longest_jobs
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.results import Results


def causes(results: Results) -> Chart | None:
    """PS packets per fragment, a stacked bar per job with a part per cause; None where nothing was
    counted."""
    shares = departure_data.per_fragment(results)
    chosen = longest_jobs(results.jobs)["job"].unique()
    shares = shares[shares.index.isin(chosen)]
    if not len(shares):
        return None
    names = job_names(results.jobs)
    jobs = [str(names[job]) for job in shares.index]
    traces: list[parts.Trace] = []
    for cause in shares:
        style = plot_style.cause_style(str(cause))
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": style.title,
                "y": jobs,
                "x": parts.numbers(shares[cause]),
                "marker": parts.bar_marker(style.color, style.hatch),
                "hovertext": [
                    f"{job}, {style.title}: {units.ratio(value)}"
                    for job, value in zip(jobs, shares[cause], strict=True)
                ],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
    layout = parts.layout(
        barmode="stack",
        showlegend=True,
        xaxis={"text": "packets / fragment", "rangemode": "tozero"},
        yaxis={
            "categoryorder": "array",
            "categoryarray": jobs,
            "showgrid": False,
            "autorange": "reversed",
        },
        shapes=[parts.vertical_line(1)],
    )
    left_out = jobs_left_out(results.jobs)
    return Chart(
        "ps-packets",
        "Where the packets to the PS come from",
        {"data": traces, "layout": layout},
        "A bar per job, with a part for each cause: gradient packets that left for its PS, per"
        " fragment. 1 means that every sum was completed in the switch, the number of workers that"
        " none was aggregated.",
        f"Only {left_out}." if left_out else "",
        150 + 30 * len(jobs),
    )
