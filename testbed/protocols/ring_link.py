"""The link from a ring member to its neighbour: what waits, what is in flight, what has arrived.

Each transmission has a sequence number of its own (`index`). The receiver collects what has come
and acknowledges up to 32 numbers with one packet of kind `control`: a first number and a bitmap.
What stays unacknowledged is sent again under a new number. A congestion mark comes back with the
acknowledgement and halves the window, as a result's does in other systems.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import acks, heap, lag, payload, send_scoreboard, wire, worker_state
from testbed.protocols.jit import njit

# Values of Ring.sending, per item: row p's partial sum is item 2p, its whole sum 2p + 1
IDLE = 0
WAITING = 1  # in the queue
UNDERWAY = 2
DONE = 3

# Destinations
NEXT = 0
PREVIOUS = 1


@njit(cache=True)
def position_of(member, fragment):
    """Number of steps from the fragment's start to this worker's turn."""
    config = member.worker.config
    return (config.number - fragment) % config.workers


@njit(cache=True)
def hold(member, place):
    """Give the row a place for a sum, unless it has one."""
    state = member.state
    if member.held[place] != 0:
        return
    if state.free > 0:
        state.free -= 1
        member.held[place] = member.free[state.free]
    else:
        state.held += 1
        member.held[place] = state.held


@njit(cache=True)
def let_go(member, place):
    """The row's sum, if it holds one, is needed no more."""
    if member.held[place] == 0:
        return
    member.free[member.state.free] = member.held[place]
    member.state.free += 1
    member.held[place] = 0


@njit(cache=True)
def sum_of(member, place):
    """The sum that the row holds: bitmap and values, uint32[B + V]."""
    return member.sums[member.held[place] - 1]


