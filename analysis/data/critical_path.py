"""Critical paths of jobs that are programs of ranks: the steps that decided when each job ended.

The path is followed back from the step that ended last. A compute step began when its rank was free
and what it depends on was there, so before it comes the rank's step that ended then. A call lasts
from the moment when the last of its ranks called it, so the path goes on at that rank. Pieces of a
path follow each other without a gap, and their times add up to the job's completion time exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from testbed.collective_kinds import COLLECTIVES, OWN

if TYPE_CHECKING:
    from testbed.results import Results

COMPUTE, WAITING = "compute", "waiting"
PATH = ["repetition", "job", "kind", "ranks", "example", "calls", "time_ns", "bytes_ns"]
_TRANSFERS = ("send", "recv")


class Piece(NamedTuple):
    """A part of a critical path. kind: COMPUTE, WAITING (no step is under way on the path), or a
    call's; communicator: as in table steps, "" where there is none."""

    worker: int
    kind: str
    communicator: str
    bytes: float  # as in table steps; NaN where there are none
    start_ns: int
    end_ns: int


class _Step(NamedTuple):
    end_ns: int
    start_ns: int
    node: int
    iteration: int
    worker: int
    kind: str
    communicator: str
    bytes: float


def pieces(steps: pd.DataFrame, begin_ns: int, end_ns: int) -> list[Piece]:
    """The critical path of a job, from its begin to its end: the first piece begins at `begin_ns`,
    the last one ends at `end_ns`. steps: the job's rows of table steps in one repetition."""
    named = steps["communicator"].astype("object").where(steps["communicator"].notna(), "")
    columns = (
        steps[name] for name in ("end_ns", "start_ns", "node", "iteration", "worker", "kind")
    )
    sizes = steps["bytes"].to_numpy("float64", na_value=np.nan)
    found = [_Step(*row) for row in zip(*columns, named, sizes, strict=True)]
    mates = _mates(found)
    of_worker: defaultdict[int, list[_Step]] = defaultdict(list)
    for step in sorted(found):
        of_worker[step.worker].append(step)
    path: list[Piece] = []
    worker = max(found).worker
    until, seen = end_ns, set()
    while until > begin_ns:
        own = of_worker[worker]
        place = bisect_right(own, until, key=lambda step: step.end_ns) - 1
        while place >= 0 and own[place] in seen:  # steps without a length
            place -= 1
        before = max(own[place].end_ns, begin_ns) if place >= 0 else begin_ns
        if before < until:
            path.append(Piece(worker, WAITING, "", np.nan, before, until))
        if place < 0:
            break
        step, until = own[place], before
        seen.add(step)
        last = max(
            (mate for mate in mates.get(step, ()) if mate.start_ns <= step.end_ns),
            key=lambda mate: (mate.start_ns, mate is step),
            default=step,
        )
        start = max(last.start_ns, begin_ns)
        if start < until:
            path.append(Piece(step.worker, step.kind, step.communicator, step.bytes, start, until))
        worker, until = last.worker, min(start, until)
    return path[::-1]


def _mates(steps: list[_Step]) -> Mapping[_Step, list[_Step]]:
    """The steps of all ranks that are the same call as a step, for calls that end only when all of
    their ranks have come. Ranks call in the same order, which is that of their nodes."""
    calls: defaultdict[tuple, list[_Step]] = defaultdict(list)
    counts: Counter[tuple] = Counter()
    for step in sorted(steps, key=lambda step: (step.worker, step.iteration, step.node)):
        kind, pair = step.kind, step.communicator.split()
        if kind in _TRANSFERS and len(pair) == 2:
            other = pair[pair[0] == str(step.worker)]
            kind = f"from {step.worker if kind == 'send' else other}"
        elif kind not in COLLECTIVES or COLLECTIVES[kind].rooted:
            continue
        key = (step.iteration, step.communicator, kind)
        counts[step.worker, key] += 1
        calls[(*key, counts[step.worker, key])].append(step)
    return {step: same for same in calls.values() for step in same if step.kind != "send"}


