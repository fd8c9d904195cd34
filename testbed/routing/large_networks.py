"""Large networks: which switches to open as aggregators, then whole counts, by search.

The program in whole counts (congestion.py) is hard where many switches may aggregate, because its
linear relaxation opens each of them a little. When the open switches are given, the relaxation is
tight and fast. So the search opens the switches that can take in most, one more at a time as long
as that helps. It tries to exchange each for another, rounds the solution of the linear program, and
moves single workers off the fullest resource as long as that helps. It uses no random numbers and
no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_matrix

from testbed.routing.candidates import Candidates, WorkerClass
from testbed.routing.congestion import Congestion

Open = frozenset[tuple[int, str]]
PATIENCE = 2  # larger sets in a row without improvement, after which the search stops
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
    """The switches that may aggregate for a job, sorted by the rate that they can take in: the
    smaller of their aggregation capacity and the capacity of the links towards them."""
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
    """Try to close each open switch, or to replace it by one of the first closed ones."""
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
    """Rounding of a solution of the linear program to whole counts."""

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
        # How much each resource's mu grows when a variable grows by 1.
        shape = (max(len(resources), 1), program.variables)
        self.matrix = csc_matrix((factors, (rows, columns)), shape=shape)
        self.constant = np.zeros(shape[0])  # mu that results take, whatever the workers do
        for row, resource in enumerate(resources):
            capacity = program.capacities[resource]
            assert capacity is not None
            self.constant[row] = program.constant.get(resource, 0) * program.unit_bps / capacity
        self.open = found.open

    def whole(self) -> np.ndarray:
        self._choose_onward_paths()
        self._round_workers()
        self._move_workers()
        self._close_unused()
        self.values[0] = self._load().max(initial=0)
        return self.values

    def _load(self) -> np.ndarray:
        return self.constant + self.matrix[:, 1:].dot(self.values[1:])

    def _choose_onward_paths(self) -> None:
        """Give each aggregate the path that carries most of it, and solve again for the workers."""
        fixed = {}
        for key in self.open:
            columns = list(self.program.onward_columns(*key))
            fixed[key] = int(np.argmax(self.values[columns]))
        self.values = self.program.relaxed(self.open, fixed)

    def _round_workers(self) -> None:
        """Round the fractions down, then up where the largest remainders are."""
        for each, columns in self._classes():
            exact = self.values[columns]
            down = np.floor(exact + 1e-9)
            missing = len(each.workers) - int(down.sum())
            up = np.argsort(-(exact - down), kind="stable")[:missing]
            down[up] += 1
            self.values[columns] = down

    def _classes(self) -> Iterator[tuple[WorkerClass, np.ndarray]]:
        candidates = self.program.candidates
        for each, first in zip(candidates.classes, self.program.first_route, strict=True):
            yield each, np.arange(first, first + len(each.routes))

    def _move_workers(self) -> None:
        """Move one worker at a time off the fullest resource, if that makes the fullest one less
        full, or fewer resources as full as it."""
        usable = self._usable()
        load = self._load()
        for _ in range(MOVES):
            worst = int(np.argmax(load))
            if not self._move_one(load, worst, usable):
                return

    def _usable(self) -> list[np.ndarray]:
        """Columns of each class's routes to open switches and to the PS."""
        found = []
        for each, columns in self._classes():
            ps = self.program.candidates.jobs[each.job].ps
            keep = [
                route.node == ps or (each.job, route.node) in self.open for route in each.routes
            ]
            found.append(columns[np.array(keep)])
        return found

    def _move_one(self, load: np.ndarray, worst: int, usable: Sequence[np.ndarray]) -> bool:
        least = load[worst] * (1 - 1e-9)
        best, best_worth = None, (load[worst], int((load >= least).sum()))
        row = self.matrix.getrow(worst)
        users = [column for column in row.indices if self.values[column] >= 1]
        for columns in usable:
            leaving = [column for column in columns if column in users]
            for column in leaving:
                without = self.matrix[:, [column]].toarray()
                after = load[:, None] - without + self.matrix[:, columns].toarray()
                peaks = np.where(after.max(axis=0) < least, after.max(axis=0), load[worst])
                peaks[after.max(axis=0) > load[worst] * (1 + 1e-9)] = np.inf
                as_full = (after >= least).sum(axis=0)
                place = int(np.lexsort((as_full, peaks))[0])
                worth = (peaks[place], int(as_full[place]))
                if worth < best_worth and columns[place] != column:
                    best, best_worth = (column, columns[place]), worth
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
            (each.job, route.node)
            for each, columns in self._classes()
            for route, column in zip(each.routes, columns, strict=True)
            if self.values[column] > 0
        }
        for key in candidates.onward:
            columns = list(self.program.onward_columns(*key))
            if key not in used:
                self.values[columns] = 0
