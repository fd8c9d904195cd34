"""The default window: how many fragments a worker may have in flight.

A window below the bandwidth-delay product leaves links idle. A window far above it only lengthens
queues and, in a shared pool, takes aggregators from others. So the default is twice the product of
the job's slowest link and its round trip in an empty network; twice, since a fragment also waits
for the slowest worker and in queues. It is not smaller than a minimum that suits slow networks.
AIMD on congestion marks makes the window smaller where it is too large. Without switch memory the
fragments of all workers share the servers' links, and so they share the product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.derived.system_options import options_of
from testbed.derived.timers import NOMINAL_RATE_BPS, job_rate_bps, round_trip_of
from testbed.protocols.sizes import frame_bytes
from testbed.systems.options import WorkerOptions

if TYPE_CHECKING:
    from testbed.experiment import Experiment

PRODUCTS = 2
MAX_WINDOW = 65_536  # the largest value that the key allows


def window_of(experiment: Experiment, number: int) -> int:
    """The window of a job's workers in fragments: the experiment's, or what suits its network."""
    options, entry = options_of(experiment, WorkerOptions), experiment.system_entry
    if options.window is not None:
        return options.window
    job = experiment.jobs[number]
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    rate_bps = job_rate_bps(experiment, number)
    if experiment.virtual is None:
        rate_bps = min(rate_bps, NOMINAL_RATE_BPS)  # more than a machine can send
    needed = PRODUCTS * rate_bps * round_trip_of(experiment, number)
    if not entry.memory and job.fixed_placement.servers:
        needed = needed * len(job.fixed_placement.servers) // job.workers
    return min(max(options.usual_window, -(-needed // (bits * 10**9))), MAX_WINDOW)
