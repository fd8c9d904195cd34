"""Names of the counters that a P4 program has in its registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

EVENTS_PER_JOB = 32
ENDINGS_PER_JOB = 4
FILLING = 1
HELD = 2

# Causes of departures (testbed.results.counters.DEPARTURES), with their numbers in register
# `departures`: those of p4/pool_types.p4 and p4/egress.p4.
CAUSES: Mapping[str, tuple[int, ...]] = {
    "completed": (3,),
    "completed_elsewhere": (25,),
    "sent_again": (5,),
    "evicted": (7,),
    "evicted_elsewhere": (26,),
    "pulled": (14,),
    "pulled_elsewhere": (27,),
    "flushed": (12, 13),
    "retransmitted": (30,),
    "collided": (9, 10),
    "collided_elsewhere": (28,),
    "over_rate": (20,),
    "over_rate_elsewhere": (29,),
    "overlapping": (6,),
    "outside": (19,),
    "floats": (31,),
    "not_aggregated": (24,),
    "nothing_held": (15,),
}


@dataclass(frozen=True)
class Statistics:
    """Events and endings that a P4 program counts. `events`: in order of their numbers, from 1.
    `claims`: the events that begin an occupation. `endings`: those that occur, by number. `sets`:
    where aggregators are sets of slots, the sets that each slot has, after which their registers
    are named. `owners`: the register that says whose a slot is; "": it follows from its place."""

    events: tuple[str, ...]
    claims: tuple[str, ...]
    endings: dict[int, str]
    sets: tuple[str, ...] = ()
    owners: str = ""

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
