"""Configuration and state of a worker of any system: two records of numbers.

The pool systems' worker, SwitchML's worker and the ring's members share them, so that `flow` and
`payload` work for all of them.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import sizes
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.records import new_record, record
from testbed.protocols.values import hash_shift

NEVER = (1 << 62) - 1

# Worker.config, the configuration
CONFIG = record(
    "job",
    "number",  # of this worker in its job
    "workers",
    "seed",
    "bitmap_words",
    "shift",  # of generated values
    "window",  # most fragments in flight
    "pace_ps",  # time of one full packet on the link; 0: unlimited
    "frame_bytes",  # of a full packet; 0: every packet takes as long
    "burst_ps",  # how much lateness the pacing makes up for
    "timeout_ns",  # of retransmission; 0: adaptive
    "min_timeout_ns",
    "max_timeout_ns",
    "index_mode",
    "pool",
    "policy",
    "communication_ns",  # of one iteration, for the priority
    "computation_ns",
    "iterations",
    "min_patience_ns",
    "sets",  # of each slot, with SwitchML
    "omit_zeros",  # 1: what is all zeros goes without its values
    "short",  # 1: values that fit go in 16 bits
)

# Worker.state
STATE = record(
    "factor",  # this worker's c of the iteration
    "factor_sum",
    "next_send_ps",
    "pacing",  # 1: a fragment is ready and waits for the pacing alone
    "round_trip_ns",  # smoothed, with its variation: what the adaptive timeout follows
    "variation_ns",
    "longest_ns",  # the longest in this iteration
    "credit",  # the congestion window, in 1/256 fragments
    "cut_ns",  # when it was last halved
    "retransmit_requests",  # entries in Worker.retransmit_requests
    "more",  # 1: the batch was full, call again at once
    "longest_before_ns",  # the longest in the iteration before
    "recovered_ns",  # when something last arrived that had been lost on the way to its sum
)

UNIT = 256  # of `credit`


def configuration(spec: HostSpec, **more: int) -> np.ndarray:
    """A worker's CONFIG from its specification, with the fields of its system in `more`."""
    job, options = spec.job, spec.options
    fields = {
        "job": job.number,
        "number": spec.number,
        "workers": job.workers,
        "seed": job.seed,
        "bitmap_words": job.bitmap_width // 32,
        "shift": hash_shift(job.workers, job.value_bits),
        "window": options.window,
        "pace_ps": sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps),
        "frame_bytes": sizes.frame_bytes(job.values, job.bitmap_width),
        "burst_ps": job.burst_ns * 1000,
        "timeout_ns": options.timeout_ns,
        "min_timeout_ns": options.min_timeout_ns,
        "max_timeout_ns": options.max_timeout_ns,
        "min_patience_ns": options.min_patience_ns,
        "iterations": job.iterations,
        "omit_zeros": int(job.omit_zeros),
        "short": int(job.value_bits == 16),
    }
    return new_record(CONFIG, **fields, **more)
