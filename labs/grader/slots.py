"""Slots of two sets, as lab 4 defines them: jobs drawn at random that send to them, and a model of
what becomes of a gradient. Labs 4, 14, 16 and 18 judge switches with these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scapy.layers.inet import UDP
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch, numbers
from testbed.labs.grader.jobs import SLOTS, VALUES
from testbed.labs.grader.packets import GRADIENT, agg, wrapped

# What becomes of a gradient.
ABSORBED = "absorbed"  # it is in a sum that is not complete
COMPLETE = "complete"  # it has completed the sum
COPY = "copy"  # of a gradient in a sum that is not complete
AGAIN = "again"  # a copy whose sum is complete: its worker waits for an answer
LATE = "late"  # its worker has moved on


def place(number: int) -> int:
    """The field `slot` of a fragment: a slot, and its sets in turn (the top bit)."""
    return number % SLOTS | (number // SLOTS % 2) << 15


def draw_bits(t: Bench, count: int) -> list[int]:
    """Bits of two or more workers, in any order: the lowest and the highest, and some between."""
    made = [0, 31, *t.random.sample(range(1, 31), count - 2)]
    t.random.shuffle(made)
    return made


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

    def take(self, number: int, bit: int, values: Sequence[int]) -> tuple[str, Set]:
        """The fate of a gradient with one bit in its bitmap, and its set after it."""
        slot = place(number)
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
