"""Large networks: which switches to open as aggregators, then whole counts, by search.

The program in whole counts (congestion.py) is hard where many switches may aggregate, because the
linear relaxation opens each of them a little. With the open switches given, the relaxation is tight
and quick. So open the ones that can take in most, one more as long as that is better, try to
exchange each for another, round what the linear program then says, and move single workers off the
fullest resource as long as that helps. Nothing is drawn at random, and no clock decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_matrix

from testbed.routing.candidates import Candidates, WorkerClass
from testbed.routing.congestion import Congestion

Open = frozenset[tuple[int, str]]
PATIENCE = 2  # larger sets that were worse before no more are tried
EXCHANGES = 12  # sets tried after that
MOVES = 1000


@dataclass(frozen=True)
class _Found:
    """A set of open (job, switch) and its linear program's solution."""

    open: Open
    mu: float
    values: np.ndarray


def search(program: Congestion) -> np.ndarray:
    """A good choice in whole counts, as values of the program's variables."""
    ranked = [_ranked(program.candidates, job) for job in range(len(program.candidates.jobs))]
    best, worse = _solve(program, frozenset()), 0
    for count in range(1, max(map(len, ranked), default=0) + 1):
        found = _solve(
            program,
            frozenset((job, node) for job, nodes in enumerate(ranked) for node in nodes[:count]),
        )
        if found.mu < best.mu * (1 - 1e-9):
            best, worse = found, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    best = _exchange(program, best, ranked)
    return _Rounding(program, best).whole()


def _ranked(candidates: Candidates, job: int) -> list[str]:
    """The switches that may aggregate for a job, those first that can take in most: no more than
    they can aggregate and than their links and own workers bring."""
    network = candidates.network

    def takes(node: str) -> float:
        into = [link.capacity_bps for link in network.links if link.target == node]
        carried = np.inf if None in into else float(sum(each for each in into if each is not None))
        capacity = network.switch[node].aggregation_bps
        return min(carried, np.inf if capacity is None else capacity)

    nodes = [node for of, node in candidates.onward if of == job]
    return sorted(nodes, key=lambda node: (-takes(node), nodes.index(node)))


def _solve(program: Congestion, opened: Open) -> _Found:
    values = program.relaxed(opened)
    return _Found(opened, float(values[0]), values)


def _exchange(program: Congestion, best: _Found, ranked: Sequence[Sequence[str]]) -> _Found:
    """Try to replace each open switch by the first closed ones, and to do without it."""
    tried = {best.open}
    left = EXCHANGES
    for job, node in sorted(best.open, key=lambda each: (each[0], -ranked[each[0]].index(each[1]))):
        closed = [other for other in ranked[job] if (job, other) not in best.open][:3]
        for other in (None, *closed):
            opened = best.open - {(job, node)} | ({(job, other)} if other else frozenset())
            if opened in tried or not left:
                continue
            tried.add(opened)
            left -= 1
            found = _solve(program, opened)
            if found.mu < best.mu * (1 - 1e-9):
                best = found
                break
    return best


class _Rounding:
    """From a solution of the linear program to whole counts."""

    def __init__(self, program: Congestion, found: _Found) -> None:
        self.program = program
        self.values = found.values.copy()
        resources = list(program.uses)
        rows, columns, factors = [], [], []
        for row, resource in enumerate(resources):
            capacity = program.capacities[resource]
            assert capacity is not None  # others are not counted
            for column, factor in program.uses[resource].items():
                rows.append(row)
                columns.append(column)
                factors.append(factor * program.unit_bps / capacity)
        # What one more of a variable adds to mu at each resource.
        shape = (max(len(resources), 1), program.variables)
        self.matrix = csc_matrix((factors, (rows, columns)), shape=shape)
        self.open = found.open

    def whole(self) -> np.ndarray:
        self._one_way_onward()
        self._whole_workers()
        self._move()
        self._close_unused()
        self.values[0] = self.matrix[:, 1:].dot(self.values[1:]).max(initial=0)
        return self.values

    def _one_way_onward(self) -> None:
        """Each aggregate takes the path that carries most of it; then workers are put anew."""
        fixed = {}
        for key in self.open:
            columns = list(self.program.onward_columns(*key))
            fixed[key] = int(np.argmax(self.values[columns]))
        self.values = self.program.relaxed(self.open, fixed)

    def _whole_workers(self) -> None:
        """Whole counts near the fractions: rounded down, then up where most is missing."""
        for each, columns in self._classes():
            exact = self.values[columns]
            down = np.floor(exact + 1e-9)
            missing = len(each.workers) - int(down.sum())
            up = np.argsort(-(exact - down), kind="stable")[:missing]
            down[up] += 1
            self.values[columns] = down

    def _classes(self) -> Iterator[tuple[WorkerClass, np.ndarray]]:
        candidates = self.program.candidates
        for each, first in zip(candidates.classes, self.program.first_way, strict=True):
            yield each, np.arange(first, first + len(each.ways))

    def _move(self) -> None:
        """Move one worker at a time off the fullest resource, if all it then uses is less full."""
        usable = self._usable()
        load = self.matrix[:, 1:].dot(self.values[1:])
        for _ in range(MOVES):
            worst = int(np.argmax(load))
            if not self._improve(load, worst, usable):
                return

    def _usable(self) -> list[np.ndarray]:
        """For each class the columns of its ways to open switches and to the PS."""
        found = []
        for each, columns in self._classes():
            ps = self.program.candidates.jobs[each.job].ps
            keep = [way.node == ps or (each.job, way.node) in self.open for way in each.ways]
            found.append(columns[np.array(keep)])
        return found

    def _improve(self, load: np.ndarray, worst: int, usable: Sequence[np.ndarray]) -> bool:
        best, best_peak = None, load[worst] * (1 - 1e-9)
        row = self.matrix.getrow(worst)
        users = [column for column in row.indices if self.values[column] >= 1]
        for ways in usable:
            leaving = [column for column in ways if column in users]
            for column in leaving:
                without = self.matrix[:, [column]].toarray()
                after = load[:, None] - without + self.matrix[:, ways].toarray()
                peaks = after.max(axis=0)
                place = int(np.argmin(peaks))
                if peaks[place] < best_peak and ways[place] != column:
                    best, best_peak = (column, ways[place]), peaks[place]
        if best is None:
            return False
        leave, take = best
        self.values[leave] -= 1
        self.values[take] += 1
        load += (self.matrix[:, [take]] - self.matrix[:, [leave]]).toarray().ravel()
        return True

    def _close_unused(self) -> None:
        candidates = self.program.candidates
        used = {
            (each.job, way.node)
            for each, columns in self._classes()
            for way, column in zip(each.ways, columns, strict=True)
            if self.values[column] > 0
        }
        for key in candidates.onward:
            columns = list(self.program.onward_columns(*key))
            if key not in used:
                self.values[columns] = 0
