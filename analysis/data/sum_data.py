"""Bits in which the sums of two runs differ, or those of a run's workers, and their errors (table
`sums`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from testbed.results.reader import ResultsError

if TYPE_CHECKING:
    import pandas as pd

    from testbed.results import Results

Place = tuple[int, int, int]  # repetition, job and iteration


@dataclass(frozen=True)
class Difference:
    """Of `sums` sums that were compared, `differing` differ, in `bits` bits."""

    sums: int = 0
    differing: int = 0
    bits: int = 0

    def __add__(self, other: Difference) -> Difference:
        return Difference(
            self.sums + other.sums, self.differing + other.differing, self.bits + other.bits
        )

    @property
    def text(self) -> str:
        of = f"of {self.sums:,}"
        if not self.differing:
            return f"0 bits differ, {of} sums"
        share = 100 * self.differing / self.sums
        return f"{self.bits:,} bits differ, in {self.differing:,} {of} sums ({share:.1f} %)"


def difference(first: np.ndarray, second: np.ndarray) -> Difference:
    """Of two arrays of words, uint32[N]. Raises ResultsError if they are not equally long."""
    if first.shape != second.shape:
        raise ResultsError(
            f"the two have {first.size} and {second.size} sums; compare runs of the same jobs"
        )
    apart = first ^ second
    bits = int(np.unpackbits(apart.view(np.uint8)).sum())
    return Difference(first.size, int(np.count_nonzero(apart)), bits)


def between_runs(first: pd.DataFrame, second: pd.DataFrame) -> dict[int, Difference]:
    """By job, what the first workers of two runs have received, of their tables `sums`. Raises
    ResultsError if the runs do not have the same jobs and iterations."""
    found: dict[int, Difference] = {}
    both = [_of_first_worker(table) for table in (first, second)]
    if set(both[0]) != set(both[1]):
        raise ResultsError("the two runs do not have the same jobs and iterations")
    for place, words in both[0].items():
        job = place[1]
        found[job] = found.get(job, Difference()) + difference(words, both[1][place])
    return found


def between_workers(table: pd.DataFrame) -> dict[int, Difference]:
    """By job, what the other workers of a run have received, compared with the first one."""
    found: dict[int, Difference] = {}
    first = _of_first_worker(table)
    for place, worker, words in _rows(table):
        job = place[1]
        found.setdefault(job, Difference())
        if worker > 0:
            found[job] += difference(first[place], words)
    return found


def errors_of(table: pd.DataFrame) -> dict[int, tuple[float, float]]:
    """By job, the largest and the mean error of the sums of a run, over the sums of the absolute
    values. Jobs without, and runs that are older, are left out."""
    if "largest_error" not in table:
        return {}
    known = table.dropna(subset=["largest_error", "mean_error"])
    return {
        int(job): (float(rows["largest_error"].max()), float(rows["mean_error"].mean()))
        for job, rows in known.groupby("job")
    }


def sentences(runs: Sequence[Results], titles: Sequence[str]) -> list[str]:
    """Differences of the sums of two runs, and between the workers of each; empty unless both have
    kept them."""
    tables = [run.table("sums") for run in runs]
    if not all(map(len, tables)):
        return []
    said = []
    seeds = {run.experiment.get("seed") for run in runs}
    if len(seeds) > 1:
        said.append("sums of the two runs: not compared, since other seeds make other values")
    else:
        said += _of_jobs(runs[0], "between the runs", between_runs(*tables))
    for run, title, table in zip(runs, titles, tables, strict=True):
        said += _of_jobs(run, f"between the workers of {title}", between_workers(table))
        names = _names(run)
        said += [
            f"errors of the sums of {names[job]} in {title}: {largest:.2g} at most, {mean:.2g} in"
            " the mean, of the sum of the absolute values"
            for job, (largest, mean) in errors_of(table).items()
        ]
    return said


def _of_jobs(run: Results, which: str, found: Mapping[int, Difference]) -> list[str]:
    names = _names(run)
    return [f"sums of {names[job]}, {which}: {each.text}" for job, each in found.items()]


def _names(run: Results) -> dict[int, str]:
    jobs = run.table("jobs")
    return dict(zip(jobs["job"], jobs["name"], strict=True))


def _rows(table: pd.DataFrame) -> Iterator[tuple[Place, int, np.ndarray]]:
    columns = (table[name] for name in ("repetition", "job", "iteration", "worker", "words"))
    for repetition, job, iteration, worker, words in zip(*columns, strict=True):
        place = int(repetition), int(job), int(iteration)
        yield place, int(worker), np.frombuffer(words, np.uint32)


def _of_first_worker(table: pd.DataFrame) -> dict[Place, np.ndarray]:
    return {place: words for place, worker, words in _rows(table) if worker == 0}
