"""What a ring member keeps: the sums of two iterations' fragments, and what is on its way.

A neighbour ahead may be in iteration i + 1 while this worker waits for rear tensors of i; it can't
be further, since i + 1 needs this worker's part. So two iterations' rows are all that is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import heap, pool_worker, sizes
from testbed.protocols.host_spec import HostSpec, RingSpec
from testbed.protocols.jit import njit
from testbed.protocols.records import new_record, record

# Ring.config
CONFIG = record(
    "ack_after",  # packets that are acknowledged at once
    "ack_delay_ns",  # how long one waits for more
    "ack_pace_ps",  # time of an acknowledgement on the link
    "previous_number",  # of the worker that sends to this one
)

# Ring.state
STATE = record(
    "latest",  # iteration whose rows have been opened last
    "queued",  # entries in Ring.queue
    "timers",  # entries in Ring.timers
    "in_flight",  # transmissions without acknowledgement
    "sequence",  # of the next transmission
    "tensor",  # the last tensor whose own gradient has not been added yet, -1: none
    "order",  # fifo: how many items have been queued
    "ack_first",  # the next acknowledgement: first number,
    "ack_bits",  # which of it and the 31 after it,
    "ack_count",  # how many,
    "ack_due_ns",  # at the latest when,
    "ack_flags",  # and with which marks
    "acks",  # acknowledgements that wait to be sent
)

# Bits of Ring.stage, per row
RECEIVED = 1  # the sum of the workers before this one is here
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
    config: np.ndarray  # CONFIG[1]
    state: np.ndarray  # STATE[1]
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


class WorkerRules(pool_worker.Stateless, pool_worker.Rules):
    """Nothing of a pool: no switch aggregates, and no server answers."""


def new_ring(spec: HostSpec, gradients: pool_worker.Gradients | None = None) -> Ring:
    """A ring member of a worker's specification."""
    job, options = spec.job, spec.options_of(RingSpec)
    worker = pool_worker.new_worker(spec, WorkerRules(), gradients)
    words = job.bitmap_width // 32
    rows = 2 * job.fragments
    config = new_record(
        CONFIG,
        ack_after=max(1, min(16, options.window // 4)),
        ack_delay_ns=options.ack_delay_ns,
        ack_pace_ps=sizes.frame_ps(0, job.bitmap_width, spec.rate_bps),
        previous_number=(spec.number - 1) % job.workers,
    )
    remembered = 1
    while remembered < 4 * options.window:
        remembered *= 2
    return Ring(
        worker=worker,
        config=config,
        state=new_record(STATE, latest=-1, tensor=-1),
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
def open_rows(member, scoreboard, iteration):
    """The first that is heard of an iteration: its rows are those of two iterations ago, which
    everybody has finished, even if some acknowledgement is still missing."""
    state = member.state[0]
    state.latest = iteration
    rows = scoreboard.state[0].fragments
    low = (iteration & 1) * rows
    member.stage[low : low + rows] = 0
    member.flags[low : low + rows] = 0
    for item in range(2 * low, 2 * (low + rows)):
        if member.sending[item] == UNDERWAY:
            state.in_flight -= 1
        member.sending[item] = IDLE
        member.attempts[item] = 0
    size = state.timers
    state.timers = 0
    for i in range(size):
        if member.sending[member.timers[i]] == UNDERWAY:
            state.timers = heap.push(member.timers, state.timers, member.due_ns, member.timers[i])
    size = state.queued
    state.queued = 0
    for i in range(size):
        if member.sending[member.queue[i]] == WAITING:
            state.queued = heap.push(member.queue, state.queued, member.rank, member.queue[i])


@njit(cache=True)
def position_of(member, fragment):
    """How many steps after the fragment's start this worker's turn comes."""
    config = member.worker.config[0]
    return (config.number - fragment) % config.workers
