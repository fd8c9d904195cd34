"""What a ring member keeps: the sums of two iterations' fragments, and what is on its way.

A neighbour ahead may be in iteration i + 1 while this worker waits for rear tensors of i; it can't
be further, since i + 1 needs this worker's part. So two iterations' rows are all that is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import esa, heap, pool_worker, sizes
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import worker as wk
from testbed.protocols.host_spec import HostSpec, RingOptions

# Places in Ring.c
ACK_AFTER = 0  # packets that are acknowledged at once
ACK_DELAY_NS = 1  # how long one waits for more
ACK_PACE_PS = 2  # time of an acknowledgement on the link
PREVIOUS_NUMBER = 3  # of the worker that sends to this one
CONFIGURATION = 4

# Places in Ring.s
LATEST = 0  # iteration whose rows have been opened last
QUEUED = 1  # entries in Ring.queue
TIMERS = 2  # entries in Ring.timers
IN_FLIGHT = 3  # transmissions without acknowledgement
SEQUENCE = 4  # of the next transmission
TENSOR = 5  # the last tensor whose own gradient has not been added yet, -1: none
ORDER = 6  # fifo: how many items have been queued
ACK_FIRST = 7  # what is to be acknowledged: first number,
ACK_BITS = 8  # which of it and the 31 after it,
ACK_COUNT = 9  # how many,
ACK_DUE_NS = 10  # at the latest when,
ACK_FLAGS = 11  # and with which marks
ACKS = 12  # acknowledgements that wait to be sent
STATE = 13

# Bits of Ring.stage, per row
CAME = 1  # the sum of the workers before this one is here
ADDED = 2  # and this worker's own values are in it
WHOLE = 4  # the sum of all workers is here

# Values of Ring.sending, per item: row p's partial sum is item 2p, its whole sum 2p + 1
IDLE = 0
WAITING = 1  # in the queue
UNDERWAY = 2
DONE = 3


class Ring(NamedTuple):
    """F fragments, B words of bitmap, V values. Row of fragment f of iteration i: (i & 1) F + f.

    `worker` is the pool systems' worker, whose window, timers, pacing and values are used."""

    worker: pool_worker.Worker
    c: np.ndarray  # int64[CONFIGURATION]
    s: np.ndarray  # int64[STATE]
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    sums: np.ndarray  # uint32[2F, B + V], bitmap and values as in a packet, network byte order
    sending: np.ndarray  # uint8[4F]
    attempts: np.ndarray  # uint8[4F]
    sent_ns: np.ndarray  # int64[4F]
    due_ns: np.ndarray  # int64[4F]
    rank: np.ndarray  # int64[4F], the smaller the sooner
    queue: np.ndarray  # int32[4F], heap by rank
    timers: np.ndarray  # int32[4F], heap by due_ns
    numbers: np.ndarray  # int64[S], sequence number in each place of the memory of transmissions
    items: np.ndarray  # int64[S], what it carried: item + 4F * iteration
    acks: np.ndarray  # int64[*, 3], first number, bitmap, flags
    own: np.ndarray  # uint32[V], scratch


def new_ring(spec: HostSpec, gradients: esa.Gradients | None = None) -> Ring:
    """A ring member of a worker's specification."""
    job, options = spec.job, spec.options_of(RingOptions)
    worker = esa.worker_without_pool(spec, gradients)
    words = job.bitmap_width // 32
    rows = 2 * job.fragments
    c = np.zeros(CONFIGURATION, np.int64)
    c[ACK_AFTER] = max(1, min(16, options.window // 4))
    c[ACK_DELAY_NS] = options.ack_delay_ns
    c[ACK_PACE_PS] = sizes.frame_ps(0, job.bitmap_width, spec.rate_bps)
    c[PREVIOUS_NUMBER] = (spec.number - 1) % job.workers
    s = np.zeros(STATE, np.int64)
    s[LATEST] = -1
    s[TENSOR] = -1
    remembered = 1
    while remembered < 4 * options.window:
        remembered *= 2
    return Ring(
        worker=worker,
        c=c,
        s=s,
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        sums=np.zeros((rows, words + job.values), np.uint32),
        sending=np.zeros(2 * rows, np.uint8),
        attempts=np.zeros(2 * rows, np.uint8),
        sent_ns=np.zeros(2 * rows, np.int64),
        due_ns=np.zeros(2 * rows, np.int64),
        rank=np.zeros(2 * rows, np.int64),
        queue=np.zeros(2 * rows, np.int32),
        timers=np.zeros(2 * rows, np.int32),
        numbers=np.full(remembered, -1, np.int64),
        items=np.zeros(remembered, np.int64),
        acks=np.zeros((512, 3), np.int64),
        own=np.zeros(job.values, np.uint32),
    )


@njit(cache=True)
def open_rows(r, b, iteration):
    """The first that is heard of an iteration: its rows are those of two iterations ago, which
    everybody has finished, whatever acknowledgement is still missing."""
    s = r.s
    s[LATEST] = iteration
    rows = b.s[bk.FRAGMENTS]
    low = (iteration & 1) * rows
    r.stage[low : low + rows] = 0
    r.flags[low : low + rows] = 0
    for item in range(2 * low, 2 * (low + rows)):
        if r.sending[item] == UNDERWAY:
            s[IN_FLIGHT] -= 1
        r.sending[item] = IDLE
        r.attempts[item] = 0
    size = s[TIMERS]
    s[TIMERS] = 0
    for i in range(size):
        if r.sending[r.timers[i]] == UNDERWAY:
            s[TIMERS] = heap.push(r.timers, s[TIMERS], r.due_ns, r.timers[i])
    size = s[QUEUED]
    s[QUEUED] = 0
    for i in range(size):
        if r.sending[r.queue[i]] == WAITING:
            s[QUEUED] = heap.push(r.queue, s[QUEUED], r.rank, r.queue[i])


@njit(cache=True)
def position_of(r, fragment):
    """How many steps after the fragment's start this worker's turn comes."""
    c = r.worker.c
    return (c[wk.NUMBER] - fragment) % c[wk.WORKERS]
