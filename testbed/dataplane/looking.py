"""One look at a switch's memory, and the table rows that many looks add up to.

Totals of a run come from the P4 program's own accumulators (see read.py) and depend on no sampling.
Looks are for pictures: how many aggregators are in use, where in the pool, and what has happened so
far. Every runtime takes them, at moments of its own choosing.

A look must stay cheap whatever the pool's size, since a real switch process stands still for it. So
the pool is seen as a few *blocks* of neighbouring aggregators, of which at most PLACES are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.dataplane.read import (
    EVENTS_PER_JOB,
    FILLING,
    HELD,
    Statistics,
    occupancy,
    occupancy_calls,
    occupancy_of,
    statistics,
)

if TYPE_CHECKING:
    from testbed.experiment import Experiment

BLOCKS = 64  # of a pool, at most
ALL_BLOCKS = 512  # of all switches together, about
PLACES = 64  # of a block that are looked at
POOL_LOOKS = 400  # of a switch that are kept in table pool


@dataclass(frozen=True)
class Block:
    """Neighbouring aggregators: the first one's number, how many were looked at, and how many of
    these are filling and held."""

    first: int
    seen: int
    filling: int
    held: int


@dataclass(frozen=True)
class Look:
    """A switch's memory at one moment: (job, filling, held) of each job; how often each event has
    happened so far, all jobs together; the pool's blocks; the pool's size."""

    jobs: tuple[tuple[int, int, int], ...]
    events: dict[str, int]
    blocks: tuple[Block, ...]
    capacity: int

    @property
    def filling(self) -> int:
        return sum(filling for _, filling, _ in self.jobs)

    @property
    def held(self) -> int:
        return sum(held for _, _, held in self.jobs)


def look(experiment: Experiment, client: Any) -> Look:
    """Look at one switch, in one exchange with it. Raises what the client raises.

    On BMv2 packets pass between two readings and each takes long: there are no blocks, and jobs'
    aggregators are counted as `occupancy` does."""
    kept = statistics(experiment)
    if experiment.switch == "bmv2":
        jobs = occupancy(experiment, client)
        (counted,) = client.batch(occupancy_calls(experiment)[:1])
        return Look(tuple(jobs), _events(kept, counted), (), experiment.aggregators)
    states = ("first_state", "second_state") if kept.slots_are_pairs else ("slot_state",)
    places = experiment.aggregators // len(states)
    spans = _spans(places, len(experiment.topology_object().switches))
    if places <= PLACES * len(spans):
        reads = [(name, 0, places) for name in states]
    else:
        reads = [(name, first, seen) for name in states for first, seen in spans]
    calls = occupancy_calls(experiment)
    found = client.batch([*calls, *(("register_read", *read) for read in reads)])
    head, rest = found[: len(calls)], found[len(calls) :]
    state = np.concatenate([np.asarray(part) for part in rest]).reshape(len(states), -1)
    if places <= PLACES * len(spans):
        pieces = [state[:, first : first + seen] for first, seen in spans]
    else:
        ends = np.cumsum([seen for _, seen in spans])
        pieces = np.split(state, ends[:-1], axis=1)
    blocks = tuple(
        Block(
            first * len(states),
            piece.size,
            int((piece == FILLING).sum()),
            int((piece == HELD).sum()),
        )
        for (first, _), piece in zip(spans, pieces, strict=True)
    )
    events = _events(kept, head[0])
    return Look(tuple(occupancy_of(experiment, head)), events, blocks, experiment.aggregators)


def _events(kept: Statistics, counted: Any) -> dict[str, int]:
    """How often each event has happened, of register `events` of all jobs."""
    sums = np.asarray(counted).reshape(-1, EVENTS_PER_JOB).sum(axis=0)
    return {name: int(sums[number]) for number, name in enumerate(kept.events, 1)}


def _spans(places: int, switches: int) -> list[tuple[int, int]]:
    """(first place, how many are looked at) of each block."""
    count = min(places, max(BLOCKS // 8, min(BLOCKS, ALL_BLOCKS // switches)))
    starts = [places * number // count for number in range(count + 1)]
    return [
        (first, min(end - first, PLACES)) for first, end in zip(starts, starts[1:], strict=False)
    ]


class Looks:
    """The looks of a run, in order of time, as rows of the tables memory, events and pool."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, int, Look]] = []

    def add(self, switch: str, time_ns: int, taken: Look) -> None:
        self._taken.append((switch, time_ns, taken))

    def keep_multiples(self, step_ns: int) -> None:
        """Forget the looks between the multiples of a time."""
        self._taken = [each for each in self._taken if each[1] % step_ns == 0]

    def tables(self) -> dict[str, Any]:
        """Rows by table, as columns."""
        return {"memory": self._memory(), "events": self._events(), "pool": self._pool()}

    def _memory(self) -> list[dict[str, Any]]:
        return [
            {
                "switch": switch,
                "time_ns": time_ns,
                "job": job,
                "occupied": filling,
                "held": held,
                "capacity": taken.capacity,
            }
            for switch, time_ns, taken in self._taken
            for job, filling, held in [(None, taken.filling, taken.held), *taken.jobs]
        ]

    def _events(self) -> list[dict[str, Any]]:
        """Only what has changed since the look before."""
        rows: list[dict[str, Any]] = []
        last: dict[tuple[str, str], int] = {}
        for switch, time_ns, taken in self._taken:
            for event, value in taken.events.items():
                # A switch that was restarted counts anew.
                if value == last.get((switch, event), 0):
                    continue
                last[switch, event] = value
                rows.append({"switch": switch, "time_ns": time_ns, "event": event, "value": value})
        return rows

    def _pool(self) -> dict[str, Any]:
        """Every n-th look, so that at most POOL_LOOKS of a switch are kept."""
        by_switch: dict[str, list[tuple[int, Look]]] = {}
        for switch, time_ns, taken in self._taken:
            by_switch.setdefault(switch, []).append((time_ns, taken))
        columns: dict[str, list[Any]] = {
            name: [] for name in ("switch", "time_ns", "first", "seen", "filling", "held")
        }
        for switch, looks in by_switch.items():
            for time_ns, taken in looks[:: -(-len(looks) // POOL_LOOKS)]:
                for block in taken.blocks:
                    columns["switch"].append(switch)
                    columns["time_ns"].append(time_ns)
                    for name in ("first", "seen", "filling", "held"):
                        columns[name].append(getattr(block, name))
        return columns
