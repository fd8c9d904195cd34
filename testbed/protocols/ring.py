"""Ring all-reduce: the workers pass their fragments around, without a server.

Fragment f of an iteration belongs to chunk f modulo W, and chunk m starts at worker m. Steps 0 to
W - 2 are the reduce-scatter: worker m sends its own values of chunk m to its neighbour, which adds
its own and sends the sum on, until W - 1 steps later the sum is whole. Steps W - 1 to 2W - 3 are
the all-gather: the whole sum goes round once more. So each worker sends 2(W - 1)/W of its gradient.

The steps are counted per fragment, not per tensor: a fragment moves on when it has come and the
worker's own gradient of its tensor is ready. No step waits for a whole chunk, so a small tensor
costs what its few fragments cost, and every tensor is done as early as its own fragments allow.
Striping by fragment gives each worker its W-th part of every tensor, within one fragment.

Reliability is between neighbours (ring_link). What has come once is known by its step and never
added twice.

A neighbour ahead may be in iteration i + 1 while this worker waits for rear tensors of i; it can't
be further, since i + 1 needs this worker's part. So a member keeps note of two iterations'
fragments. It holds a sum only from its arrival until the neighbour has what became of it, in a
place that is used again at once (`ring_link.hold`): a window of sums, and those that wait for this
worker's own gradient. The packet's fields: docs/baselines.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import heap, payload, pool_worker, ring_link, send_scoreboard, sizes, wire
from testbed.protocols.host_spec import HostSpec, RingSpec
from testbed.protocols.jit import njit
from testbed.protocols.records import new_record, record
from testbed.protocols.ring_link import all_sent, deadline, send

__all__ = ["all_sent", "deadline", "send"]

# Ring.config
CONFIG = record(
    "ack_after",  # packets that are acknowledged at once
    "ack_delay_ns",  # time that one waits for more
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
    "free",  # entries in Ring.free
    "held",  # rows of Ring.sums that have ever been used
    "ack_first",  # the next acknowledgement: first number,
    "ack_bits",  # bits for it and the 31 after it,
    "ack_count",  # their number,
    "ack_due_ns",  # the latest time for sending it,
    "ack_flags",  # and its marks
    "acks",  # acknowledgements that wait to be sent
)

HELD = ("sums", "free")  # of Ring: what takes memory only where it is used

# Bits of Ring.stage, per row
RECEIVED = 1  # the sum of the workers before this one is here
ADDED = 2  # and this worker's own values are in it
WHOLE = 4  # the sum of all workers is here


class Ring(NamedTuple):
    """F fragments, B words of bitmap, V values. Row of fragment f of iteration i: (i & 1) F + f.

    `worker` is the pool systems' worker, whose window, timers, pacing and values are used."""

    worker: pool_worker.Worker
    config: np.record  # CONFIG
    state: np.record  # STATE
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    sums: np.ndarray  # uint32[2F, B + V], bitmap and values as in a packet, network byte order.
    #                   Only those in use take memory: a page that nobody has written to takes none
    held: np.ndarray  # int32[2F], where a row's sum is, from 1; 0: none is held
    free: np.ndarray  # int32[2F], places of sums to use again, the last one first
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
        held=np.zeros(rows, np.int32),
        free=np.zeros(rows, np.int32),
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
    state = member.state
    state.latest = iteration
    rows = scoreboard.state.fragments
    low = (iteration & 1) * rows
    member.stage[low : low + rows] = 0
    member.flags[low : low + rows] = 0
    for place in range(low, low + rows):
        ring_link.let_go(member, place)
    for item in range(2 * low, 2 * (low + rows)):
        if member.sending[item] == ring_link.UNDERWAY:
            state.in_flight -= 1
        member.sending[item] = ring_link.IDLE
        member.attempts[item] = 0
    size = state.timers
    state.timers = 0
    for i in range(size):
        if member.sending[member.timers[i]] == ring_link.UNDERWAY:
            state.timers = heap.push(member.timers, state.timers, member.due_ns, member.timers[i])
    size = state.queued
    state.queued = 0
    for i in range(size):
        if member.sending[member.queue[i]] == ring_link.WAITING:
            state.queued = heap.push(member.queue, state.queued, member.rank, member.queue[i])


