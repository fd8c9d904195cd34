"""Names for what a P4 program counts in its registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

EVENTS_PER_JOB = 32
ENDINGS_PER_JOB = 4
FILLING = 1
HELD = 2


@dataclass(frozen=True)
class Statistics:
    """What a P4 program counts: the events in order of their numbers, from 1; the events that begin
    an occupation; the endings that occur, by number; where its aggregators are sets of slots, the
    sets that each slot has, after which their registers are named."""

    events: tuple[str, ...]
    claims: tuple[str, ...]
    endings: dict[int, str]
    sets: tuple[str, ...] = ()

    def place(self, job: int, event: str) -> int:
        """Where register `events` has it."""
        return job * EVENTS_PER_JOB + 1 + self.events.index(event)

    @cached_property
    def claim_columns(self) -> list[int]:
        """Which of a job's numbers in register `events` count beginnings of occupations."""
        return [self.place(0, event) for event in self.claims]

    def registers(self, what: str) -> tuple[str, ...]:
        """The registers that have an aggregator's `what`: one, or one of each set."""
        return tuple(f"{each}_{what}" for each in self.sets or ("slot",))