def frame(results: Results) -> pd.DataFrame:
    """Parts of the critical paths, columns PATH: for each repetition, job, kind of piece and
    shape of communicators, the first such communicator and its number of ranks, the number of
    pieces, their time, and of calls the time that a rank's bytes need at least on its links (NaN:
    unknown); longest first. Communicators whose ranks are equally far apart have one shape."""
    steps, rows = results.steps, []
    if len(steps):
        ended = results.jobs[results.jobs["end_ns"].notna()]
        spans = {(row.repetition, row.job): row for row in ended.itertuples()}
        links = _Links(results)
        for key, of_job in steps.groupby(["repetition", "job"]):
            if key not in spans or of_job["end_ns"].isna().any():
                continue
            path = pieces(of_job, int(spans[key].start_ns), int(spans[key].end_ns))
            workers = int(spans[key].workers)
            first = _first_alike(of_job["communicator"].dropna().unique(), workers)
            groups: defaultdict[tuple, list[Piece]] = defaultdict(list)
            for piece in path:
                groups[piece.kind, first.get(piece.communicator, (0, ""))].append(piece)
            for (kind, alike), same in groups.items():
                time = sum(piece.end_ns - piece.start_ns for piece in same)
                need = sum(links.least_ns(key, piece, workers) for piece in same)
                rows.append((*key, kind, *alike, len(same), time, need))
    found = pd.DataFrame(rows, columns=PATH)
    return found.sort_values(
        ["repetition", "job", "time_ns"], ascending=[True, True, False], ignore_index=True
    )


def _first_alike(communicators: Iterable[str], workers: int) -> dict[str, tuple[int, str]]:
    """The number of ranks, and the first communicator of the same shape, for each."""
    alike: dict[tuple[int, ...], str] = {}
    found = {}
    for name in sorted(communicators, key=lambda name: (len(name), name)):
        ranks = _ranks(name, workers)
        apart = tuple(after - before for before, after in pairwise(ranks))
        found[name] = len(ranks), alike.setdefault(apart, name)
    return found


def _ranks(communicator: str, workers: int) -> list[int]:
    return [*range(workers)] if communicator == "all" else [*map(int, communicator.split())]


class _Links:
    """The links between a run's hosts and switches, and where the ranks of its jobs are."""

    def __init__(self, results: Results) -> None:
        hosts = results.hosts[results.hosts["worker"].notna()]
        self._hosts = {
            (row.repetition, row.job, row.worker): row.host for row in hosts.itertuples()
        }
        links = results.links[results.links["rate_bps"].notna()]
        switches = set(links["node"])
        self._of: defaultdict[tuple[int, str], dict[str, float]] = defaultdict(dict)
        self._up: defaultdict[tuple[int, str], float] = defaultdict(float)
        for row in links.itertuples():
            rate, run = float(row.rate_bps), row.repetition
            if row.neighbour in switches:
                self._up[run, row.node] = max(rate, self._up[run, row.node])
            else:
                at = self._of[run, row.neighbour]
                at[row.node] = max(rate, at.get(row.node, 0.0))

    def _rate(self, repetition: int, host: str, others: Iterable[str]) -> float:
        """The rate at which a host can send to others at most: of its link to a switch that all of
        them have, else of its link to any switch, and of that switch's fastest to another one."""
        own = self._of[repetition, host]
        common = set(own).intersection(*(self._of[repetition, other] for other in others))
        if common:
            return max(own[each] for each in common)
        onwards = (min(rate, self._up[repetition, each]) for each, rate in own.items())
        return max(onwards, default=0.0)

    def least_ns(self, key: tuple[int, int], piece: Piece, workers: int) -> float:
        """The time that what a rank must send or receive in a call needs at least. key: of its run,
        the repetition and the job."""
        if piece.bytes != piece.bytes:
            return float("nan")
        ranks = _ranks(piece.communicator, workers)
        hosts = [self._hosts.get((*key, rank), "") for rank in ranks]
        own = self._hosts.get((*key, piece.worker), "")
        size, kind = piece.bytes, COLLECTIVES.get(piece.kind)
        if kind is not None:
            size = kind.array_size(int(size), len(ranks))
            if kind.pairs or OWN in (kind.gives, kind.gets):
                size *= (len(ranks) - 1) / len(ranks)  # its own part does not travel
        rate = self._rate(key[0], own, hosts)
        return size * 8e9 / rate if rate else float("nan")
