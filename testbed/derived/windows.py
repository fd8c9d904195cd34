"""The default window: how many fragments a worker may have in flight.

A window below the bandwidth-delay product leaves links idle. A window far above it only lengthens
queues and, in a shared pool, takes aggregators from others. So the default is twice the product of
the job's slowest link and its round trip in an empty network; twice, since a fragment also waits
for the slowest worker and in queues. It is not smaller than a minimum that suits slow networks.
AIMD on congestion marks makes the window smaller where it is too large. Without switch memory the
fragments of all workers share the servers' links, and so they share the product.

Where a job is a program, its ranks compute on the processors on which hosts and switches have to be
woken. A round trip then takes milliseconds: `WAKING_NS` more than in the empty network. The window
of a program is not larger than the queues of its links, a quarter of its share of the switch
memory, and `MOST_OF_PROGRAM`, since all that is in flight while a host stands still may be sent
again. `WAKING_NS` does not count where a hash places fragments in the switch memory, since the
fragments of a long window would collide with each other, nor where a plan sets the workers' rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.derived.system_options import options_of
from testbed.derived.timers import (
    NOMINAL_RATE_BPS,
    job_rate_bps,
    round_trip_of,
    shortest_queue,
)
from testbed.protocols.sizes import frame_bytes
from testbed.systems.options import WorkerOptions

if TYPE_CHECKING:
    from testbed.experiment import Experiment

PRODUCTS = 2
WAKING_NS = 4_000_000  # of a program's hosts and switches in a round trip, on a busy machine
MOST_OF_PROGRAM = 1024
PARTS_OF_MEMORY = 4
MAX_WINDOW = 65_536  # the largest value that the key allows


def window_of(experiment: Experiment, number: int) -> int:
    """The window of a job's workers in fragments: the experiment's, or what suits its network."""
    options = options_of(experiment, WorkerOptions)
    if options.window is not None:
        return options.window
    job = experiment.jobs[number]
    rate_bps = job_rate_bps(experiment, number)
    if experiment.virtual is None:
        rate_bps = min(rate_bps, NOMINAL_RATE_BPS)  # more than a machine can send
    round_trip_ns = round_trip_of(experiment, number)
    needed = _product(experiment, number, rate_bps * round_trip_ns)
    if job.is_program:
        woken = _product(experiment, number, rate_bps * (round_trip_ns + WAKING_NS))
        needed = max(needed, min(woken, _most_of_program(experiment, number)))
    return min(max(options.usual_window, needed), MAX_WINDOW)


def _product(experiment: Experiment, number: int, bit_ns: int) -> int:
    """Fragments of a window, from a rate in bit/s times a round trip in ns."""
    bits = 8 * frame_bytes(experiment.packet_words, experiment.bitmap_bits)
    return -(-_share(experiment, number, PRODUCTS * bit_ns) // (bits * 10**9))


def _share(experiment: Experiment, number: int, amount: int) -> int:
    """A worker's share of what a job may have in flight: all, where switches add up."""
    placement = experiment.jobs[number].fixed_placement
    if experiment.system_entry.memory or not placement.servers:
        return amount
    return amount * len(placement.servers) // len(placement.workers)


def _most_of_program(experiment: Experiment, number: int) -> int:
    """What a program's fragments in flight must not exceed."""
    if experiment.system_entry.planned or getattr(experiment.system, "index", "") == "hash":
        return 0
    limits = [MOST_OF_PROGRAM]
    if queue := shortest_queue(experiment, number):
        limits.append(_share(experiment, number, queue))
    if experiment.system_entry.memory:
        limits.append(experiment.aggregators // len(experiment.jobs) // PARTS_OF_MEMORY)
    return min(limits)
