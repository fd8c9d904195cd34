"""Bits in which the sums of two runs differ, or those of a run's workers, and their errors (table
`sums`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from testbed.results.reader import ResultsError

if TYPE_CHECKING:
    import pandas as pd

    from testbed.results import Results

Sums = tuple[int, int, str]  # job, communicator, and group of ranks ("": all)
Place = tuple[int, int, Sums]  # repetition, iteration


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


def not_alike(
    first: pd.DataFrame, second: pd.DataFrame, parts: Sequence[int | None] = (None, None)
) -> dict[Sums, str]:
    """The sums of two runs' tables that are not of the same values, and why. parts: `sum_parts` of
    each run."""
    ones, others = (_sizes(table) for table in (first, second))
    found = {}
    for sums in sorted(ones.keys() | others.keys()):
        if sums not in ones or sums not in others:
            found[sums] = "only one of the runs has them"
            continue
        (ranks, words), (more, also) = ones[sums], others[sums]
        if ranks != more and (parts[0] is None or parts[0] != parts[1]):
            found[sums] = (
                f"{ranks} and {more} workers add other values. With the same virtual.sum_parts"
                " they add the same"
            )
        elif words != also:
            found[sums] = f"they are {words} and {also}"
    return found


def between_runs(
    first: pd.DataFrame, second: pd.DataFrame, parts: Sequence[int | None] = (None, None)
) -> dict[Sums, Difference]:
    """Differences of what the first workers of two runs have received, of their tables `sums`.
    Raises ResultsError if none of the sums are of the same values."""
    left_out = not_alike(first, second, parts)
    found: dict[Sums, Difference] = {}
    both = [_of_first_workers(table) for table in (first, second)]
    for place, words in both[0].items():
        if (sums := place[2]) not in left_out:
            found[sums] = found.get(sums, Difference()) + difference(words, both[1][place])
    if not found:
        raise ResultsError(f"the runs have no sums in common: {next(iter(left_out.values()))}")
    return found


def between_workers(table: pd.DataFrame) -> dict[Sums, Difference]:
    """Differences of what the other workers of a run and the first one have received."""
    found: dict[Sums, Difference] = {}
    first: dict[Place, np.ndarray] = {}
    for place, words in _rows(table):
        found.setdefault(place[2], Difference())
        if first.setdefault(place, words) is not words:
            found[place[2]] += difference(first[place], words)
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
    parts = [(run.experiment.get("virtual") or {}).get("sum_parts") for run in runs]
    if len(seeds) > 1:
        said.append("sums of the two runs: not compared, since other seeds make other values")
    else:
        left_out = not_alike(tables[0], tables[1], parts)
        if left_out.keys() != {*_sizes(tables[0]), *_sizes(tables[1])}:
            said += _of_jobs(runs[0], "between the runs", between_runs(tables[0], tables[1], parts))
        names = _names(runs[0]) | _names(runs[1])
        for why in dict.fromkeys(left_out.values()):
            of_these = [sums for sums, each in left_out.items() if each == why]
            for title in _titles(names, of_these):
                said.append(f"sums of {title}, between the runs: not compared, as {why}")
    for run, title, table in zip(runs, titles, tables, strict=True):
        said += _of_jobs(run, f"between the workers of {title}", between_workers(table))
        names = _names(run)
        said += [
            f"errors of the sums of {names[job]} in {title}: {largest:.2g} at most, {mean:.2g} in"
            " the mean, of the sum of the absolute values"
            for job, (largest, mean) in errors_of(table).items()
        ]
    return said


def _of_jobs(run: Results, which: str, found: Mapping[Sums, Difference]) -> list[str]:
    """A sentence for each job, about all its groups."""
    said = []
    for title, each in _titles(_names(run), found).items():
        whole = sum((found[sums] for sums in each), Difference())
        said.append(f"sums of {title}, {which}: {whole.text}")
    return said


def _titles(names: Mapping[int, str], found: Iterable[Sums]) -> dict[str, list[Sums]]:
    """Those of each job, by its name and those of the first groups."""
    jobs: dict[int, list[Sums]] = {}
    for sums in found:
        jobs.setdefault(sums[0], []).append(sums)
    titles = {}
    for job, each in jobs.items():
        groups = [group for *_, group in each if group]
        shown = ", ".join(groups[:4]) + (f" and {len(groups) - 4} more" if groups[4:] else "")
        titles[f"{names[job]}{', ' if groups else ''}{shown}"] = each
    return titles


def _names(run: Results) -> dict[int, str]:
    jobs = run.table("jobs")
    return dict(zip(jobs["job"], jobs["name"], strict=True))


def _rows(table: pd.DataFrame) -> Iterator[tuple[Place, np.ndarray]]:
    """In the order of workers."""
    table = table.sort_values("worker", kind="stable")
    if "group" not in table:  # of an older version
        table = table.assign(communicator=table["job"], group="")
    columns = ("repetition", "iteration", "job", "communicator", "group", "words")
    for repetition, iteration, job, communicator, group, words in zip(
        *(table[name] for name in columns), strict=True
    ):
        place = int(repetition), int(iteration), (int(job), int(communicator), str(group))
        yield place, np.frombuffer(words, np.uint32)


def _of_first_workers(table: pd.DataFrame) -> dict[Place, np.ndarray]:
    found: dict[Place, np.ndarray] = {}
    for place, words in _rows(table):
        found.setdefault(place, words)
    return found


def _sizes(table: pd.DataFrame) -> dict[Sums, tuple[int, int]]:
    """Workers, and sums of one of them in all iterations and repetitions."""
    found: dict[Sums, tuple[int, int]] = {}
    first = _of_first_workers(table)
    workers = Counter(place for place, _ in _rows(table))
    for place, words in first.items():
        _, sums = found.get(place[2], (0, 0))
        found[place[2]] = workers[place], sums + words.size
    return found
