"""How many fragments a worker may have in flight, where the experiment does not say it.

A window below the bandwidth-delay product leaves the links idle; one far above it only lengthens
queues and, in a shared pool, takes aggregators from others. So by default it is twice the product
of the job's own slowest link and its round trip in an empty network, twice since a fragment also
waits for the slowest worker and in queues, and no less than what suits a slow network. AIMD on
congestion marks makes it smaller where it is too much. Where all workers' fragments meet at a
server, they share its link, and so the product.
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
MOST = 65_536  # what the key allows


def window_of(experiment: Experiment, number: int) -> int:
    """The window of a job's workers in fragments: the experiment's, or what suits its network."""
    options, entry = options_of(experiment, WorkerOptions), experiment.system_entry
    if options.window is not None:
        return options.window
    job = experiment.jobs[number]
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    rate_bps = job_rate_bps(experiment, number)
    if experiment.virtual is None:
        rate_bps = min(rate_bps, NOMINAL_RATE_BPS)  # what a machine can do at best
    needed = PRODUCTS * rate_bps * round_trip_of(experiment, number)
    if not entry.memory and job.fixed_placement.servers:
        needed = needed * len(job.fixed_placement.servers) // job.workers
    return min(max(options.usual_window, -(-needed // (bits * 10**9))), MOST)