@njit(cache=True)
def begin(member, scoreboard, iteration):
    """Start exchanging the gradients of an iteration."""
    pool_worker.begin(member.worker, scoreboard, iteration)
    if iteration > member.state.latest:
        open_rows(member, scoreboard, iteration)
    member.state.tensor = scoreboard.state.tensors - 1


@njit(cache=True)
def _finish(member, scoreboard, fragment, place, now):
    """The row holds the sum of all workers: check and note it. True if that ends the iteration;
    after a wrong value the status is FAILED."""
    worker = member.worker
    counters = worker.counters[0]
    words = worker.config.bitmap_words
    member.stage[place] |= WHOLE
    if send_scoreboard.has_result(scoreboard, fragment):
        return False  # not used by this worker: the ranks of a program give different arrays
    if not payload.check_values(
        worker, scoreboard, ring_link.sum_of(member, place), words, fragment
    ):
        return False
    counters.results += 1
    if member.flags[place] & wire.OVERFLOW:
        counters.saturated += 1
    return send_scoreboard.mark_received(scoreboard, fragment, now)


@njit(cache=True)
def _add_own(member, scoreboard, fragment, place, now):
    """The fragment has come and the own gradient is ready. True if that ends the iteration."""
    worker = member.worker
    config = worker.config
    workers, words = config.workers, config.bitmap_words
    position = ring_link.position_of(member, fragment)
    values = scoreboard.state.values
    if position == 0:
        member.stage[place] |= ADDED
        if workers > 1:  # it begins here; its values are made when it is sent
            ring_link.enqueue(member, scoreboard, 2 * place, fragment)
            return False
        ring_link.begin_sum(member, scoreboard, place, fragment)
    else:
        row = ring_link.sum_of(member, place)
        payload.write_values(worker, scoreboard, member.own, 0, fragment)
        overflow = np.int32(0)
        for i in range(values):
            old = np.int32(wire.swap(row[words + i]))
            mine = np.int32(wire.swap(member.own[i]))
            total = np.int32(np.int64(old) + np.int64(mine) & 0xFFFFFFFF)
            overflow |= (old ^ total) & (mine ^ total)
            row[words + i] = wire.swap(np.uint32(total))
        if overflow < 0:
            member.flags[place] |= np.uint16(wire.OVERFLOW)
        number = config.number
        row[words - 1 - number // 32] |= wire.swap(np.uint32(1 << (number % 32)))
        member.stage[place] |= ADDED
    if position < workers - 1:
        ring_link.enqueue(member, scoreboard, 2 * place, fragment)
        return False
    if workers > 1:
        ring_link.enqueue(member, scoreboard, 2 * place + 1, fragment)
    finished = _finish(member, scoreboard, fragment, place, now)
    if workers == 1:
        ring_link.let_go(member, place)
    return finished


@njit(cache=True)
def open_tensor(member, scoreboard, tensor, layer):
    """Nothing is to be done for a tensor that a program has given."""


@njit(cache=True)
def add_ready(member, scoreboard, now):
    """Add the own gradients of tensors that have become ready, to what has come of them.

    Returns whether there were any, and whether that ends the iteration."""
    state = member.state
    before = state.tensor
    finished = False
    offset = (scoreboard.state.iteration & 1) * scoreboard.state.fragments
    while state.tensor >= 0 and scoreboard.ready[state.tensor] == 1:
        for fragment in range(scoreboard.first[state.tensor], scoreboard.end[state.tensor]):
            place = offset + fragment
            if ring_link.position_of(member, fragment) == 0 or member.stage[place] & RECEIVED:
                finished |= _add_own(member, scoreboard, fragment, place, now)
        state.tensor -= 1
    return state.tensor != before, finished


@njit(cache=True)
def _take_partial(member, scoreboard, row, iteration, fragment, place, now):
    """A sum over the workers before this one. True if that ends the iteration."""
    words = member.worker.config.bitmap_words
    if member.stage[place] & RECEIVED:  # it must not be added twice
        member.worker.counters[0].duplicate_results += 1
        return False
    member.stage[place] |= RECEIVED
    member.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    ring_link.hold(member, place)
    ring_link.sum_of(member, place)[:] = row[
        wire.HEADER_WORDS : wire.HEADER_WORDS + words + scoreboard.state.values
    ]
    if (
        iteration == scoreboard.state.iteration
        and scoreboard.ready[scoreboard.tensor[fragment]] == 1
    ):
        return _add_own(member, scoreboard, fragment, place, now)
    return False


@njit(cache=True)
def _take_whole(member, scoreboard, row, step, fragment, place, now):
    """The sum over all workers. True if that ends the iteration."""
    worker = member.worker
    words, workers = worker.config.bitmap_words, worker.config.workers
    if member.stage[place] & WHOLE:
        worker.counters[0].duplicate_results += 1
        return False
    if member.sending[2 * place] == ring_link.UNDERWAY:
        ring_link.mark_acknowledged(
            member, 2 * place
        )  # it has been all around: its acknowledgement was lost
    member.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    ring_link.hold(member, place)
    ring_link.sum_of(member, place)[:] = row[
        wire.HEADER_WORDS : wire.HEADER_WORDS + words + scoreboard.state.values
    ]
    goes_on = step < 2 * workers - 3
    if goes_on:
        ring_link.enqueue(member, scoreboard, 2 * place + 1, fragment)
    finished = _finish(member, scoreboard, fragment, place, now)
    if not goes_on:
        ring_link.let_go(member, place)
    return finished


@njit(cache=True)
def receive(member, scoreboard, now, packets, lengths, count):
    """Take `count` packets; True when the iteration's last sum is among them. After a wrong value
    it stops, with the status FAILED set."""
    worker, state = member.worker, member.state
    config, counters = worker.config, worker.counters[0]
    workers, words = config.workers, config.bitmap_words
    fragments = scoreboard.state.fragments
    base = wire.HEADER_WORDS + words
    finished = False
    for i in range(count):
        row = packets[i]
        if wire.is_foreign(row, lengths[i], base, config.job):
            counters.foreign += 1
            continue
        length = wire.expand(row, lengths[i], base, scoreboard.state.values)
        kind = wire.kind(row)
        if kind == wire.CONTROL:
            ring_link.take_ack(member, scoreboard, row, now)
            continue
        whole = wire.fragment(row)
        iteration = whole // fragments
        fragment = whole - iteration * fragments
        position = ring_link.position_of(member, fragment)
        step = wire.word(row, 4)
        partial = kind == wire.GRADIENT and position > 0 and step == position - 1
        gathered = kind == wire.RESULT and position < workers - 1 and step == workers - 1 + position
        if (
            not (partial or gathered)
            or length != 4 * (base + scoreboard.state.values)
            or wire.sender(row) != member.config.previous_number
            or iteration > scoreboard.state.iteration + 1
            or iteration >= config.iterations
        ):
            counters.foreign += 1
            continue
        flags = wire.flags(row)
        if iteration < scoreboard.state.iteration:
            counters.stale += 1
            # Its acknowledgement was lost: without another the neighbour would send for ever.
            ring_link.acknowledge(member, wire.index(row), flags, now)
            continue
        if iteration > state.latest:
            open_rows(member, scoreboard, iteration)
        place = (iteration & 1) * fragments + fragment
        if gathered and member.stage[place] & ADDED == 0:
            counters.foreign += 1  # a sum of all without this worker's part cannot be
            continue
        ring_link.acknowledge(member, wire.index(row), flags, now)
        if partial:
            finished |= _take_partial(member, scoreboard, row, iteration, fragment, place, now)
        else:
            finished |= _take_whole(member, scoreboard, row, step, fragment, place, now)
        if worker.status[0].failed == 1:
            break
    return finished
