"""What each worker did when: forward, backward, communication, and waiting for gradients.

A worker has two lanes: computing (forward and backward steps, and between them the time that it
stood still) above communicating. A step of a layer is too short to be seen in a long run, so
neighbouring pieces of the same kind become one until the chart has few enough marks. Where that
would make one piece of several iterations, the lanes are painted instead: a picture of so many
columns, each in the colour of what took most of its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.results import Results

WORKERS = 32  # rows
MARKS = 3000
COLUMNS = 1000  # of a painted lane
_FINEST = 2000  # pieces closer than this part of the time axis are one from the start
_COARSEST = 250

# phase: colour, hatch, top of its lane, lane's height, what it is
PHASES = {
    "forward": (plot_style.SKY, "", -0.44, 0.44, "forward"),
    "backward": (plot_style.BLUE, "", -0.44, 0.44, "backward"),
    "compute": (plot_style.BLUE, "", -0.44, 0.44, "forward and backward"),
    "waiting": (plot_style.FREE, "///", -0.44, 0.44, "waiting for gradients"),
    "communication": (plot_style.ORANGE, "...", 0.02, 0.34, "communication"),
}
_PIECE = ["row", "phase", "iteration", "start", "end"]


def timeline(results: Results) -> Chart:
    """The chart for the run's first repetition; table iterations must have rows."""
    rows = results.iterations
    repetition = int(rows["repetition"].min())
    rows = rows[rows["repetition"] == repetition]
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    workers = list(rows[["job", "worker"]].drop_duplicates().itertuples(index=False, name=None))
    workers = sorted((int(job), int(worker)) for job, worker in workers)
    shown = _some_of_each(workers)
    place = {worker: number for number, worker in enumerate(shown)}
    pieces = _pieces(results, repetition, place)
    single, gap_ns = merged(pieces)
    job_of_row = [job for job, _ in shown]
    labels = [f"{names.get(job, job)} w{worker}" for job, worker in shown]
    painted = len(single) > MARKS
    last = float(pieces["end"].max()) / 1e9 if len(pieces) else None
    if painted:
        traces = [*_legend(set(pieces["phase"])), *_paint(pieces, job_of_row)]
    else:
        traces = _bars(single, job_of_row, labels)
    traces += _faults(results, repetition, len(shown))
    notes = []
    if len(workers) > len(shown):
        notes.append(f"{len(shown)} of {len(workers)} workers are shown, some of every job.")
    if painted:
        notes.append(f"{COLUMNS} moments, each in the colour of what took most of its time.")
    elif gap_ns > 0:
        notes.append(f"Pieces of one kind less than {gap_ns / 1e6:.3g} ms apart are drawn as one.")
    if results.jobs["repetition"].nunique() > 1:
        notes.append(f"Repetition {repetition}.")
    layout = parts.layout(
        barmode="overlay",
        bargap=0,
        xaxis=parts.time_axis(last, rangemode="tozero"),
        yaxis={
            "tickvals": list(range(len(shown))),
            "ticktext": labels,
            "range": [len(shown) - 0.45, -0.7],
            "showgrid": False,
        },
    )
    return Chart(
        name="timeline",
        title="What each worker did",
        spec={"data": traces, "layout": layout},
        text="A row per worker; above, its forward and backward passes and its waits for gradients;"
        " below, when its gradients were under way.",
        note=" ".join(notes),
        height=150 + 34 * len(shown),
        over_time=True,
    )


def _bars(pieces: pd.DataFrame, job_of_row: list[int], labels: list[str]) -> list[parts.Trace]:
    """A bar for each piece: a trace per phase and job."""
    traces = []
    for phase, (color, hatch, top, height, title) in PHASES.items():
        of_phase = pieces[pieces["phase"] == phase]
        jobs = of_phase["row"].map(lambda row: job_of_row[row])
        for number, (job, some) in enumerate(of_phase.groupby(jobs)):
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": title,
                    "legendgroup": phase,
                    "showlegend": number == 0,
                    "meta": {"job": int(job)},
                    "base": parts.seconds(some["start"]),
                    "x": parts.seconds(some["end"] - some["start"]),
                    "y": some["row"].tolist(),
                    "offset": top,
                    "width": height,
                    "marker": _fill(color, hatch, phase),
                    "customdata": [
                        [labels[row], int(iteration)]
                        for row, iteration in zip(some["row"], some["iteration"], strict=True)
                    ],
                    "hovertemplate": "%{customdata[0]}, iteration %{customdata[1]}<br>"
                    + title
                    + " from %{base:.4~s}s for %{x:.4~s}s<extra></extra>",
                }
            )
    return traces


