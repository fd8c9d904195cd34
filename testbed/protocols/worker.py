"""What the worker of every system is told and keeps: the places of an int64 array each.

`c` is the configuration, which `configuration` makes of a role's specification; `s` the state. The
pool systems' worker, SwitchML's and the ring's members share them, and with them what `flow` and
`payload` do.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import sizes
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.values import hash_shift

NEVER = (1 << 62) - 1

# Places in Worker.c, the configuration
JOB = 0
NUMBER = 1  # of this worker in its job
WORKERS = 2
SEED = 3
BITMAP_WORDS = 4
SHIFT = 5  # of generated values
WINDOW = 6  # most fragments in flight
PACE_PS = 7  # time of one packet on the link; 0: unlimited
BURST_PS = 8  # how much lateness the pacing makes up for
TIMEOUT_NS = 9  # of retransmission; 0: adaptive
LEAST_TIMEOUT_NS = 10
MOST_TIMEOUT_NS = 11
INDEX_MODE = 12
POOL = 13
POLICY = 14
COMMUNICATION_NS = 15  # of one iteration, for the priority
COMPUTATION_NS = 16
ITERATIONS = 17
GAP = 18  # so many places behind the furthest result a fragment is sent again; 0: never
LEAST_PATIENCE_NS = 19
SETS = 20  # of each slot, with SwitchML
CONFIGURATION = 21

# Places in Worker.s, the state
FACTOR = 0  # this worker's c of the iteration
FACTOR_SUM = 1
NEXT_SEND_PS = 2
PACING = 3  # 1: a fragment is ready and waits for the pacing alone
ROUND_TRIP_NS = 4  # smoothed, with its variation: what the adaptive timeout follows
VARIATION_NS = 5
LONGEST_NS = 6  # the longest in this iteration
CREDIT = 7  # the congestion window, in 1/256 fragments
CUT_NS = 8  # when it was last halved
ASKS = 9  # entries in Worker.asks
MORE = 10  # 1: the batch was full, call again at once
BASE = 11  # with window positions: place of the first fragment without a result
FURTHEST = 12  # and of the last one with a result
NEXT_PLACE = 13  # that is sent for the first time
SEEN = 14  # FURTHEST when gaps were last looked for
LONGEST_BEFORE_NS = 15  # the longest in the iteration before
RECOVERED_NS = 16  # when something last arrived that had been lost on the way to its sum
STATE = 17

UNIT = 256  # of CREDIT


def configuration(spec: HostSpec) -> np.ndarray:
    """A worker's `c`, int64[CONFIGURATION], from its specification."""
    job, options = spec.job, spec.options
    c = np.zeros(CONFIGURATION, np.int64)
    c[JOB] = job.number
    c[NUMBER] = spec.number
    c[WORKERS] = job.workers
    c[SEED] = job.seed
    c[BITMAP_WORDS] = job.bitmap_width // 32
    c[SHIFT] = hash_shift(job.workers)
    c[WINDOW] = options.window
    c[PACE_PS] = sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps)
    c[BURST_PS] = job.burst_ns * 1000
    c[TIMEOUT_NS] = options.timeout_ns
    c[LEAST_TIMEOUT_NS] = options.min_timeout_ns
    c[MOST_TIMEOUT_NS] = options.max_timeout_ns
    c[LEAST_PATIENCE_NS] = options.min_patience_ns
    c[ITERATIONS] = job.iterations
    return c
