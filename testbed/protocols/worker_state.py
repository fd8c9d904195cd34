"""Configuration and state of a worker of any system, and what it does to suit the path:
retransmission timeout, congestion window, pacing.

The pool systems' worker, the slot worker and the ring's members share the two records, so that
the functions here and in `payload` work for all of them. Pacing is in ps, since at 100 Gbit/s a
rounded nanosecond per packet is 4 %.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import SEEDED
from p4fabric.simulate.records import new_record, record

from testbed.number_formats import FORMATS
from testbed.protocols import sizes, wire
from testbed.protocols.formats import by_number
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.sizes import FRAME_OVERHEAD
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
    "window_step",  # by which the congestion window grows per window, in 1/256 fragments
    "pace_ps",  # time of one full packet on the link; 0: unlimited
    "frame_bytes",  # of a full packet; 0: every packet takes as long
    "burst_ps",  # lateness for which the pacing makes up
    "gather_ps",  # of it, what a worker waits for more packets to send at once
    "timeout_ns",  # of retransmission; 0: adaptive
    "min_timeout_ns",
    "max_timeout_ns",
    "index_mode",
    "aggregators",
    "index_start",  # where the job starts in the pool, or the salt of its hash (esa.py)
    "policy",
    "communication_ns",  # of one iteration, for the priority
    "computation_ns",
    "iterations",
    "min_patience_ns",
    "sets",  # of each slot
    "omit_zeros",  # 1: what is all zeros goes without its values
    "short",  # kind of values that are sent in fewer bits if they fit (wire.short_of); 0: none
    "share",  # parts of a sum that each worker has (JobSpec.parts)
    "rounds",  # the same, where sums are rounded to as many
    "rounded_bits",  # by which sums of generated values are rounded
    "program",  # 1: a program gives the values
    "adder",  # of the format of sums, and
    "numbers",  # that workers send (testbed/number_formats.py)
    "seeded",  # 1: packets to send may be seeded (machine.Batch)
)

# Worker.state
STATE = record(
    "factor",  # this worker's c of the iteration
    "factor_sum",
    "factor_size",  # sum of the absolute values
    "next_send_ps",
    "pacing",  # 1: a fragment is ready and waits for the pacing alone
    "round_trip_ns",  # smoothed, with its variation: what the adaptive timeout follows
    "variation_ns",
    "longest_ns",  # the longest in this iteration
    "credit",  # the congestion window, in 1/256 fragments
    "cut_ns",  # time at which it was last halved
    "retransmit_requests",  # entries in Worker.retransmit_requests
    "more",  # 1: the batch was full, call again at once
    "longest_before_ns",  # the longest in the iteration before
    "heard_ns",  # last arrival of a result that did not say that it waited for a loss
    "recovered_ns",  # last arrival of a result that waited for a packet that was lost
    "guesses",  # that losses have paid for (unproven_losses.py)
    "guess_ns",  # earliest time of the next one that nothing has paid for
    "doubts",  # how often the time to the one after it is doubled
)

UNIT = 256  # of `credit`
PARTS_OF_BURST = 4  # a program's worker gathers packets for one of them


def configuration(spec: HostSpec, **more: int) -> np.record:
    """A worker's CONFIG from its specification, with the fields of its system in `more`."""
    job, options = spec.job, spec.options
    fields = {
        "job": job.number,
        "number": spec.number,
        "workers": job.workers,
        "seed": job.seed,
        "bitmap_words": job.bitmap_width // 32,
        "shift": hash_shift(job.parts or job.workers, job.value_bits),
        "share": job.parts // job.workers,
        "window": options.window,
        "window_step": options.window_step,
        "pace_ps": sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps),
        "frame_bytes": sizes.frame_bytes(job.values, job.bitmap_width),
        "burst_ps": job.burst_ns * 1000,
        "gather_ps": job.burst_ns * 1000 // PARTS_OF_BURST if job.program else 0,
        "timeout_ns": options.timeout_ns,
        "min_timeout_ns": options.min_timeout_ns,
        "max_timeout_ns": options.max_timeout_ns,
        "min_patience_ns": options.min_patience_ns,
        "iterations": job.iterations,
        "omit_zeros": int(job.omit_zeros),
        "short": wire.short_of(*job.short),
        "rounds": wire.short_of(job.value_bits, FORMATS[job.sum].numbers),
        "rounded_bits": sizes.rounded_bits(job.workers) if job.rounds_bytes else 0,
        "program": int(job.program),
        "adder": FORMATS[job.sum].adder,
        "numbers": FORMATS[job.sum].numbers,
    }
    return new_record(CONFIG, **fields, **more)


