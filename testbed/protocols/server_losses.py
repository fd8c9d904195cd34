"""Recovery of missing contributions by a server: reminders to switches, requests to workers.

A fragment of which only a part has arrived may have a remainder in a switch, which can never
complete there: the *reminder* pulls it out. Whoever is still missing when the switches have
answered gets a *request*. Both back off and stop when the fragment is complete."""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import server_store, stripes, wire

NEVER = (1 << 62) - 1

# A worker that is merely late would get a request for what it is about to send, and its
# contribution would come past the switch's aggregators. So the first reminders go to the switches
# alone.
REMINDERS_BEFORE_REQUESTS = 2


@njit(cache=True)
def delay_ns(server):
    """Time that an incomplete fragment waits for its first reminder.

    Adaptive: twice the usual spread of a fragment's arrivals plus the round trip to the switch, so
    that contributions that are merely late are not pulled."""
    if server.config.delay_ns > 0:
        return server.config.delay_ns
    adaptive = 2 * server.state.spread_ns + server.state.round_trip_ns
    return min(max(adaptive, server.config.min_delay_ns), server.config.max_delay_ns)


@njit(cache=True)
def smoothed(mean, sample):
    """A moving average with a new sample; 0 is no average yet."""
    return sample if mean == 0 else mean + ((sample - mean) >> 3)


@njit(cache=True)
def request_from(server, slot, worker, packets, lengths, destinations, filled):
    """Ask one worker for a slot's fragment; the batch must have room. Returns the new count.

    Where a switch sends results, the worker may have that of a row whose copy for the server is
    lost."""
    words = server.config.bitmap_words
    flags = np.int64(server.flags[slot]) & (wire.FLOAT | wire.AGAIN)
    if server.config.delivered == 1:
        flags |= wire.AGAIN
    server_store.write_header(server, packets[filled], wire.ASK, flags, 0, slot)
    wire.set_worker(packets[filled], words, worker)
    lengths[filled] = 4 * (wire.HEADER_WORDS + words)
    destinations[filled] = server_store.FIRST_WORKER + worker
    server.counters[0].asks += 1
    server.state.next_request_ps += server.config.request_ps
    return filled + 1


@njit(cache=True)
def request_missing(server, slot, packets, lengths, destinations, filled):
    """Ask each worker that is missing in a slot; the batch must have room for all. Returns the new
    count."""
    config = server.config
    for worker in range(config.workers):
        if server_store.lacks(server, slot, worker):
            filled = request_from(server, slot, worker, packets, lengths, destinations, filled)
    return filled


@njit(cache=True)
def hold(server, slot, now):
    """Something of the fragment is here, and it is incomplete."""
    if server.stage[slot] == server_store.EMPTY:
        server.stage[slot] = server_store.PART
        server.first_ns[slot] = now
        if server.config.remind == 1:  # else the rest in a switch waits for workers' timers
            server_store.arm(server, slot, now + delay_ns(server))


@njit(cache=True)
def _remind(server, slot, now, packets, lengths, destinations, filled):
    """Remind the switches that may hold something of a slot's fragment; returns the new count."""
    config = server.config
    stripe = stripes.stripe_of(server.stripes, server.row[slot] % config.fragments)
    for i in range(server.nodes.size if server.flags[slot] & wire.FLOAT == 0 else 0):
        if server.stripes.reached[stripe, i] == 0:
            continue
        server_store.write_header(server, packets[filled], wire.REMINDER, 0, server.nodes[i], slot)
        for j in range(config.bitmap_words):
            packets[filled, wire.HEADER_WORDS + j] = np.uint32(0)
        lengths[filled] = 4 * (wire.HEADER_WORDS + config.bitmap_words)
        destinations[filled] = server_store.FIRST_WORKER + config.workers + i
        server.counters[0].reminders += 1
        server.state.next_request_ps += config.request_ps
        filled += 1
    server.attempts[slot] = min(server.attempts[slot] + 1, 6)
    server.reminded_ns[slot] = now
    return filled


@njit(cache=True)
def answered(server, slot, room, packets, lengths, destinations, filled):
    """A switch has answered a reminder of the row in a slot: it sent what it held, or it held
    nothing. After the last answer the missing workers are asked, if the batch has `room` for all.
    Returns the new count."""
    if server.awaited[slot] == 0:
        return filled
    server.awaited[slot] -= 1
    if server.awaited[slot] > 0 or server.stage[slot] != server_store.PART or not room:
        return filled
    return request_missing(server, slot, packets, lengths, destinations, filled)


@njit(cache=True)
def _drop_done_timers(server):
    state = server.state
    while state.timers > 0 and server.stage[server.timers[0]] == server_store.COMPLETE:
        server_store.take_timer(server)


@njit(cache=True)
def send(server, now, filled, out, out_lengths, destinations):
    """Add to a batch of `filled` packets the reminders and requests that are due; returns the new
    count.

    They are paced: what they call for comes over the server's own link. Unpaced, a full queue there
    makes fragments late, late fragments are requested, and the answers fill the queue."""
    config, state, progress = server.config, server.state, server.progress
    room = server.nodes.size + config.workers
    while progress.state.head < progress.state.tail:
        place = (state.iteration & 1) * config.fragments + progress.pulls[progress.state.head]
        slot = server_store.slot_of(server, place)
        if slot >= 0 and server.stage[slot] == server_store.PART:
            if filled + room > out.shape[0] or state.next_request_ps > now * 1000:
                return filled
            state.next_request_ps = now * 1000
            filled = _remind(server, slot, now, out, out_lengths, destinations, filled)
        progress.state.head += 1
    while True:
        _drop_done_timers(server)
        if (
            state.timers == 0
            or server.due_ns[server.timers[0]] > now
            or filled + room > out.shape[0]
        ):
            return filled
        if state.next_request_ps > now * 1000:
            return filled
        slot = server_store.take_timer(server)
        if server.attempts[slot] > 0 and server.reminded_ns[slot] + delay_ns(server) > now:
            server_store.arm(server, slot, server.reminded_ns[slot] + delay_ns(server))
            continue  # it has been pulled since
        state.next_request_ps = now * 1000
        whole_numbers = server.flags[slot] & wire.FLOAT == 0  # a switch holds nothing else
        ask_workers = server.attempts[slot] >= REMINDERS_BEFORE_REQUESTS or not whole_numbers
        reminders = -filled
        filled = _remind(server, slot, now, out, out_lengths, destinations, filled)
        reminders += filled
        if ask_workers and (reminders == 0 or server.awaited[slot] > 0):
            # No switch can answer, or one has not answered the last time.
            filled = request_missing(server, slot, out, out_lengths, destinations, filled)
        server.awaited[slot] = reminders if ask_workers else 0
        backoff = min(
            delay_ns(server) << server.attempts[slot], max(config.max_delay_ns, delay_ns(server))
        )
        server_store.arm(server, slot, now + backoff)


@njit(cache=True)
def deadline(server):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    _drop_done_timers(server)
    if server.progress.state.head < server.progress.state.tail:
        return (server.state.next_request_ps + 999) // 1000
    if server.state.timers == 0:
        return NEVER
    return max(server.due_ns[server.timers[0]], (server.state.next_request_ps + 999) // 1000)
