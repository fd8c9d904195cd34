"""The chart of what each worker did when: forward, backward, communication, waiting.

A worker has two lanes: computing (forward and backward steps, and between and after them the time
that it stood still) and communicating. A step of a layer is too short to be seen in a long run, so
neighbouring pieces of the same kind become one until the chart has few enough marks (`merged`).
Where that would join several iterations, a chart paints the lanes instead (`painted`).

Of a rank of a program, the steps of its graph are known: what it computes is above, and its
collectives, sends and receives are below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from testbed.analysis.data.chart_data import limit_per_owner
from testbed.analysis.data.run_summary import first_repetition, job_names

if TYPE_CHECKING:
    from testbed.results import Results

WORKERS = 32  # rows
PHASES = ("forward", "backward", "compute", "step", "waiting", "communication")
_FINEST = 2000  # pieces closer than this part of the time axis are one from the start
_COARSEST = 250
_PIECE = ["row", "phase", "iteration", "start", "end"]


@dataclass(frozen=True)
class WorkerRows:
    """The workers of a timeline, from the top: (job, worker), and their labels. `total`: how many
    workers there are; of many, some of every job have a row."""

    repetition: int
    workers: tuple[tuple[int, int], ...]
    labels: tuple[str, ...]
    total: int

    @property
    def jobs(self) -> list[int]:
        """The job of each row."""
        return [job for job, _ in self.workers]


def worker_rows(results: Results) -> WorkerRows:
    """The rows for the run's first repetition; table iterations must have rows."""
    rows = results.iterations
    repetition = int(rows["repetition"].min())
    rows = rows[rows["repetition"] == repetition]
    workers = sorted(set(zip(rows["job"].astype(int), rows["worker"].astype(int), strict=True)))
    shown = [workers[number] for number in limit_per_owner([job for job, _ in workers], WORKERS)]
    names = job_names(results.jobs)
    labels = [f"{names.get(job, job)} w{worker}" for job, worker in shown]
    return WorkerRows(repetition, tuple(shown), tuple(labels), len(workers))


def end_ns(results: Results) -> float:
    """End of a run's time axes: the last time of its first repetition."""
    tables = ((results.iterations, "end_ns"), (results.memory, "time_ns"))
    ends = [first_repetition(table)[column].max() for table, column in tables if len(table)]
    return max((float(end) for end in ends if not pd.isna(end)), default=0.0)


def _of_rows(table: pd.DataFrame, rows: WorkerRows) -> pd.DataFrame:
    """The rows of a table that are of the timeline's workers and repetition, with column row."""
    table = table[table["repetition"] == rows.repetition]
    place = {worker: number for number, worker in enumerate(rows.workers)}
    keys = zip(table["job"].tolist(), table["worker"].tolist(), strict=True)
    row = pd.Series([place.get(key, -1) for key in keys], index=table.index, dtype="int64")
    return table.assign(row=row)[row >= 0]


def fault_rows(faults: pd.DataFrame, rows: WorkerRows) -> pd.DataFrame:
    """The rows of `faults` (of table faults) that hit workers, once for each worker that has a row:
    with column row. A fault of a worker names it, `worker 1 of job a`; one of a job, `job a`, hits
    all of its workers."""
    found = []
    for number, fault in enumerate(faults.itertuples()):
        if pd.isna(fault.job):
            continue
        named = re.match(r"worker (\d+) of ", str(fault.target))
        if named is None and not str(fault.target).startswith("job "):
            continue
        for row, (job, worker) in enumerate(rows.workers):
            if job == fault.job and (named is None or worker == int(named[1])):
                found.append((number, row))
    hit = faults.iloc[[number for number, _ in found]]
    return hit.assign(row=[row for _, row in found])


def worker_phases(results: Results, rows: WorkerRows) -> pd.DataFrame:
    """The activities of the workers of `rows` over time, in pieces: columns row, phase (of PHASES),
    iteration, start and end in ns."""
    iterations = _of_rows(results.iterations, rows)
    tensors, steps = _of_rows(results.tensors, rows), _of_rows(results.steps, rows)
    computes, ranks = steps["kind"] == "compute", iterations["row"].isin(steps["row"])
    computing = [
        *_computing(iterations[~ranks], tensors),
        _span(steps[computes], "step", "start_ns", "end_ns"),
    ]
    # A rank waits from its first call on, and any worker, past its last step, for what is missing.
    by_row = iterations.groupby("row")["iteration"]
    first, last = iterations.loc[by_row.idxmin()], iterations.loc[by_row.idxmax()]
    begins = _span(first, "waiting", "start_ns", "start_ns")
    ends = _span(last, "waiting", "end_ns", "end_ns")
    return pd.concat(
        [
            _span(tensors, "communication", "first_sent_ns", "done_ns"),
            _span(steps[~computes], "communication", "start_ns", "end_ns"),
            *computing,
            _gaps(pd.concat([begins, *computing, ends])),
        ],
        ignore_index=True,
    )


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
    """Times in which a worker stood still between two of its compute steps. A piece without length
    ends the last one."""
    rows = computing.sort_values(["row", "start"])
    until = rows.groupby("row")["end"].cummax().groupby(rows["row"]).shift(1)
    waited = rows.assign(phase="waiting", end=rows["start"], start=until)
    waited = waited[waited["start"].notna() & (waited["end"] > waited["start"])]
    return waited.astype({"start": "int64"})[_PIECE]


def merged(pieces: pd.DataFrame, most: int) -> tuple[pd.DataFrame, float]:
    """`pieces` with neighbours of a kind joined until at most `most` are left, or until more would
    join several iterations; and how many ns apart two may be to be joined."""
    if not len(pieces):
        return pieces, 0.0
    span = float(pieces["end"].max() - pieces["start"].min())
    pieces = _sorted(pieces)
    gap = span / _FINEST
    while True:
        found = _joined(pieces, gap)
        if len(found) <= most or gap > span / _COARSEST:
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


def painted(pieces: pd.DataFrame, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The lanes of computing and of communicating, each int64[rows, columns]: the number in PHASES
    of what took most of that part of the time from 0 to the last end; -1 where nothing was done for
    most of it."""
    pieces = _joined(_sorted(pieces), 0.0)  # of a worker's layers some are under way together
    end = float(pieces["end"].max())
    took = np.zeros((len(PHASES), rows, columns))
    for (phase, row), some in pieces.groupby(["phase", "row"]):
        took[PHASES.index(phase), row] = _coverage(some, end, columns)
    below = PHASES.index("communication")
    upper = took[:below]
    computing = np.where(upper.sum(axis=0) > 0.5, upper.argmax(axis=0), -1)
    return computing, np.where(took[below] > 0.5, below, -1)


def _coverage(pieces: pd.DataFrame, end: float, columns: int) -> np.ndarray:
    """Share of each of `columns` equal parts of 0 .. end that pieces (columns start, end) take,
    float64[columns]; at most 1 where pieces overlap."""
    starts = pieces["start"].to_numpy(float) * columns / end
    ends = pieces["end"].to_numpy(float) * columns / end
    first = np.clip(starts.astype(int), 0, columns - 1)
    last = np.clip(ends.astype(int), 0, columns - 1)
    # Whole columns between the first and the last, then the parts at both ends.
    steps = np.zeros(columns + 1)
    np.add.at(steps, first, 1.0)
    np.add.at(steps, last, -1.0)
    found = np.cumsum(steps)[:columns]
    np.add.at(found, first, -(starts - first))
    np.add.at(found, last, ends - last)
    return np.minimum(found, 1.0)
