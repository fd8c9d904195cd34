"""Submissions of jobs to a cluster: their times and kinds.

Many independent users form a Poisson process: gaps between submissions are exponential and
independent. Lengths of jobs in clusters are heavy-tailed: a few long jobs are most of the work.
Times, kinds, lengths and sizes have separate random streams, so that other kinds of jobs do not
change the times.

Jobs may also come from a CSV file: one line per job, the columns named by the header like the keys
of a job in an experiment file (`submit`, `model`, `workers`, `iterations`, `scale`, ...), in any
order. A cell holds what would stand there: `1.5 ms`, `1 %`, `vgg16`. An empty cell is a key that is
left out. This module only takes the file apart; the meaning of cells is the experiment's business.
"""

from __future__ import annotations

import csv
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.config.data_files import read_text
from p4fabric.base.errors import UserError

from testbed.traffic.draws import Stream

GAPS = 0xA221  # distinguishes the streams from others of the same seed
KINDS = 0xA222
LENGTHS = 0xA223
SIZES = 0xA224
MAX_BYTES = 4 * 2**20


def poisson(seed: int, jobs: int, interval_ns: int) -> list[int]:
    """Times at which `jobs` jobs are submitted, in ns: the first at 0, then with exponential gaps
    of `interval_ns` on average."""
    stream = Stream(seed, GAPS)
    gaps = (stream.exponential(interval_ns) for _ in range(jobs - 1))
    return list(itertools.accumulate(gaps, initial=0))


def kinds(seed: int, jobs: int, weights: Sequence[int]) -> list[int]:
    """Kind of each job: places in `weights`."""
    stream = Stream(seed, KINDS)
    return [stream.weighted(weights) for _ in range(jobs)]


def lengths(seed: int, ranges: Sequence[tuple[int, int, float]]) -> list[int]:
    """The number of iterations of each job: drawn from (smallest, largest, tail) of its kind, see
    Stream.pareto."""
    return list(_lengths(seed, tuple(ranges)))


@functools.lru_cache(maxsize=16)  # the points of a sweep have the same jobs, and drawing takes long
def _lengths(seed: int, ranges: tuple[tuple[int, int, float], ...]) -> tuple[int, ...]:
    stream = Stream(seed, LENGTHS)
    return tuple(stream.pareto(*each) for each in ranges)


def sizes(seed: int, choices: Sequence[Sequence[int]]) -> list[int]:
    """The number of workers of each job: of the numbers of its kind, each half as likely as the one
    before."""
    stream = Stream(seed, SIZES)
    weights = [[1 << n for n in reversed(range(len(each)))] for each in choices]
    return [each[stream.weighted(weight)] for each, weight in zip(choices, weights, strict=True)]


@dataclass(frozen=True)
class Line:
    """One job (or whatever `read_mix` reads): `number` is its line in the file, from 1; `cells` its
    filled cells by column."""

    number: int
    cells: dict[str, str]


def is_whole(cell: str, low: int, high: int) -> bool:
    """True if a cell has a whole number from `low` to `high`, in digits alone."""
    return cell.isascii() and cell.isdigit() and low <= int(cell[:18]) <= high


def read_mix(path: Path, what: str = "jobs") -> list[Line]:
    """The jobs of a file, or what else has a line each. Lines that are empty or begin with # are
    skipped. Raises UserError."""
    text = read_text(path, MAX_BYTES)
    header: list[str] = []
    lines: list[Line] = []
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip(" ,;\t") or row.lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([row], skipinitialspace=True))]
        if not header:
            header = cells
            double = next((name for name in header if header.count(name) > 1), None)
            if double is not None:
                raise UserError(f"{path}, line {number}: two columns are called {double!r}")
            continue
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: found {len(cells)} cells; the header has {len(header)}"
                " columns (put a cell with a comma in double quotes)"
            )
        filled = {name: cell for name, cell in zip(header, cells, strict=True) if cell}
        lines.append(Line(number, filled))
    if not header:
        raise UserError(f"{path}: the file is empty; its first line names the columns")
    if not lines:
        raise UserError(f"{path}: there are no {what} below the line with the columns' names")
    return lines
