"""A model of lab 17's switch, with which packets are compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from labs.grader.jobs import VALUES
from labs.grader.packets import DATA, GRADIENT, NOTHING, RESULT, wrapped

SLOTS = 32


@dataclass
class Message:
    """Fields of a packet that a switch reads and writes. `worker`: the number of the token's
    worker."""

    kind: int
    number: int
    slot: int
    worker: int
    bitmap: int
    values: list[int]


@dataclass
class Slot:
    number: int = 0
    wanted: int = 0
    seen: int = 0
    values: list[int] = field(default_factory=lambda: [0] * VALUES)

    @property
    def state(self) -> str:
        if not self.wanted:
            return "was never used"
        return "is complete" if self.seen == self.wanted else "waits for experts"


class Combiner:
    """The switch of one job."""

    def __init__(self) -> None:
        self.slots: dict[int, Slot] = {}

    def slot(self, number: int) -> Slot:
        return self.slots.setdefault(number, Slot())

    def take(self, at_home: bool, m: Message) -> Message | None:
        """Messages that leave: DATA to those in its bitmap, all else to the token's worker.

        Args:
            at_home: the packet has come from the port of the token's worker.
        """
        if m.kind == DATA and not at_home:
            return None
        if m.slot >= SLOTS:
            return m
        own = self.slot(m.slot)
        if m.kind == DATA:
            if not own.wanted or m.number > own.number:
                self.slots[m.slot] = Slot(m.number, m.bitmap)
                return m
            if m.number < own.number:
                return None
            if own.seen == own.wanted:
                return self._result(m, own)
            return Message(DATA, m.number, m.slot, m.worker, own.wanted & ~own.seen, m.values)
        if m.number != own.number or not m.bitmap & own.wanted & ~own.seen:
            return None
        if m.kind == GRADIENT:
            own.values = [wrapped(a + b) for a, b in zip(own.values, m.values, strict=True)]
        own.seen |= m.bitmap
        return self._result(m, own) if own.seen == own.wanted else None

    @staticmethod
    def _result(m: Message, own: Slot) -> Message:
        return Message(RESULT, m.number, m.slot, m.worker, own.wanted, own.values)


KINDS = {DATA: "a token", GRADIENT: "an answer", NOTHING: "an answer without values"}
