"""Which part of every switch's memory belongs to which job, for systems that divide it once.

The parts are equal. The jobs have them in their order, for the whole run; where jobs come and go,
there are as many as jobs can run at once, and a job has one while it runs. Slots of several
aggregators (`sets`) are divided whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment
    from testbed.systems.options import SlotOptions


@dataclass(frozen=True)
class Part:
    """A job's part of a pool: slots base .. base + slots - 1."""

    base: int
    slots: int


def part_of(slots: int, parts: int, part: int) -> Part:
    """Part `part` (from 0) of `parts`; what cannot be divided equally stays unused."""
    each = slots // parts
    return Part(part * each, each)


def slots_of(experiment: Experiment, job: int) -> Part:
    """The slots that are a job's own, each of as many aggregators as it has sets."""
    slots = experiment.aggregators // cast("SlotOptions", experiment.system).sets
    return part_of(slots, experiment.memory_parts, experiment.memory_part(job))


def window_of_slots(experiment: Experiment, job: int) -> int:
    """How many of these slots its workers use, one chunk in flight in each."""
    slots = slots_of(experiment, job).slots
    return min(slots, cast("SlotOptions", experiment.system).window or slots)
