"""The largest number that a fragment of a job can have.

Numbers run on over all iterations of a job, or rounds of a program, so a switch that knows the last
one knows which numbers cannot be. SwitchML numbers chunks; gradients that were recorded as floats
need more of these than there are fragments (testbed/protocols/switchml.py).
"""

from __future__ import annotations

import numpy as np

from testbed.experiment import Experiment
from testbed.experiment.memory_shares import window_of_slots
from testbed.experiment.program_jobs import rounds
from testbed.protocols.sizes import MAX_FRAGMENTS, fragments_of


def last_fragment(experiment: Experiment, number: int) -> int:
    """Of job `number`; it has fewer than 2^32 fragments."""
    return experiment.derived(("last fragment", number), lambda: _find(experiment, number))


def _find(experiment: Experiment, number: int) -> int:
    job, values = experiment.jobs[number], experiment.values_per_packet
    trace = job.trace()
    first = fragments_of([layer.values for layer in trace.layers], values)
    count = int(first[-1])
    if experiment.system_entry.divided and trace.gradients is not None:
        slots = window_of_slots(experiment, number)
        count += int(np.minimum(np.diff(first), slots).sum())
    iterations = rounds(trace, values) if job.is_program else job.iterations
    return min(count * iterations, MAX_FRAGMENTS) - 1