@njit(cache=True)
def timeout_ns(worker):
    """Time that a fragment may stay unanswered before it is sent again.

    Adaptive: the smoothed round trip plus four variations, as TCP has it, and at least 1.5 times
    the longest of this iteration and the one before. Round trips here are of several kinds: through
    the switch alone, through the server's queue, and those that wait for a slower worker, which
    come once for each tensor. Their mean says little about the slower kinds.

    On a real clock the shortest timeout is long, in case a process stands still. A program has a
    call's last fragments in flight when it has nothing more to send: no later result shows a gap.
    So where losses are proven, its timeout is as short as what shows a gap may be."""
    config, state = worker.config, worker.state
    if config.timeout_ns > 0:
        return config.timeout_ns
    if state.round_trip_ns == 0:
        return 4 * config.min_timeout_ns
    adaptive = state.round_trip_ns + 4 * state.variation_ns
    longest = max(state.longest_ns, state.longest_before_ns)
    adaptive = max(adaptive, longest + (longest >> 1))
    least = config.min_timeout_ns
    if state.guesses > 0 and config.program == 1:
        least = min(least, config.min_patience_ns)
    return min(max(adaptive, least), config.max_timeout_ns)


@njit(cache=True)
def patience_ns(worker):
    """Time by which a fragment must have been sent before one whose result is here to count as
    lost, where all workers send the two in the same order.

    The same round trip as a timeout's, but no more: a host or a switch that stands still holds up
    both fragments. With a fixed timeout nothing counts as lost before it."""
    config, state = worker.config, worker.state
    if config.timeout_ns > 0 or state.round_trip_ns == 0:
        return NEVER
    return max(state.round_trip_ns + 4 * state.variation_ns, config.min_patience_ns)


@njit(cache=True)
def retry_ns(worker):
    """Time that a fragment that has been sent again may stay unanswered before the next time; it
    doubles with each (send_scoreboard.backoff_ns).

    A retransmission goes past aggregators and slower workers, which hold others up, and all workers
    wait for it. So it has the patience of one round trip, not that of all kinds of them."""
    return min(patience_ns(worker), timeout_ns(worker))


@njit(cache=True)
def begin(worker, iteration):
    """An iteration begins."""
    config, state = worker.config, worker.state
    state.longest_before_ns = state.longest_ns
    state.longest_ns = 0
    state.factor = factor_of(config, iteration, config.number)
    state.factor_sum, state.factor_size = by_number.factor_sums(
        config.numbers, config.seed, config.job, iteration, config.workers, config.share
    )


@njit(cache=True)
def factor_of(config, iteration, worker):
    """The factor c of a worker's generated values in an iteration."""
    return by_number.shared_factor(
        config.numbers, config.seed, config.job, iteration, worker, config.share
    )


@njit(cache=True)
def measure_round_trip(state, sample_ns):
    state.longest_ns = max(sample_ns, state.longest_ns)
    if state.round_trip_ns == 0:
        state.round_trip_ns = sample_ns
        state.variation_ns = sample_ns >> 1
        return
    difference = sample_ns - state.round_trip_ns
    state.round_trip_ns += difference >> 3
    state.variation_ns += (abs(difference) - state.variation_ns) >> 2


@njit(cache=True)
def adapt_window(worker, marked, whole_step, sent_ns, now):
    """AIMD: halve once per window on an ECN echo, else one fragment more per window, or, with
    `whole_step`, one more at once.

    `sent_ns`: when what has been answered was sent."""
    state = worker.state
    if marked:
        worker.counters[0].marked_results += 1
        cut_window(state, sent_ns, now)
    elif state.credit < worker.config.window * UNIT:
        if whole_step:
            more = state.credit + UNIT
        else:
            more = state.credit + UNIT * worker.config.window_step // state.credit + 1
        state.credit = min(more, worker.config.window * UNIT)


@njit(cache=True)
def cut_window(state, sent_ns, now):
    """Halve the window, unless what gave cause to it was sent before it was last halved.

    That met the queue of that time and says nothing of what halving did. (To count a window of
    answers instead is not enough: a halved window is full after half as many, while the marks of
    the old one are still coming in, and one long queue brings it down to a single fragment.)"""
    if sent_ns >= state.cut_ns:
        state.credit = max(state.credit >> 1, UNIT)
        state.cut_ns = now


@njit(cache=True)
def paced_ns(state, config):
    """Time at which a worker that waits for the pacing alone sends again; ns.

    Each packet alone would cost a wake-up and a system call, which on busy processors take longer
    than the packet on the link. So a program's worker, which need not be on time to the packet,
    lets some gather: the pacing makes up for that."""
    return (state.next_send_ps + config.gather_ps + 999) // 1000


@njit(cache=True)
def take_pace(state, config, now, length):
    """Reserve the time on the link of a packet with `length` bytes of payload."""
    earliest = now * 1000 - config.burst_ps
    time_ps = config.pace_ps
    if config.frame_bytes > 0:
        time_ps = time_ps * (FRAME_OVERHEAD + length % SEEDED) // config.frame_bytes
    state.next_send_ps = max(state.next_send_ps, earliest) + time_ps
