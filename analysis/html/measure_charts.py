"""The charts of what programs have reported: loss, accuracy and others over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.analysis.data.run_summary import job_names
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.results import Results

CHARTS = 8  # measures with a chart of their own
POINTS = 400  # of a job's line


def measures(results: Results, points: int = POINTS) -> list[Chart]:
    """A chart for each measure, with a line per job of at most `points`: of the first repetition
    that has it and of the lowest rank that reports it."""
    table = results.measures
    names = job_names(results.jobs)
    charts = []
    for name in list(dict.fromkeys(table["name"]))[:CHARTS]:
        traces: list[parts.Trace] = []
        last = 0.0
        longest = 0
        for job, said in table[table["name"] == name].groupby("job"):
            said = said[said.repetition == said.repetition.min()]
            said = said[said.worker == said.worker.min()].sort_values("number")
            longest = max(longest, len(said))
            shown = said.iloc[:: max(1, -(-len(said) // points))]
            last = max(last, float(said.time_ns.max()) / 1e9)
            title = names.get(job, str(job))
            style = plot_style.job_style(int(job), title)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers" if len(shown) <= 40 else "lines",
                    "name": title,
                    "meta": {"job": int(job)},
                    "x": parts.seconds(shown.time_ns),
                    "y": parts.numbers(shown.value),
                    "text": [f"step {step}" for step in shown.step],
                    "line": {"color": style.color, "dash": parts.dash(int(job)), "width": 1.5},
                    "hovertemplate": f"{title}, %{{text}}: %{{y}}<extra></extra>",
                }
            )
        layout = parts.layout(
            xaxis=parts.time_axis(last, range=[0, last]),
            yaxis={"text": name},
            showlegend=len(traces) > 1,
        )
        charts.append(
            Chart(
                f"measure-{name}",
                name,
                {"data": traces, "layout": layout},
                f"A line per job: {name} over time, as reported by its lowest reporting rank.",
                parts.thinned_note(longest, points, "reports"),
                over_time=True,
            )
        )
    return charts