def _legend(phases: set[str]) -> list[parts.Trace]:
    """What colours mean: bars without any place."""
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": title,
            "x": [None],
            "y": [None],
            "marker": parts.bar_marker(color),
        }
        for phase, (color, _, _, _, title) in PHASES.items()
        if phase in phases
    ]


def _paint(pieces: pd.DataFrame, job_of_row: list[int]) -> list[parts.Trace]:
    """Lanes as pictures, one for each job: in each column what took most of its time, and nothing
    where nothing was done for most of it."""
    phases = list(PHASES)
    pieces = _joined(_sorted(pieces), 0.0)  # of a worker's layers some are under way together
    end = float(pieces["end"].max())
    took = np.zeros((len(phases), len(job_of_row), COLUMNS))
    for (phase, row), some in pieces.groupby(["phase", "row"]):
        took[phases.index(phase), row] = _coverage(some, end)
    below = phases.index("communication")
    lanes = []  # per row: of computing and of communicating, the phase in each column, -1: none
    for row in range(len(job_of_row)):
        upper = took[:below, row]
        best = np.where(upper.sum(axis=0) > 0.5, upper.argmax(axis=0), -1)
        lower = np.where(took[below, row] > 0.5, below, -1)
        lanes.append((best, lower))
    edges = (np.arange(COLUMNS + 1) * end / COLUMNS / 1e9).tolist()
    share = 1 / len(phases)
    scale = [
        [number * share + step * share, color]
        for number, (color, *_) in enumerate(PHASES.values())
        for step in (0, 1)
    ]
    nothing = [None] * COLUMNS
    traces = []
    for job in dict.fromkeys(job_of_row):
        rows = [row for row, of_row in enumerate(job_of_row) if of_row == job]
        bounds: list[float] = []
        cells: list[list[int | None]] = []
        for row in rows:
            if cells:
                cells.append(nothing)  # between two rows
            upper, lower = (
                [None if number < 0 else int(number) for number in lane] for lane in lanes[row]
            )
            cells += [upper, nothing, lower]
            bounds += [row - 0.44, row, row + 0.02, row + 0.36]
        traces.append(
            {
                "type": "heatmap",
                "meta": {"job": job},
                "x": parts.numbers(edges),
                "y": parts.numbers(bounds),
                "z": cells,
                "zmin": -0.5,
                "zmax": len(phases) - 0.5,
                "colorscale": scale,
                "showscale": False,
                "hoverinfo": "skip",
            }
        )
    return traces


def _coverage(pieces: pd.DataFrame, end: float) -> np.ndarray:
    """Share of each of COLUMNS equal parts of 0 .. end that pieces (columns start, end) take,
    float64[COLUMNS]; at most 1 where pieces overlap."""
    starts = pieces["start"].to_numpy(float) * COLUMNS / end
    ends = pieces["end"].to_numpy(float) * COLUMNS / end
    first = np.clip(starts.astype(int), 0, COLUMNS - 1)
    last = np.clip(ends.astype(int), 0, COLUMNS - 1)
    # Whole columns between the first and the last, then the parts at both ends.
    steps = np.zeros(COLUMNS + 1)
    np.add.at(steps, first, 1.0)
    np.add.at(steps, last, -1.0)
    found = np.cumsum(steps)[:COLUMNS]
    np.add.at(found, first, -(starts - first))
    np.add.at(found, last, ends - last)
    return np.minimum(found, 1.0)


def _faults(results: Results, repetition: int, rows: int) -> list[parts.Trace]:
    """Planned faults, as marks at the top where they began, with a line across all workers."""
    faults = results.faults
    faults = faults[(faults["repetition"] == repetition) & faults["begun_ns"].notna()]
    if not len(faults):
        return []
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
            "line": {"color": plot_style.VERMILION, "dash": "dot", "width": 1},
            "hoverinfo": "skip",
        },
        common
        | {
            "mode": "markers",
            "x": began,
            "y": [-0.5] * len(began),
            "marker": {"symbol": "x", "size": 9, "color": plot_style.VERMILION},
            "hovertext": words,
            "hovertemplate": "%{hovertext}, at %{x:.4f} s<extra></extra>",
        },
    ]


def _fill(color: str, hatch: str, phase: str) -> dict:
    marker = parts.bar_marker(color, hatch)
    if phase == "waiting":
        marker["pattern"]["fgcolor"] = plot_style.GREY
    return marker


