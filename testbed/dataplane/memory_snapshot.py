"""Snapshots of a switch's memory, and the table rows that they add up to.

Totals of a run come from the P4 program's own accumulators (read_registers.py) and depend on no
sampling. Snapshots are for pictures: how many aggregators are in use, where in the pool, and what
has happened so far. Every runtime takes them, at moments of its own choosing.

A snapshot must stay cheap whatever the pool's size, since a real switch process stands still for
it. So the pool is seen as a few *blocks* of neighbouring aggregators, of which at most PLACES are
read.
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from testbed.dataplane.read_registers import occupancy, occupancy_calls, occupied
from testbed.results.schema import EventRow, MemoryRow, QueueRow
from testbed.systems.statistics import EVENTS_PER_JOB, FILLING, HELD

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, Platform

BLOCKS = 64  # of a pool, at most
ALL_BLOCKS = 512  # of all switches together, about
PLACES = 64  # of a block that are read
POOL_SNAPSHOTS = 400  # of a switch that are kept in table pool
LATEST = 64  # different contents of registers whose meaning is remembered


class Blocks(NamedTuple):
    """Neighbouring aggregators, int64[B] each: the first one's number, the number of those looked
    at, and the numbers of these that are filling and held."""

    first: np.ndarray
    seen: np.ndarray
    filling: np.ndarray
    held: np.ndarray


NO_QUEUES = np.zeros((0, 2), np.int64)
NO_BLOCKS = Blocks(*(np.zeros(0, np.int64) for _ in range(4)))


class MemorySnapshot(NamedTuple):
    """A switch's memory at one moment. `jobs`: int64[J, 3], a job's number and its aggregators that
    are filling and held; `counts`: int64[E], the number of times that each event has happened so
    far, all jobs together, and `names` of the events; the pool's blocks; the pool's size. `queues`:
    int64[Q, 2], a port and the packets in its egress queue, of those that have some."""

    jobs: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]
    blocks: Blocks
    aggregators: int
    queues: np.ndarray = NO_QUEUES

    @property
    def events(self) -> dict[str, int]:
        """`counts` by name."""
        return dict(zip(self.names, self.counts.tolist(), strict=True))

    @property
    def filling(self) -> int:
        return int(self.jobs[:, 1].sum())

    @property
    def held(self) -> int:
        return int(self.jobs[:, 2].sum())


class SnapshotTaker:
    """Takes snapshots of a platform's switches. The constant parts are prepared."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._statistics = platform.scheme.statistics(platform)
        self._calls = occupancy_calls(platform)
        self._states = self._statistics.registers("state")
        switches = len(platform.topology.switches)
        self._spans = _spans(platform.aggregators // len(self._states), switches)
        self._pool_calls = [
            ("register_words", name, *read) for name in self._states for read in self._spans.reads
        ]
        # By the registers' contents, which often are those of the snapshot before.
        self._counted: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(
        self, client: Control, at_pool: bool = True, running: Collection[int] | None = None
    ) -> MemorySnapshot:
        """Take a snapshot of one switch, in one exchange with it; at_pool: of its blocks too, which
        takes longer; running: see `occupied`. Raises the errors of the client.

        On BMv2 packets pass between two readings and each takes long: there are no blocks and
        queues, and jobs' aggregators are counted as `occupancy` does."""
        calls, blocks, queues = self._calls, NO_BLOCKS, NO_QUEUES
        if self._platform.switch == "bmv2":
            jobs = np.array(occupancy(self._platform, client), np.int64).reshape(-1, 3)
            counts = self._counts(client.batch(calls[:1]))
        else:
            more = self._pool_calls if at_pool else ()
            *found, waiting = client.batch([*calls, *more, ("port_queues",)])
            if waiting:
                queues = np.array(waiting, np.int64)
            jobs, counts = self._jobs_and_counts(found[: len(calls)], running)
            if at_pool:
                blocks = self._blocks(found[len(calls) :])
        names = self._statistics.events
        return MemorySnapshot(jobs, counts, names, blocks, self._platform.aggregators, queues)

    def _jobs_and_counts(
        self, answers: list[Any], running: Collection[int] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`jobs` and `counts` of a snapshot; they cannot be written to."""
        if not isinstance(answers[0], array):  # a list over a control connection, slow anyway
            return self._occupied(answers, running), self._counts(answers)
        of = None if running is None else tuple(running)
        key = (*(words.tobytes() for words in answers), of)
        if key not in self._counted:
            if len(self._counted) >= LATEST:
                self._counted.clear()
            found = self._occupied(answers, running), self._counts(answers)
            for rows in found:
                rows.flags.writeable = False
            self._counted[key] = found
        return self._counted[key]

    def _occupied(self, answers: list[Any], running: Collection[int] | None) -> np.ndarray:
        return occupied(self._platform, answers, running)

    def _counts(self, answers: list[Any]) -> np.ndarray:
        counts = np.asarray(answers[0], np.int64).reshape(-1, EVENTS_PER_JOB).sum(axis=0)
        return counts[1 : 1 + len(self._statistics.events)]

    def _blocks(self, answers: list[Any]) -> Blocks:
        sets, spans = len(self._states), self._spans
        state = np.concatenate([np.asarray(part) for part in answers]).reshape(sets, -1)
        return Blocks(
            spans.first * sets,
            spans.seen * sets,
            *(
                np.add.reduceat((state == which).sum(axis=0, dtype=np.int64), spans.starts)
                for which in (FILLING, HELD)
            ),
        )


def take_snapshot(platform: Platform, client: Control) -> MemorySnapshot:
    """A single snapshot of one switch, with its blocks."""
    return SnapshotTaker(platform)(client)


class _Spans(NamedTuple):
    """Parts of the blocks that a snapshot reads: of each block the first place and the number of
    places, int64[B]; the reads, as (first, count); and the place in the values read where each
    block begins, int64[B]."""

    first: np.ndarray
    seen: np.ndarray
    reads: list[tuple[int, int]]
    starts: np.ndarray


@functools.lru_cache(maxsize=64)
def _spans(places: int, switches: int) -> _Spans:
    count = min(places, max(BLOCKS // 8, min(BLOCKS, ALL_BLOCKS // switches)))
    ends = np.arange(count + 1, dtype=np.int64) * places // count
    first, seen = ends[:-1], np.minimum(np.diff(ends), PLACES)
    if seen.sum() == places:
        reads = [(0, places)]
    else:
        reads = list(zip(first.tolist(), seen.tolist(), strict=True))
    return _Spans(first, seen, reads, np.concatenate([[0], np.cumsum(seen)[:-1]]))


class _Kept(NamedTuple):
    """The part of a snapshot that is kept, in little memory: jobs int64[J, 3] and events int64[E]
    as in MemorySnapshot, the events' names, the pool's blocks, if they are kept, and the queues."""

    switch: str
    time_ns: int
    jobs: np.ndarray
    events: np.ndarray
    names: tuple[str, ...]
    aggregators: int
    blocks: Blocks | None
    queues: np.ndarray


@dataclass
class _WithBlocks:
    """Snapshots of one switch whose blocks are kept: their places in SnapshotHistory, the number of
    snapshots so far, and the step from one kept snapshot to the next."""

    places: list[int] = field(default_factory=list)
    seen: int = 0
    step: int = 1


class SnapshotHistory:
    """The snapshots of a run, in order of time, as rows of the tables memory, events, pool and
    queues.

    `latest`: the last one at each switch, with the blocks of the last one that had some."""

    def __init__(self) -> None:
        self._taken: list[_Kept] = []
        self._with_blocks: dict[str, _WithBlocks] = {}  # by switch
        self._news: list[tuple[str, int, MemorySnapshot]] | None = None
        self.latest: dict[str, MemorySnapshot] = {}

    def news(self) -> list[tuple[str, int, MemorySnapshot]]:
        """The arguments of `add` since this was asked last, or for the first time."""
        news, self._news = self._news, []
        return news or []

    def add(self, switch: str, time_ns: int, taken: MemorySnapshot) -> None:
        if self._news is not None:
            self._news.append((switch, time_ns, taken))
        before = self.latest.get(switch)
        blocks = None
        if len(taken.blocks.first):
            first, seen, filling, held = taken.blocks
            if self._wants_blocks(switch):
                blocks = Blocks(first, seen, filling.astype(np.uint8), held.astype(np.uint8))
        elif before is not None:
            taken = taken._replace(blocks=before.blocks)
        self.latest[switch] = taken
        jobs, counts, names, _, aggregators, queues = taken
        kept = _Kept(switch, time_ns, jobs, counts, names, aggregators, blocks, queues)
        self._taken.append(kept)

    def _wants_blocks(self, switch: str) -> bool:
        """True if the blocks of the next snapshot are kept. Every n-th snapshot keeps them. When
        twice as many are kept as table pool has, every second one is dropped, and n doubles."""
        kept = self._with_blocks.setdefault(switch, _WithBlocks())
        number = kept.seen
        kept.seen += 1
        if len(kept.places) == 2 * POOL_SNAPSHOTS and number % kept.step == 0:
            for place in kept.places[1::2]:
                self._taken[place] = self._taken[place]._replace(blocks=None)
            del kept.places[1::2]
            kept.step *= 2
        if number % kept.step:
            return False
        kept.places.append(len(self._taken))
        return True

    def keep_every_second(self) -> None:
        """Forget every second snapshot of each switch; its first one stays. Steps between kept
        blocks are counted in snapshots, of which there are half as many from now on."""
        of_switch: Counter[str] = Counter()
        kept = []
        for each in self._taken:
            if of_switch[each.switch] % 2 == 0:
                kept.append(each)
            of_switch[each.switch] += 1
        self._taken = kept
        for with_blocks in self._with_blocks.values():
            with_blocks.places = []
            with_blocks.seen = -(-with_blocks.seen // 2)
            with_blocks.step = max(with_blocks.step // 2, 1)
        for place, each in enumerate(self._taken):
            if each.blocks is not None:
                self._with_blocks[each.switch].places.append(place)

    def tables(self) -> dict[str, Any]:
        """Rows by table, as columns."""
        return {
            "memory": self._memory(),
            "events": self._events(),
            "pool": self._pool(),
            "queues": self._queues(),
        }

    def _memory(self) -> list[MemoryRow]:
        return [
            {
                "switch": each.switch,
                "time_ns": each.time_ns,
                "job": job,
                "occupied": filling,
                "held": held,
                "capacity": each.aggregators,
            }
            for each in self._taken
            for job, filling, held in [
                (None, *each.jobs[:, 1:].sum(axis=0).tolist()),
                *each.jobs.tolist(),
            ]
        ]

    def _events(self) -> list[EventRow]:
        """Counts that have changed since the snapshot before."""
        rows: list[EventRow] = []
        last: dict[tuple[str, str], int] = {}
        for each in self._taken:
            for event, value in zip(each.names, each.events.tolist(), strict=True):
                # A switch that was restarted counts from 0 again.
                if value == last.get((each.switch, event), 0):
                    continue
                last[each.switch, event] = value
                rows.append(
                    {
                        "switch": each.switch,
                        "time_ns": each.time_ns,
                        "event": event,
                        "value": value,
                    }
                )
        return rows

    def _queues(self) -> list[QueueRow]:
        """Queues whose length has changed since the snapshot before."""
        rows: list[QueueRow] = []
        last: dict[str, dict[int, int]] = {}
        for each in self._taken:
            now = dict(each.queues.tolist())
            before = last.get(each.switch, {})
            last[each.switch] = now
            for port in sorted({*now, *before}):
                if now.get(port, 0) != before.get(port, 0):
                    rows.append(
                        {
                            "switch": each.switch,
                            "time_ns": each.time_ns,
                            "port": port,
                            "packets": now.get(port, 0),
                        }
                    )
        return rows

    def _pool(self) -> dict[str, Any]:
        """Every n-th snapshot, so that at most POOL_SNAPSHOTS of a switch are kept."""
        kept = []
        for with_blocks in self._with_blocks.values():
            places = with_blocks.places
            for place in places[:: -(-len(places) // POOL_SNAPSHOTS)]:
                each = self._taken[place]
                assert each.blocks is not None, "its place is among those with blocks"
                kept.append((each.switch, each.time_ns, each.blocks))
        sizes = [len(blocks.first) for _, _, blocks in kept]
        columns: dict[str, Any] = {
            "switch": [switch for switch, _, blocks in kept for _ in blocks.first],
            "time_ns": np.repeat([time_ns for _, time_ns, _ in kept], sizes).astype(np.int64),
        }
        for name in Blocks._fields:
            parts = [getattr(blocks, name).astype(np.int64) for _, _, blocks in kept]
            columns[name] = np.concatenate([np.zeros(0, np.int64), *parts])
        return columns