@njit(cache=True)
def begin_sum(member, scoreboard, place, fragment):
    """Hold this worker's own values as the row's sum."""
    worker = member.worker
    words, number = worker.config.bitmap_words, worker.config.number
    hold(member, place)
    row = sum_of(member, place)
    row[:words] = 0
    row[words - 1 - number // 32] = wire.swap(np.uint32(1 << (number % 32)))
    payload.write_values(worker, scoreboard, row, words, fragment)


@njit(cache=True)
def enqueue(member, scoreboard, item, fragment):
    state = member.state
    if scoreboard.state.order == send_scoreboard.FRONT:
        member.rank[item] = scoreboard.state.iteration * scoreboard.state.fragments + fragment
    else:
        member.rank[item] = state.order
        state.order += 1
    member.sending[item] = WAITING
    state.queued = heap.push(member.queue, state.queued, member.rank, item)


@njit(cache=True)
def _close_ack(member):
    """Put the collected acknowledgement into the batch of those to be sent; a full batch drops it,
    and the neighbour sends again."""
    state = member.state
    if state.acks < member.acks.shape[0]:
        member.acks[state.acks, 0] = state.ack_first
        member.acks[state.acks, 1] = state.ack_bits
        member.acks[state.acks, 2] = state.ack_flags
        state.acks += 1
    state.ack_count = 0


@njit(cache=True)
def acknowledge(member, number, flags, now):
    state, config = member.state, member.config
    if acks.is_too_far(state, number):
        _close_ack(member)
    acks.collect(state, number, flags, now + config.ack_delay_ns)
    if state.ack_count >= config.ack_after:
        _close_ack(member)


@njit(cache=True)
def mark_acknowledged(member, item):
    """The neighbour has what the item carries."""
    member.sending[item] = DONE
    member.state.in_flight -= 1
    let_go(member, item >> 1)


@njit(cache=True)
def take_ack(member, scoreboard, row, now):
    worker = member.worker
    first = wire.index(row)
    bits = acks.bits_of(row, worker.config.bitmap_words)
    marked = wire.flags(row) & wire.ECN != 0
    per_iteration = 4 * scoreboard.state.fragments
    for i in range(acks.SPAN):
        if (bits >> i) & 1 == 0:
            continue
        number = (first + i) & 0xFFFFFFFF
        place = number % member.numbers.size
        if member.numbers[place] != number:
            continue  # too long ago
        member.numbers[place] = -1
        iteration = member.items[place] // per_iteration
        item = member.items[place] - iteration * per_iteration
        if iteration < member.state.latest - 1 or member.sending[item] != UNDERWAY:
            continue
        if member.attempts[item] == 0:
            worker_state.measure_round_trip(worker.state, now - member.sent_ns[item])
        mark_acknowledged(member, item)
        worker_state.adapt_window(worker, marked, False, member.sent_ns[item], now)
        marked = False


@njit(cache=True)
def _transmit(member, scoreboard, item, row, flags, now):
    """Write the packet that carries the item, under a new sequence number; returns the bytes of its
    payload."""
    worker, state = member.worker, member.state
    config = worker.config
    workers, number = config.workers, config.number
    rows = scoreboard.state.fragments
    place = item >> 1
    fragment = place % rows
    # The rows hold the latest two iterations, told apart by their parity.
    iteration = state.latest - ((state.latest ^ (place // rows)) & 1)
    kind, step = wire.GRADIENT, position_of(member, fragment)
    if item & 1:
        kind, step = wire.RESULT, workers - 1 + (step + 1) % workers
    flags |= np.int64(member.flags[place])
    sequence = state.sequence
    state.sequence = (sequence + 1) & 0xFFFFFFFF
    wire.write_header(
        row, kind, 255, flags, config.job, 0, iteration * rows + fragment, sequence, number
    )
    wire.set_word(row, 4, step)
    if member.held[place] == 0:  # of the current iteration: it does not end before this is sent
        begin_sum(member, scoreboard, place, fragment)
    row[wire.HEADER_WORDS :] = sum_of(member, place)
    member.numbers[sequence % member.numbers.size] = sequence
    member.items[sequence % member.numbers.size] = item + 4 * rows * iteration
    member.sent_ns[item] = now
    worker.counters[0].gradient_packets += 1
    base = wire.HEADER_WORDS + config.bitmap_words
    length = 4 * (base + scoreboard.state.values)
    if config.omit_zeros == 1:
        length = wire.compact(row, base, scoreboard.state.values, 1, 0)
    worker_state.take_pace(worker.state, config, now, length)
    return length


@njit(cache=True)
def _send_acks(member, now, packets, lengths, destinations):
    """Returns the number of acknowledgements written."""
    worker, state, config = member.worker, member.state, member.worker.config
    if state.ack_count > 0 and now >= state.ack_due_ns:
        _close_ack(member)
    filled = 0
    while state.acks > 0 and filled < packets.shape[0]:
        state.acks -= 1
        ack, row = member.acks[state.acks], packets[filled]
        lengths[filled] = acks.write(
            row, config.job, config.number, config.bitmap_words, 0, ack[0], ack[1], ack[2]
        )
        destinations[filled] = PREVIOUS
        worker.state.next_send_ps += member.config.ack_pace_ps
        filled += 1
    return filled


@njit(cache=True)
def _next_due(member):
    """The item whose acknowledgement is overdue first, or -1."""
    state = member.state
    while state.timers > 0 and member.sending[member.timers[0]] != UNDERWAY:
        state.timers = heap.pop(member.timers, state.timers, member.due_ns)
    return member.timers[0] if state.timers > 0 else -1


@njit(cache=True)
def send(member, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    worker, state = member.worker, member.state
    counters = worker.counters[0]
    capacity = packets.shape[0]
    filled = _send_acks(member, now, packets, lengths, destinations)
    first = filled
    timeout, retry = worker_state.timeout_ns(worker), worker_state.retry_ns(worker)
    while filled < capacity:
        item = _next_due(member)
        if item < 0 or member.due_ns[item] > now:
            break
        state.timers = heap.pop(member.timers, state.timers, member.due_ns)
        member.attempts[item] = min(member.attempts[item] + 1, send_scoreboard.MAX_ATTEMPTS)
        lengths[filled] = _transmit(member, scoreboard, item, packets[filled], wire.RESEND, now)
        member.due_ns[item] = now + send_scoreboard.backoff_ns(retry, member.attempts[item])
        state.timers = heap.push(member.timers, state.timers, member.due_ns, item)
        counters.retransmissions += 1
        filled += 1
    window = worker.state.credit // worker_state.UNIT
    waited = worker.state.pacing == 1
    worker.state.pacing = 0
    while filled < capacity and state.queued > 0 and state.in_flight < window:
        if worker.state.next_send_ps > now * 1000:
            worker.state.pacing = 1
            break
        if waited:
            lag.record(worker.lag, now - worker.state.next_send_ps // 1000)
            waited = False
        item = member.queue[0]
        state.queued = heap.pop(member.queue, state.queued, member.rank)
        lengths[filled] = _transmit(member, scoreboard, item, packets[filled], 0, now)
        member.sending[item] = UNDERWAY
        state.in_flight += 1
        member.due_ns[item] = now + timeout
        state.timers = heap.push(member.timers, state.timers, member.due_ns, item)
        _note_first_sent(member, scoreboard, item, now)
        filled += 1
    worker.state.more = 1 if filled == capacity else 0
    for i in range(first, filled):
        destinations[i] = NEXT
    return filled


@njit(cache=True)
def _note_first_sent(member, scoreboard, item, now):
    """Note when a tensor's first fragment leaves, unless the tensor is done: a worker that
    completes all of its sums itself waits for nothing, and sends them for the others only."""
    place = item >> 1
    if (place // scoreboard.state.fragments) & 1 != scoreboard.state.iteration & 1:
        return
    tensor = scoreboard.tensor[place % scoreboard.state.fragments]
    row = scoreboard.state.row
    if scoreboard.first_sent_ns[row, tensor] < 0 and scoreboard.done_ns[row, tensor] < 0:
        scoreboard.first_sent_ns[row, tensor] = now


@njit(cache=True)
def all_sent(member):
    """True if the neighbour has everything."""
    return member.state.queued == 0 and member.state.in_flight == 0


@njit(cache=True)
def deadline(member, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    worker, state = member.worker, member.state
    if worker.state.more == 1 or state.acks > 0:
        return 0
    item = _next_due(member)
    due = worker_state.NEVER if item < 0 else member.due_ns[item]
    if state.ack_count > 0:
        due = min(due, state.ack_due_ns)
    if worker.state.pacing == 1:
        due = min(due, (worker.state.next_send_ps + 999) // 1000)
    return due