def _some_of_each(workers: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most WORKERS, some of every job rather than all of the first ones."""
    if len(workers) <= WORKERS:
        return workers
    of_each = max(1, WORKERS // len({job for job, _ in workers}))
    frame = pd.DataFrame(workers, columns=["job", "worker"])
    rank = frame.groupby("job").cumcount()
    return [workers[number] for number in frame.index[rank < of_each]][:WORKERS]


def _pieces(results: Results, repetition: int, place: dict[tuple[int, int], int]) -> pd.DataFrame:
    """Columns of _PIECE (row of the chart, phase, iteration, start and end in ns), unmerged."""
    iterations = _of(results.iterations, repetition, place)
    tensors = _of(results.tensors, repetition, place)
    parts = [
        _span(tensors, "communication", "first_sent_ns", "done_ns"),
        *_computing(iterations, tensors),
    ]
    computing = pd.concat(parts[1:])
    parts.append(_gaps(computing))
    return pd.concat(parts, ignore_index=True)


def _of(table: pd.DataFrame, repetition: int, place: dict[tuple[int, int], int]) -> pd.DataFrame:
    table = table[table["repetition"] == repetition]
    keys = zip(table["job"].tolist(), table["worker"].tolist(), strict=True)
    row = pd.Series([place.get(key, -1) for key in keys], index=table.index, dtype="int64")
    return table.assign(row=row)[row >= 0]


def _computing(iterations: pd.DataFrame, tensors: pd.DataFrame) -> list[pd.DataFrame]:
    """Forward and backward passes; undivided where a run did not record forward steps."""
    if not len(tensors) or tensors["forward_end_ns"].isna().all():
        return [_span(iterations, "compute", "start_ns", "compute_end_ns")]
    keys = ["row", "iteration"]
    turned = tensors.groupby(keys)["forward_end_ns"].max().rename("turn_ns").reset_index()
    backward = iterations.merge(turned, on=keys)
    return [
        _span(tensors, "forward", "forward_start_ns", "forward_end_ns"),
        _span(backward, "backward", "turn_ns", "compute_end_ns"),
    ]


def _span(table: pd.DataFrame, phase: str, start: str, end: str) -> pd.DataFrame:
    known = table.dropna(subset=[start, end])
    return pd.DataFrame(
        {
            "row": known["row"].astype("int64"),
            "phase": phase,
            "iteration": known["iteration"].astype("int64"),
            "start": known[start].astype("int64"),
            "end": known[end].astype("int64"),
        },
        columns=_PIECE,
    )


def _gaps(computing: pd.DataFrame) -> pd.DataFrame:
    """When a worker stood still between two of its compute steps."""
    rows = computing.sort_values(["row", "start"])
    until = rows.groupby("row")["end"].cummax().groupby(rows["row"]).shift(1)
    waited = rows.assign(phase="waiting", end=rows["start"], start=until)
    waited = waited[waited["start"].notna() & (waited["end"] > waited["start"])]
    return waited.astype({"start": "int64"})[_PIECE]


def merged(pieces: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """`pieces` with neighbours of a kind made one until at most MARKS are left, or until more would
    make one of several iterations; and how many ns apart two may be to become one."""
    if not len(pieces):
        return pieces, 0.0
    span = float(pieces["end"].max() - pieces["start"].min())
    pieces = _sorted(pieces)
    gap = span / _FINEST
    while True:
        found = _joined(pieces, gap)
        if len(found) <= MARKS or gap > span / _COARSEST:
            return found, gap
        gap *= 2


def _sorted(pieces: pd.DataFrame) -> pd.DataFrame:
    return pieces.sort_values(["row", "phase", "start"], ignore_index=True)


def _joined(pieces: pd.DataFrame, gap: float) -> pd.DataFrame:
    kinds = [pieces["row"], pieces["phase"]]
    until = pieces.groupby(kinds, sort=False)["end"].cummax()
    fresh = np.zeros(len(pieces), bool)
    fresh[:1] = True
    for kind in [*kinds, pieces["iteration"]]:
        fresh[1:] |= kind.to_numpy()[1:] != kind.to_numpy()[:-1]
    fresh[1:] |= pieces["start"].to_numpy()[1:] - until.to_numpy()[:-1] > gap
    groups = pieces.groupby(np.cumsum(fresh), sort=False)
    return groups.agg(
        {"row": "first", "phase": "first", "iteration": "first", "start": "min", "end": "max"}
    ).reset_index(drop=True)
