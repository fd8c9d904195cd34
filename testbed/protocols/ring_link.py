"""The way from a ring member to its neighbour: what waits, what is on the way, what has arrived.

Each transmission has a sequence number of its own (`index`). The receiver collects what has come
and acknowledges up to 32 numbers with one packet of kind `control`: a first number and a bitmap.
What stays unacknowledged is sent again under a new number. A congestion mark comes back with the
acknowledgement and halves the window, as a result's does in other systems.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import flow, heap, lag, wire
from testbed.protocols import ring_state as rs
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import worker as wk

# Destinations
NEXT = 0
PREVIOUS = 1

ACK_SPAN = 32  # sequence numbers that one acknowledgement can name


@njit(cache=True)
def enqueue(r, b, item, fragment):
    s = r.s
    if b.s[bk.ORDER] == bk.FRONT:
        r.rank[item] = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    else:
        r.rank[item] = s[rs.ORDER]
        s[rs.ORDER] += 1
    r.sending[item] = rs.WAITING
    s[rs.QUEUED] = heap.push(r.queue, s[rs.QUEUED], r.rank, item)


@njit(cache=True)
def _close_ack(r):
    """Put the collected acknowledgement into the batch of those to be sent; a full batch drops it,
    and the neighbour sends again."""
    s = r.s
    if s[rs.ACKS] < r.acks.shape[0]:
        r.acks[s[rs.ACKS], 0] = s[rs.ACK_FIRST]
        r.acks[s[rs.ACKS], 1] = s[rs.ACK_BITS]
        r.acks[s[rs.ACKS], 2] = s[rs.ACK_FLAGS]
        s[rs.ACKS] += 1
    s[rs.ACK_COUNT] = 0


@njit(cache=True)
def acknowledge(r, number, flags, now):
    s, c = r.s, r.c
    ahead = (number - s[rs.ACK_FIRST]) & 0xFFFFFFFF
    if s[rs.ACK_COUNT] > 0 and ahead >= ACK_SPAN:
        _close_ack(r)
    if s[rs.ACK_COUNT] == 0:
        s[rs.ACK_FIRST] = number
        s[rs.ACK_BITS] = 0
        s[rs.ACK_FLAGS] = 0
        s[rs.ACK_DUE_NS] = now + c[rs.ACK_DELAY_NS]
        ahead = 0
    s[rs.ACK_BITS] |= 1 << ahead
    s[rs.ACK_FLAGS] |= flags & wire.ECN
    s[rs.ACK_COUNT] += 1
    if s[rs.ACK_COUNT] >= c[rs.ACK_AFTER]:
        _close_ack(r)


@njit(cache=True)
def settle(r, item):
    """The neighbour has what the item carries."""
    r.sending[item] = rs.DONE
    r.s[rs.IN_FLIGHT] -= 1


@njit(cache=True)
def take_ack(r, b, row, now):
    w = r.worker
    first = wire.index(row)
    bits = wire.word(row, wire.HEADER_WORDS + w.c[wk.BITMAP_WORDS] - 1)
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
        if iteration < r.s[rs.LATEST] - 1 or r.sending[item] != rs.UNDERWAY:
            continue
        if r.attempts[item] == 0:
            flow.measure_round_trip(w.s, now - r.sent_ns[item])
        settle(r, item)
        flow.adapt_window(w, marked, r.sent_ns[item], now)
        marked = False


@njit(cache=True)
def _transmit(r, b, item, row, flags, now):
    """Write the packet that carries the item, under a new sequence number."""
    w, s = r.worker, r.s
    c = w.c
    workers, number = c[wk.WORKERS], c[wk.NUMBER]
    rows = b.s[bk.FRAGMENTS]
    place = item >> 1
    fragment = place % rows
    # The rows hold the latest two iterations, told apart by their parity.
    iteration = s[rs.LATEST] - ((s[rs.LATEST] ^ (place // rows)) & 1)
    kind, step = wire.GRADIENT, rs.position_of(r, fragment)
    if item & 1:
        kind, step = wire.RESULT, workers - 1 + (step + 1) % workers
    flags |= np.int64(r.flags[place])
    sequence = s[rs.SEQUENCE]
    s[rs.SEQUENCE] = (sequence + 1) & 0xFFFFFFFF
    wire.write_header(
        row, kind, 255, flags, c[wk.JOB], 0, iteration * rows + fragment, sequence, number
    )
    wire.set_word(row, 4, step)
    row[wire.HEADER_WORDS :] = r.sums[place]
    r.numbers[sequence % r.numbers.size] = sequence
    r.items[sequence % r.numbers.size] = item + 4 * rows * iteration
    r.sent_ns[item] = now
    w.counters[n.GRADIENT_PACKETS] += 1
    flow.take_pace(w.s, c, now)


@njit(cache=True)
def _send_acks(r, now, packets, lengths, destinations):
    """Returns the number of acknowledgements written."""
    w, s = r.worker, r.s
    words = w.c[wk.BITMAP_WORDS]
    if s[rs.ACK_COUNT] > 0 and now >= s[rs.ACK_DUE_NS]:
        _close_ack(r)
    m = 0
    while s[rs.ACKS] > 0 and m < packets.shape[0]:
        s[rs.ACKS] -= 1
        first, bits, flags = r.acks[s[rs.ACKS], 0], r.acks[s[rs.ACKS], 1], r.acks[s[rs.ACKS], 2]
        number = w.c[wk.NUMBER]
        wire.write_header(packets[m], wire.CONTROL, 255, flags, w.c[wk.JOB], 0, 0, first, number)
        for i in range(words - 1):
            packets[m, wire.HEADER_WORDS + i] = np.uint32(0)
        wire.set_word(packets[m], wire.HEADER_WORDS + words - 1, bits)
        lengths[m] = 4 * (wire.HEADER_WORDS + words)
        destinations[m] = PREVIOUS
        w.s[wk.NEXT_SEND_PS] += r.c[rs.ACK_PACE_PS]
        m += 1
    return m


@njit(cache=True)
def _next_due(r):
    """The item whose acknowledgement is overdue first, or -1."""
    s = r.s
    while s[rs.TIMERS] > 0 and r.sending[r.timers[0]] != rs.UNDERWAY:
        s[rs.TIMERS] = heap.pop(r.timers, s[rs.TIMERS], r.due_ns)
    return r.timers[0] if s[rs.TIMERS] > 0 else -1


@njit(cache=True)
def send(r, b, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    w, s = r.worker, r.s
    k = w.counters
    capacity = packets.shape[0]
    m = _send_acks(r, now, packets, lengths, destinations)
    acks = m
    timeout, retry = flow.timeout_ns(w), flow.retry_ns(w)
    while m < capacity:
        item = _next_due(r)
        if item < 0 or r.due_ns[item] > now:
            break
        s[rs.TIMERS] = heap.pop(r.timers, s[rs.TIMERS], r.due_ns)
        r.attempts[item] = min(r.attempts[item] + 1, bk.MOST_ATTEMPTS)
        _transmit(r, b, item, packets[m], wire.RESEND, now)
        r.due_ns[item] = now + bk.backoff_ns(retry, r.attempts[item])
        s[rs.TIMERS] = heap.push(r.timers, s[rs.TIMERS], r.due_ns, item)
        k[n.RETRANSMISSIONS] += 1
        m += 1
    window = w.s[wk.CREDIT] // wk.UNIT
    waited = w.s[wk.PACING] == 1
    w.s[wk.PACING] = 0
    while m < capacity and s[rs.QUEUED] > 0 and s[rs.IN_FLIGHT] < window:
        if w.s[wk.NEXT_SEND_PS] > now * 1000:
            w.s[wk.PACING] = 1
            break
        if waited:
            lag.record(w.lag, now - w.s[wk.NEXT_SEND_PS] // 1000)
            waited = False
        item = r.queue[0]
        s[rs.QUEUED] = heap.pop(r.queue, s[rs.QUEUED], r.rank)
        _transmit(r, b, item, packets[m], 0, now)
        r.sending[item] = rs.UNDERWAY
        s[rs.IN_FLIGHT] += 1
        r.due_ns[item] = now + timeout
        s[rs.TIMERS] = heap.push(r.timers, s[rs.TIMERS], r.due_ns, item)
        _book_first(r, b, item, now)
        m += 1
    w.s[wk.MORE] = 1 if m == capacity else 0
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
    return r.s[rs.QUEUED] == 0 and r.s[rs.IN_FLIGHT] == 0


@njit(cache=True)
def deadline(r):
    """When to call `send` again although nothing has arrived; ns, wk.NEVER if not at all."""
    w, s = r.worker, r.s
    if w.s[wk.MORE] == 1 or s[rs.ACKS] > 0:
        return 0
    item = _next_due(r)
    due = wk.NEVER if item < 0 else r.due_ns[item]
    if s[rs.ACK_COUNT] > 0:
        due = min(due, s[rs.ACK_DUE_NS])
    if w.s[wk.PACING] == 1:
        due = min(due, (w.s[wk.NEXT_SEND_PS] + 999) // 1000)
    return due
