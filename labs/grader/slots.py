"""Slots of two sets, as lab 4 defines them: jobs drawn at random that send to them, and a model of
what becomes of a gradient. Labs 4, 14, 16, 18 and 19 judge switches with these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Switch, numbers
from labs.grader.histories import alike, dress
from labs.grader.jobs import SLOTS, VALUES
from labs.grader.packets import GRADIENT, Agg, agg, wrapped

# What becomes of a gradient.
ABSORBED = "absorbed"  # it is in a sum that is not complete
COMPLETE = "complete"  # it has completed the sum
COPY = "copy"  # of a gradient in a sum that is not complete
AGAIN = "again"  # a copy whose sum is complete: its worker waits for an answer
LATE = "late"  # its worker has moved on


def place(number: int) -> int:
    """The field `slot` of a fragment: a slot, and its sets in turn (the top bit)."""
    return number % SLOTS | (number // SLOTS % 2) << 15


@dataclass
class Set:
    """One of the two sets of a slot."""

    number: int = 0
    bitmap: int = 0
    complete: bool = False
    values: tuple[int, ...] = ()


@dataclass
class Slots:
    """The slots of one job.

    Args:
        everyone: the bitmap of a complete sum.
        wrap: what an adder makes of a sum that leaves its range.
    """

    everyone: int
    wrap: Callable[[int], int] = wrapped
    sets: dict[int, Set] = field(default_factory=dict)

    def take(
        self, number: int, bit: int, values: Sequence[int], slot: int | None = None
    ) -> tuple[str, Set]:
        """The fate of a gradient with one bit in its bitmap, and its set after it. `slot`: the
        field, if it is not the number's place."""
        slot = place(number) if slot is None else slot
        own = self.sets.setdefault(slot, Set())
        if own.bitmap & bit and own.number == number:
            return (AGAIN if own.complete else COPY), own
        if number < own.number or number == own.number and own.complete:
            return LATE, own
        if number > own.number or not own.bitmap:
            own.number, own.bitmap, own.complete, own.values = number, 0, False, tuple(values)
        else:
            both = zip(own.values, values, strict=True)
            own.values = tuple(self.wrap(a + b) for a, b in both)
        own.bitmap |= bit
        self.sets.setdefault(slot ^ 1 << 15, Set()).bitmap &= ~bit
        own.complete = own.bitmap == self.everyone
        return (COMPLETE if own.complete else ABSORBED), own


@dataclass
class SlotJob:
    """A job on a switch of its own. Host n is at port n.

    Args:
        number: of the job, in packets.
        workers: their numbers, which are bits of the bitmap.
        ports: of the workers, in the same order.
        first: the number of the job's first fragment.
    """

    t: Bench
    switch: Switch
    number: int
    workers: list[int]
    ports: list[int]
    first: int

    @property
    def everyone(self) -> int:
        return sum(1 << worker for worker in self.workers)

    def values(self) -> list[list[int]]:
        """The workers' values for a fragment."""
        return [numbers(self.t, VALUES) for _ in self.workers]

    def order(self, count: int = 0) -> list[int]:
        """Workers (all, or `count` of them) in any order."""
        return self.t.random.sample(range(len(self.workers)), count or len(self.workers))

    def gradient(self, who: int, values: Sequence[int], fragment: int = 0) -> Packet:
        """Gradient of the worker that is `who` in the list; `fragment` counts from 0."""
        worker, number = self.workers[who], self.first + fragment
        made = agg(
            self.ports[who],
            "switch",
            kind=GRADIENT,
            job=self.number,
            number=number,
            slot=place(number),
            worker=worker,
            bitmap=1 << worker,
            values=values,
        )
        made[UDP].chksum = None  # the right one, which does not fit what the switch sends
        return made

    def send(self, who: int, values: Sequence[int], fragment: int = 0) -> None:
        self.switch.send(self.ports[who], self.gradient(who, values, fragment))


@dataclass
class Stream:
    """Fragments of a job that use one slot, one after the other, in a history (histories.py).

    Args:
        numbers: of the fragments, smaller ones first.
    """

    job: SlotJob
    slot: int
    numbers: list[int]

    def __post_init__(self) -> None:
        self.sent = [self.job.values() for _ in self.numbers]
        self.at = [0] * len(self.job.workers)  # the fragment at which each worker is
        self.complete: set[int] = set()
        self.model = Slots(self.job.everyone)

    @property
    def done(self) -> bool:
        return len(self.complete) == len(self.numbers)

    def gradient(self, who: int, turn: int, number: int | None = None) -> Packet:
        made = self.job.gradient(who, self.sent[turn][who])
        made[Agg].number = self.numbers[turn] if number is None else number
        made[Agg].slot = self.slot | turn % 2 << 15
        return dress(self.job.t.random, made)

    def take(self, packet: Packet) -> tuple[str, Set]:
        """The fate of a gradient that comes, and its set after it."""
        header = packet[Agg]
        end, own = self.model.take(header.number, header.bitmap, header.values, header.slot)
        if end == COMPLETE and header.number in self.numbers:
            self.complete.add(self.numbers.index(header.number))
        return end, own

    def is_new(self, packet: Packet) -> bool:
        """The worker is not in the sum of its set, or that is an older one."""
        header, own = packet[Agg], self.model.sets.get(packet[Agg].slot, Set())
        return header.number > own.number or not own.bitmap & header.bitmap

    def stale(self, packet: Packet) -> list[Packet]:
        """Those like a gradient of an older fragment, with a number much like the set's, which are
        late: mostly none if its set is in use for it, and one in the slot's other set if all have
        left that."""
        rng, slot, made = self.job.t.random, packet[Agg].slot, list[Packet]()
        own, other = (self.model.sets.get(at, Set()) for at in (slot, slot ^ 1 << 15))
        for each, at, may in (
            (own, slot, own.number == packet[Agg].number and rng.random() < 0.4),
            (other, slot ^ 1 << 15, not other.bitmap),
        ):
            if may and (number := alike(rng, each.number)) < each.number:
                made.append(packet.copy())
                made[-1][Agg].number, made[-1][Agg].slot = number, at
        return made

    def natural(self) -> tuple[int, Packet]:
        """A worker's gradient, or the same again, and its port; it goes on where it may. At times
        the first in a set is of a fragment that is given up: a newer one meets its sum."""
        rng, who = self.job.t.random, self.job.t.random.randrange(len(self.at))
        if self.at[who] in self.complete and self.at[who] + 1 < len(self.numbers):
            self.at[who] += rng.getrandbits(1)
        turn = self.at[who]
        number, own = self.numbers[turn], self.model.sets.get(self.slot | turn % 2 << 15, Set())
        number -= turn > 0 and not own.bitmap and own.number + 1 < number and rng.random() < 0.5
        return self.job.ports[who], self.gradient(who, turn, number)

    def older(self) -> tuple[int, Packet]:
        """A gradient of an older fragment, or of a number that is older and much like the
        newest."""
        rng, who = self.job.t.random, self.job.t.random.randrange(len(self.at))
        turn = self.at[who] - rng.randrange(1, 3)
        if turn < 0 or self.at[who] < 2:
            return self.natural()
        number = rng.choice((self.numbers[turn], alike(rng, self.numbers[turn])))
        return self.job.ports[who], self.gradient(who, turn, number)
