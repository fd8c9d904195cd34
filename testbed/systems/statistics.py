"""Names of the counters that a P4 program has in its registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

EVENTS_PER_JOB = 32
ENDINGS_PER_JOB = 4
FILLING = 1
HELD = 2


@dataclass(frozen=True)
class Statistics:
    """Events and endings that a P4 program counts. `events`: in order of their numbers, from 1.
    `claims`: the events that begin an occupation. `endings`: those that occur, by number. `sets`:
    where aggregators are sets of slots, the sets that each slot has, after which their registers
    are named."""

    events: tuple[str, ...]
    claims: tuple[str, ...]
    endings: dict[int, str]
    sets: tuple[str, ...] = ()

    def place(self, job: int, event: str) -> int:
        """Place of the event in register `events`."""
        return job * EVENTS_PER_JOB + 1 + self.events.index(event)

    @cached_property
    def claim_columns(self) -> list[int]:
        """Places in a job's part of register `events` that count beginnings of occupations."""
        return [self.place(0, event) for event in self.claims]

    def registers(self, what: str) -> tuple[str, ...]:
        """The registers that have an aggregator's `what`: one, or one of each set."""
        return tuple(f"{each}_{what}" for each in self.sets or ("slot",))
