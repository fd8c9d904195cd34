"""Ring all-reduce: the workers pass their fragments around, without a server.

Fragment f of an iteration belongs to chunk f modulo W, and chunk m starts at worker m. Steps 0 to
W - 2 are the reduce-scatter: worker m sends its own values of chunk m to its neighbour, which adds
its own and sends the sum on, until W - 1 steps later the sum is whole. Steps W - 1 to 2W - 3 are
the all-gather: the whole sum goes round once more. So each worker sends 2(W - 1)/W of its gradient.

The steps are counted per fragment, not per tensor: a fragment moves on when it has come and the
worker's own gradient of its tensor is ready. No step waits for a whole chunk, so a small tensor
costs what its few fragments cost, and every tensor is done as early as its own fragments allow.
Striping by fragment gives each worker its W-th part of every tensor, within one fragment.

Reliability is between neighbours. Each transmission has a sequence number of its own (`index`).
The receiver collects what has come and acknowledges up to 32 numbers with one packet of kind
`control`: a first number and a bitmap. What stays unacknowledged is sent again under a new number.
What has come once is known by its step and never added twice. A congestion mark comes back with
the acknowledgement and halves the window, as a result's does in other systems.

A neighbour ahead may be in iteration i + 1 while this worker waits for rear tensors of i; it can't
be further, since i + 1 needs this worker's part. So two iterations' rows are all that is needed.
The packet's fields: docs/baselines.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import counters as n
from testbed.protocols import esa, heap, lag, pool_worker, wire
from testbed.protocols import status as st
from testbed.protocols.ps import WITHOUT_SWITCH

NEVER = pool_worker.NEVER

# Destinations
NEXT = 0
PREVIOUS = 1

ACK_SPAN = 32  # sequence numbers that one acknowledgement can name

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


def new_ring(spec: dict, gradients: tuple[np.ndarray, np.ndarray] | None = None) -> Ring:
    """A ring member of a worker's specification (testbed.workload.plan)."""
    worker = esa.new_worker({**spec, **WITHOUT_SWITCH}, gradients)
    workers, values, words = spec["workers"], spec["values"], spec["bitmap_width"] // 32
    rows = 2 * spec["fragments"]
    c = np.zeros(CONFIGURATION, np.int64)
    c[ACK_AFTER] = max(1, min(16, spec["window"] // 4))
    c[ACK_DELAY_NS] = spec["ack_delay_ns"]
    bits = 8 * wire.frame_bytes(0, spec["bitmap_width"])
    c[ACK_PACE_PS] = bits * 10**12 // spec["rate_bps"] if spec["rate_bps"] else 0
    c[PREVIOUS_NUMBER] = (spec["worker"] - 1) % workers
    s = np.zeros(STATE, np.int64)
    s[LATEST] = -1
    s[TENSOR] = -1
    remembered = 1
    while remembered < 4 * spec["window"]:
        remembered *= 2
    return Ring(
        worker=worker,
        c=c,
        s=s,
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        sums=np.zeros((rows, words + values), np.uint32),
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
        own=np.zeros(values, np.uint32),
    )


@njit(cache=True)
def _open(r, b, iteration):
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
def begin(r, b, iteration):
    """Start exchanging the gradients of an iteration."""
    pool_worker.begin(r.worker, b, iteration)
    if iteration > r.s[LATEST]:
        _open(r, b, iteration)
    r.s[TENSOR] = b.s[bk.TENSORS] - 1


@njit(cache=True)
def _enqueue(r, b, item, fragment):
    s = r.s
    if b.s[bk.ORDER] == bk.FRONT:
        r.rank[item] = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    else:
        r.rank[item] = s[ORDER]
        s[ORDER] += 1
    r.sending[item] = WAITING
    s[QUEUED] = heap.push(r.queue, s[QUEUED], r.rank, item)


@njit(cache=True)
def _position(r, fragment):
    """How many steps after the fragment's start this worker's turn comes."""
    c = r.worker.c
    return (c[pool_worker.NUMBER] - fragment) % c[pool_worker.WORKERS]


@njit(cache=True)
def _finish(r, b, fragment, place, now):
    """The row holds the sum of all workers: check and book it. True if that ends the iteration;
    after a wrong value the status is FAILED."""
    w = r.worker
    k = w.counters
    words = w.c[pool_worker.BITMAP_WORDS]
    r.stage[place] |= WHOLE
    if not pool_worker.check_values(w, b, r.sums[place], words, fragment):
        return False
    k[n.RESULTS] += 1
    if r.flags[place] & wire.OVERFLOW:
        k[n.SATURATED] += 1
    return bk.mark_received(b, fragment, now)


@njit(cache=True)
def _add_own(r, b, fragment, place, now):
    """The fragment has come and the own gradient is ready. True if that ends the iteration."""
    w = r.worker
    c = w.c
    workers, words = c[pool_worker.WORKERS], c[pool_worker.BITMAP_WORDS]
    position = _position(r, fragment)
    row = r.sums[place]
    values = b.s[bk.VALUES]
    if position == 0:
        pool_worker.write_values(w, b, row, words, fragment)
        row[:words] = 0
    else:
        pool_worker.write_values(w, b, r.own, 0, fragment)
        overflow = 0
        for i in range(values):
            old = np.int32(wire.swap(row[words + i]))
            mine = np.int32(wire.swap(r.own[i]))
            total = np.int32(np.int64(old) + np.int64(mine) & 0xFFFFFFFF)
            overflow |= (old ^ total) & (mine ^ total)
            row[words + i] = wire.swap(np.uint32(total))
        if overflow < 0:
            r.flags[place] |= np.uint16(wire.OVERFLOW)
    number = c[pool_worker.NUMBER]
    row[words - 1 - number // 32] |= wire.swap(np.uint32(1 << (number % 32)))
    r.stage[place] |= ADDED
    if position < workers - 1:
        _enqueue(r, b, 2 * place, fragment)
        return False
    if workers > 1:
        _enqueue(r, b, 2 * place + 1, fragment)
    return _finish(r, b, fragment, place, now)


@njit(cache=True)
def add_ready(r, b, now):
    """Add the own gradients of tensors that have become ready, to what has come of them.

    True if that ends the iteration."""
    s = r.s
    finished = False
    offset = (b.s[bk.ITERATION] & 1) * b.s[bk.FRAGMENTS]
    while s[TENSOR] >= 0 and b.ready[s[TENSOR]] == 1:
        for fragment in range(b.first[s[TENSOR]], b.first[s[TENSOR] + 1]):
            place = offset + fragment
            if _position(r, fragment) == 0 or r.stage[place] & CAME:
                finished |= _add_own(r, b, fragment, place, now)
        s[TENSOR] -= 1
    return finished


@njit(cache=True)
def _close_ack(r):
    """Put the collected acknowledgement into the batch of those to be sent; a full batch drops it,
    and the neighbour sends again."""
    s = r.s
    if s[ACKS] < r.acks.shape[0]:
        r.acks[s[ACKS], 0] = s[ACK_FIRST]
        r.acks[s[ACKS], 1] = s[ACK_BITS]
        r.acks[s[ACKS], 2] = s[ACK_FLAGS]
        s[ACKS] += 1
    s[ACK_COUNT] = 0


@njit(cache=True)
def _acknowledge(r, number, flags, now):
    s, c = r.s, r.c
    ahead = (number - s[ACK_FIRST]) & 0xFFFFFFFF
    if s[ACK_COUNT] > 0 and ahead >= ACK_SPAN:
        _close_ack(r)
    if s[ACK_COUNT] == 0:
        s[ACK_FIRST] = number
        s[ACK_BITS] = 0
        s[ACK_FLAGS] = 0
        s[ACK_DUE_NS] = now + c[ACK_DELAY_NS]
        ahead = 0
    s[ACK_BITS] |= 1 << ahead
    s[ACK_FLAGS] |= flags & wire.ECN
    s[ACK_COUNT] += 1
    if s[ACK_COUNT] >= c[ACK_AFTER]:
        _close_ack(r)


@njit(cache=True)
def _settle(r, item):
    """The neighbour has what the item carries."""
    r.sending[item] = DONE
    r.s[IN_FLIGHT] -= 1


@njit(cache=True)
def _take_ack(r, b, row, now):
    w = r.worker
    first = wire.index(row)
    bits = wire.word(row, wire.HEADER_WORDS + w.c[pool_worker.BITMAP_WORDS] - 1)
    marked = wire.flags(row) & wire.ECN != 0
    per_iteration = 4 * b.s[bk.FRAGMENTS]
    for i in range(ACK_SPAN):
        if (bits >> i) & 1 == 0:
            continue
        number = (first + i) & 0xFFFFFFFF
        place = number % r.numbers.size
        if r.numbers[place] != number:
            continue  # too long ago
        r.numbers[place] = -1
        iteration = r.items[place] // per_iteration
        item = r.items[place] - iteration * per_iteration
        if iteration < r.s[LATEST] - 1 or r.sending[item] != UNDERWAY:
            continue
        if r.attempts[item] == 0:
            pool_worker.measure_round_trip(w.s, now - r.sent_ns[item])
        _settle(r, item)
        pool_worker._adapt_window(w, marked)
        marked = False


@njit(cache=True)
def _take_partial(r, b, row, iteration, fragment, place, now):
    """A sum over the workers before this one. True if that ends the iteration."""
    words = r.worker.c[pool_worker.BITMAP_WORDS]
    if r.stage[place] & CAME:
        r.worker.counters[n.DUPLICATE_RESULTS] += 1
        return False
    r.stage[place] |= CAME
    r.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    r.sums[place, :] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + words + b.s[bk.VALUES]]
    if iteration == b.s[bk.ITERATION] and b.ready[b.tensor[fragment]] == 1:
        return _add_own(r, b, fragment, place, now)
    return False


@njit(cache=True)
def _take_whole(r, b, row, step, fragment, place, now):
    """The sum over all workers. True if that ends the iteration."""
    w = r.worker
    words, workers = w.c[pool_worker.BITMAP_WORDS], w.c[pool_worker.WORKERS]
    if r.stage[place] & WHOLE:
        w.counters[n.DUPLICATE_RESULTS] += 1
        return False
    if r.sending[2 * place] == UNDERWAY:
        _settle(r, 2 * place)  # it has been all around: its acknowledgement was lost
    r.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    r.sums[place, :] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + words + b.s[bk.VALUES]]
    if step < 2 * workers - 3:
        _enqueue(r, b, 2 * place + 1, fragment)
    return _finish(r, b, fragment, place, now)


@njit(cache=True)
def receive(r, b, now, packets, lengths, count):
    """Take `count` packets; True when the iteration's last sum is among them. After a wrong value
    it stops, with the status FAILED set."""
    w, s = r.worker, r.s
    c, k = w.c, w.counters
    workers, words = c[pool_worker.WORKERS], c[pool_worker.BITMAP_WORDS]
    fragments = b.s[bk.FRAGMENTS]
    base = wire.HEADER_WORDS + words
    finished = False
    for i in range(count):
        row = packets[i]
        if (
            lengths[i] < 4 * base
            or wire.version(row) != wire.VERSION
            or wire.job(row) != c[pool_worker.JOB]
        ):
            k[n.FOREIGN] += 1
            continue
        kind = wire.kind(row)
        if kind == wire.CONTROL:
            _take_ack(r, b, row, now)
            continue
        whole = wire.fragment(row)
        iteration = whole // fragments
        fragment = whole - iteration * fragments
        position = _position(r, fragment)
        step = wire.word(row, 4)
        partial = kind == wire.GRADIENT and position > 0 and step == position - 1
        gathered = kind == wire.RESULT and position < workers - 1 and step == workers - 1 + position
        if (
            not (partial or gathered)
            or lengths[i] != 4 * (base + b.s[bk.VALUES])
            or wire.sender(row) != r.c[PREVIOUS_NUMBER]
            or iteration > b.s[bk.ITERATION] + 1
            or iteration >= c[pool_worker.ITERATIONS]
        ):
            k[n.FOREIGN] += 1
            continue
        flags = wire.flags(row)
        if iteration < b.s[bk.ITERATION]:
            k[n.STALE] += 1
            _acknowledge(r, wire.index(row), flags, now)
            continue
        if iteration > s[LATEST]:
            _open(r, b, iteration)
        place = (iteration & 1) * fragments + fragment
        if gathered and r.stage[place] & ADDED == 0:
            k[n.FOREIGN] += 1  # a sum of all without this worker's part cannot be
            continue
        _acknowledge(r, wire.index(row), flags, now)
        if partial:
            finished |= _take_partial(r, b, row, iteration, fragment, place, now)
        else:
            finished |= _take_whole(r, b, row, step, fragment, place, now)
        if w.status[st.FAILED] == 1:
            break
    return finished


@njit(cache=True)
def _transmit(r, b, item, row, flags, now):
    """Write the packet that carries the item, under a new sequence number."""
    w, s = r.worker, r.s
    c = w.c
    workers, number = c[pool_worker.WORKERS], c[pool_worker.NUMBER]
    rows = b.s[bk.FRAGMENTS]
    place = item >> 1
    fragment = place % rows
    # The rows hold the latest two iterations, told apart by their parity.
    iteration = s[LATEST] - ((s[LATEST] ^ (place // rows)) & 1)
    kind, step = wire.GRADIENT, _position(r, fragment)
    if item & 1:
        kind, step = wire.RESULT, workers - 1 + (step + 1) % workers
    flags |= np.int64(r.flags[place])
    sequence = s[SEQUENCE]
    s[SEQUENCE] = (sequence + 1) & 0xFFFFFFFF
    wire.write_header(
        row, kind, 255, flags, c[pool_worker.JOB], 0, iteration * rows + fragment, sequence, number
    )
    wire.set_word(row, 4, step)
    row[wire.HEADER_WORDS :] = r.sums[place]
    r.numbers[sequence % r.numbers.size] = sequence
    r.items[sequence % r.numbers.size] = item + 4 * rows * iteration
    r.sent_ns[item] = now
    w.counters[n.GRADIENT_PACKETS] += 1
    pool_worker.take_pace(w.s, c, now)


@njit(cache=True)
def _send_acks(r, now, packets, lengths, destinations):
    """Returns the number of acknowledgements written."""
    w, s = r.worker, r.s
    words = w.c[pool_worker.BITMAP_WORDS]
    if s[ACK_COUNT] > 0 and now >= s[ACK_DUE_NS]:
        _close_ack(r)
    m = 0
    while s[ACKS] > 0 and m < packets.shape[0]:
        s[ACKS] -= 1
        first, bits, flags = r.acks[s[ACKS], 0], r.acks[s[ACKS], 1], r.acks[s[ACKS], 2]
        number = w.c[pool_worker.NUMBER]
        wire.write_header(
            packets[m], wire.CONTROL, 255, flags, w.c[pool_worker.JOB], 0, 0, first, number
        )
        for i in range(words - 1):
            packets[m, wire.HEADER_WORDS + i] = np.uint32(0)
        wire.set_word(packets[m], wire.HEADER_WORDS + words - 1, bits)
        lengths[m] = 4 * (wire.HEADER_WORDS + words)
        destinations[m] = PREVIOUS
        w.s[pool_worker.NEXT_SEND_PS] += r.c[ACK_PACE_PS]
        m += 1
    return m


@njit(cache=True)
def _next_due(r):
    """The item whose acknowledgement is overdue first, or -1."""
    s = r.s
    while s[TIMERS] > 0 and r.sending[r.timers[0]] != UNDERWAY:
        s[TIMERS] = heap.pop(r.timers, s[TIMERS], r.due_ns)
    return r.timers[0] if s[TIMERS] > 0 else -1


@njit(cache=True)
def send(r, b, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    w, s = r.worker, r.s
    k = w.counters
    capacity = packets.shape[0]
    m = _send_acks(r, now, packets, lengths, destinations)
    acks = m
    timeout = pool_worker.timeout_ns(w)
    while m < capacity:
        item = _next_due(r)
        if item < 0 or r.due_ns[item] > now:
            break
        s[TIMERS] = heap.pop(r.timers, s[TIMERS], r.due_ns)
        r.attempts[item] = min(r.attempts[item] + 1, 6)
        _transmit(r, b, item, packets[m], wire.RESEND, now)
        r.due_ns[item] = now + (timeout << np.int64(r.attempts[item]))
        s[TIMERS] = heap.push(r.timers, s[TIMERS], r.due_ns, item)
        k[n.RETRANSMISSIONS] += 1
        m += 1
    window = w.s[pool_worker.CREDIT] // pool_worker.UNIT
    waited = w.s[pool_worker.PACING] == 1
    w.s[pool_worker.PACING] = 0
    while m < capacity and s[QUEUED] > 0 and s[IN_FLIGHT] < window:
        if w.s[pool_worker.NEXT_SEND_PS] > now * 1000:
            w.s[pool_worker.PACING] = 1
            break
        if waited:
            lag.record(w.lag, now - w.s[pool_worker.NEXT_SEND_PS] // 1000)
            waited = False
        item = r.queue[0]
        s[QUEUED] = heap.pop(r.queue, s[QUEUED], r.rank)
        _transmit(r, b, item, packets[m], 0, now)
        r.sending[item] = UNDERWAY
        s[IN_FLIGHT] += 1
        r.due_ns[item] = now + timeout
        s[TIMERS] = heap.push(r.timers, s[TIMERS], r.due_ns, item)
        _book_first(r, b, item, now)
        m += 1
    w.s[pool_worker.MORE] = 1 if m == capacity else 0
    for i in range(acks, m):
        destinations[i] = NEXT
        lengths[i] = 4 * packets.shape[1]
    return m


@njit(cache=True)
def _book_first(r, b, item, now):
    """Note when a tensor's first fragment leaves, unless the tensor is done: a worker that
    completes all of its sums itself waits for nothing, and sends them for the others only."""
    place = item >> 1
    if (place // b.s[bk.FRAGMENTS]) & 1 != b.s[bk.ITERATION] & 1:
        return
    tensor = b.tensor[place % b.s[bk.FRAGMENTS]]
    iteration = b.s[bk.ITERATION]
    if b.first_sent_ns[iteration, tensor] < 0 and b.done_ns[iteration, tensor] < 0:
        b.first_sent_ns[iteration, tensor] = now


@njit(cache=True)
def all_sent(r):
    """Whether the neighbour has everything."""
    return r.s[QUEUED] == 0 and r.s[IN_FLIGHT] == 0


@njit(cache=True)
def deadline(r):
    """When to call `send` again although nothing has arrived; ns, NEVER if not at all."""
    w, s = r.worker, r.s
    if w.s[pool_worker.MORE] == 1 or s[ACKS] > 0:
        return 0
    item = _next_due(r)
    due = NEVER if item < 0 else r.due_ns[item]
    if s[ACK_COUNT] > 0:
        due = min(due, s[ACK_DUE_NS])
    if w.s[pool_worker.PACING] == 1:
        due = min(due, (w.s[pool_worker.NEXT_SEND_PS] + 999) // 1000)
    return due
