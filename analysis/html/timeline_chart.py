"""The chart of what each worker did when, drawn with Plotly.

A worker has two lanes: computing, with its waits, above communicating. Where a run is too long for
bars, the lanes are painted: a picture of so many columns, each in the colour of what took most of
its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from p4fabric.base import units

from testbed.analysis.data.timeline_data import (
    PHASES,
    WorkerRows,
    fault_rows,
    merged,
    painted,
    worker_phases,
    worker_rows,
)
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style
from testbed.analysis.style.plot_style import PlotStyle

if TYPE_CHECKING:
    from testbed.results import Results

MARKS = 3000
COLUMNS = 1000  # of a painted lane

# phase: top of its lane, lane's height
_LANES = dict.fromkeys(PHASES, (-0.44, 0.44)) | {"communication": (0.02, 0.34)}


def timeline(results: Results, marks: int = MARKS, columns: int = COLUMNS) -> Chart:
    """The chart for the run's first repetition, of at most so many marks, else of so many columns;
    table iterations must have rows."""
    rows = worker_rows(results)
    pieces = worker_phases(results, rows)
    single, gap_ns = merged(pieces, marks)
    count = len(rows.workers)
    paint = len(single) > marks
    last = float(pieces["end"].max()) / 1e9 if len(pieces) else None
    drawn = _painted_lanes(pieces, rows, columns) if paint else _bars(single, rows)
    traces = [*_legend(set(pieces["phase"])), *drawn, *_faults(results, rows)]
    notes = []
    if rows.total > count:
        notes.append(f"{count} of {rows.total} workers are shown, some of every job.")
    if paint:
        notes.append(f"{columns} time steps, each in the colour of its longest phase.")
    elif gap_ns > 0:
        notes.append(f"Phases of one kind less than {units.time(gap_ns)} apart are drawn as one.")
    if results.jobs["repetition"].nunique() > 1:
        notes.append(f"Repetition {rows.repetition}.")
    layout = parts.layout(
        barmode="overlay",
        bargap=0,
        xaxis=parts.time_axis(last, rangemode="tozero"),
        yaxis={
            "tickvals": list(range(count)),
            "ticktext": list(rows.labels),
            "range": [count - 0.45, -0.7],
            "showgrid": False,
        },
    )
    return Chart(
        name="timeline",
        title="Worker timeline",
        spec={"data": traces, "layout": layout},
        text="A row per worker; above, what it computes and its waits; below, its communication.",
        note=" ".join(notes),
        height=150 + 34 * count,
        over_time=True,
    )


def _bars(pieces: pd.DataFrame, rows: WorkerRows) -> list[parts.Trace]:
    """A bar for each piece: a trace per phase and job."""
    traces = []
    job_of_row = rows.jobs
    for phase, (top, height) in _LANES.items():
        of_phase = pieces[pieces["phase"] == phase]
        jobs = of_phase["row"].map(lambda row: job_of_row[row])
        for job, some in of_phase.groupby(jobs):
            style = plot_style.phase_style(phase, int(job))
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": style.title,
                    "legendgroup": phase,
                    "showlegend": False,
                    "meta": {"job": int(job), "phase": phase},
                    "base": parts.seconds(some["start"]),
                    "x": parts.seconds(some["end"] - some["start"]),
                    "y": some["row"].tolist(),
                    "offset": top,
                    "width": height,
                    "marker": _fill(style, phase),
                    "customdata": [
                        [rows.labels[row], int(iteration)]
                        for row, iteration in zip(some["row"], some["iteration"], strict=True)
                    ],
                    "hovertemplate": "%{customdata[0]}, iteration %{customdata[1]}<br>"
                    + style.title
                    + " from %{base:.4~s}s for %{x:.4~s}s<extra></extra>",
                }
            )
    return traces


def _legend(phases: set[str]) -> list[parts.Trace]:
    """The legend of phases: grey bars without any place, since each job has its own colour."""
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": plot_style.phase_style(phase).title,
            "legendgroup": phase,
            "x": [None],
            "y": [None],
            "marker": _fill(plot_style.phase_style(phase), phase),
        }
        for phase in PHASES
        if phase in phases
    ]


def _painted_lanes(pieces: pd.DataFrame, rows: WorkerRows, columns: int) -> list[parts.Trace]:
    """Lanes as pictures, one for each job."""
    computing, communicating = painted(pieces, len(rows.workers), columns)
    edges = np.arange(columns + 1) * float(pieces["end"].max()) / columns / 1e9
    share = 1 / len(PHASES)
    nothing: list[int | None] = [None] * columns
    traces: list[parts.Trace] = []
    for job in dict.fromkeys(rows.jobs):
        scale = [
            [number * share + step * share, plot_style.phase_style(phase, job).color]
            for number, phase in enumerate(PHASES)
            for step in (0, 1)
        ]
        bounds: list[float] = []
        cells: list[list[int | None]] = []
        for row in (number for number, of_row in enumerate(rows.jobs) if of_row == job):
            if cells:
                cells.append(nothing)  # between two rows
            cells += [_lane(computing[row]), nothing, _lane(communicating[row])]
            bounds += [row - 0.44, row, row + 0.02, row + 0.36]
        traces.append(
            {
                "type": "heatmap",
                "meta": {"job": job},
                "x": parts.numbers(edges),
                "y": parts.numbers(bounds),
                "z": cells,
                "zmin": -0.5,
                "zmax": len(PHASES) - 0.5,
                "colorscale": scale,
                "showscale": False,
                "hoverinfo": "skip",
            }
        )
    return traces


def _lane(phases: np.ndarray) -> list[int | None]:
    return [None if number < 0 else int(number) for number in phases]


def _faults(results: Results, rows: WorkerRows) -> list[parts.Trace]:
    """Planned faults: those of workers as bars on their rows, as long as they lasted; the others as
    marks at the top where they began, with a line across all workers."""
    faults = results.faults
    faults = faults[(faults["repetition"] == rows.repetition) & faults["begun_ns"].notna()]
    own = fault_rows(faults, rows)
    traces = _fault_bars(own)
    others = faults[~faults["fault"].isin(own["fault"])]
    return traces + (_fault_lines(others, len(rows.workers)) if len(others) else [])


def _fault_bars(own: pd.DataFrame) -> list[parts.Trace]:
    """A bar for each fault and worker; one that does not end by itself is a mark."""
    if not len(own):
        return []
    lengths = (own["ended_ns"] - own["begun_ns"]).astype("float64").fillna(0.0)
    words = [
        f"{row.kind}: {row.target}, at {units.time(row.begun_ns)}"
        + (f", for {units.time(length)}" if length > 0 else "")
        for row, length in zip(own.itertuples(), lengths, strict=True)
    ]
    traces: list[parts.Trace] = []
    for job, some in own.assign(length=lengths, words=words).groupby("job"):
        common: parts.Trace = {
            "name": "planned fault",
            "legendgroup": "faults",
            "meta": {"job": int(job)},
            "y": some["row"].tolist(),
            "hovertext": some["words"].tolist(),
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        marker = parts.bar_marker(plot_style.FAULT, "xxx")
        bar: parts.Trace = {
            "type": "bar",
            "orientation": "h",
            "base": parts.seconds(some["begun_ns"]),
        }
        bar |= {"x": parts.seconds(some["length"]), "offset": -0.5, "width": 0.16}
        traces.append(common | bar | {"marker": marker, "showlegend": not traces})
        mark: parts.Trace = {
            "type": "scatter",
            "mode": "markers",
            "x": parts.seconds(some["begun_ns"]),
        }
        mark["marker"] = {"symbol": "x", "size": 7, "color": plot_style.FAULT}
        traces.append(common | mark | {"showlegend": False})
    return traces


def _fault_lines(faults: pd.DataFrame, rows: int) -> list[parts.Trace]:
    began = parts.seconds(faults["begun_ns"])
    lines: list[float | None] = []
    for time in began:
        lines += [time, time, None]
    words = [f"{row.kind}: {row.target}" for row in faults[["kind", "target"]].itertuples()]
    common = {"type": "scatter", "legendgroup": "faults", "name": "planned fault"}
    return [
        common
        | {
            "mode": "lines",
            "showlegend": False,
            "x": lines,
            "y": [-0.5, rows - 0.5, None] * len(began),
            "line": {"color": plot_style.FAULT, "dash": "dot", "width": 1},
            "hoverinfo": "skip",
        },
        common
        | {
            "mode": "markers",
            "x": began,
            "y": [-0.5] * len(began),
            "marker": {"symbol": "x", "size": 9, "color": plot_style.FAULT},
            "hovertext": words,
            "hovertemplate": "%{hovertext}, at %{x:.4f} s<extra></extra>",
        },
    ]


def _fill(style: PlotStyle, phase: str) -> dict:
    marker = parts.bar_marker(style.color, style.hatch)
    if phase == "waiting":
        marker["pattern"]["fgcolor"] = plot_style.GREY
    return marker
