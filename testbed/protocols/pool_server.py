"""The parameter server of a system with a shared pool of aggregators.

It receives sums over some of the job's workers: over all of them if the switch completed the
fragment, over fewer if a sum left its aggregator early or a contribution found no aggregator. The
server adds them up by their bitmaps, not by counting packets. When a fragment has all workers, the
server sends one result, which the switch multicasts. It keeps results and sends one again to a
worker that requests it. Where the switch sends results itself (p4/delivery.p4), a copy of each
comes here as a gradient of all workers would, and is not sent on.

`receive` takes a batch of packets and fills another; `server_losses.send` does what is due by the
clock.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import INT32
from testbed.protocols import (
    floats,
    progress,
    server_losses,
    server_store,
    wire,
)
from testbed.protocols.formats import by_number


@njit(cache=True)
def _begin(server, iteration):
    """The first packet of an iteration: rows are used again, so no timer of their past may stay."""
    state = server.state
    state.iteration = iteration
    progress.begin(server.progress)
    server_store.begin(server)
    server.status[0].iterations = iteration
    size = state.timers
    state.timers = 0
    for i in range(size):
        slot = np.int64(server.timers[i])
        server.timed[slot] = 0
        if server.stage[slot] == server_store.PART:
            server_store.arm(server, slot, server.due_ns[slot])


@njit(cache=True)
def _note_progress(server, iteration, fragment, row):
    """Have pulled what is here in part although all workers have sent it."""
    if iteration != server.state.iteration or server.progress.reached_by_all.size == 0:
        return
    begin, end = progress.note(server.progress, fragment, row, server.config.bitmap_words)
    offset = (iteration & 1) * server.config.fragments
    for sent in range(begin, end):
        slot = server_store.slot_of(server, offset + sent)
        part = (
            slot >= 0
            and server.iteration[slot] == iteration
            and server.stage[slot] == server_store.PART
        )
        if part or sent == fragment:
            progress.put(server.progress, sent)


@njit(cache=True)
def _count_arrival(counters, flags):
    counters.ps_packets += 1
    if flags & wire.PARTIAL:
        counters.ps_partials += 1
    if flags & wire.COLLISION:
        counters.ps_collisions += 1
    if flags & wire.RESEND:
        counters.ps_resends += 1


@njit(cache=True)
def _names_members(server, row):
    """True if a packet's bitmap names workers, and none that the job does not have."""
    named = False
    for j in range(server.config.bitmap_words):
        bits = wire.swap(row[wire.HEADER_WORDS + j])
        if bits & ~server.everyone[j]:
            return False
        named |= bits != 0
    return named


@njit(cache=True)
def _note_answer(server, slot, now):
    """A reminder of the row in a slot has been answered; only of a single one is the round trip
    known."""
    if server.attempts[slot] == 1:
        server.state.round_trip_ns = server_losses.smoothed(
            server.state.round_trip_ns, now - server.reminded_ns[slot]
        )


@njit(cache=True)
def receive(server, now, packets, lengths, count, out, out_lengths, destinations):
    """Take `count` packets and fill `out`; returns the number of packets filled.

    `out` has room for at least one packet per packet taken, and for requests beyond that as far as
    it goes: a request that finds no room is made up for by the next reminder."""
    config, state, counters = server.config, server.state, server.counters[0]
    base = wire.HEADER_WORDS + config.bitmap_words
    filled = 0
    for i in range(count):
        row = packets[i]
        if wire.is_foreign(row, lengths[i], base, config.job):
            counters.foreign += 1
            continue
        length = wire.expand(row, lengths[i], base, config.values, config.short)
        kind = wire.kind(row)
        whole = wire.fragment(row)
        iteration = whole // config.fragments
        fragment = whole - iteration * config.fragments
        place = (iteration & 1) * config.fragments + fragment
        if kind == wire.REMINDER_EMPTY:
            counters.reminders_empty += 1
            slot = server_store.slot_of(server, place)
            if slot >= 0 and server.iteration[slot] == iteration:
                _note_answer(server, slot, now)
                room = filled + count - i + config.workers < out.shape[0]
                filled = server_losses.answered(
                    server, slot, room, out, out_lengths, destinations, filled
                )
            continue
        delivered = kind == wire.RESULT and config.delivered == 1
        # Before it changes anything here: what no worker of the job can have sent.
        if (
            (kind != wire.GRADIENT and not delivered)
            or length != 4 * (base + config.values)
            or iteration >= config.iterations
            or iteration > state.iteration + config.ahead
            or not _names_members(server, row)
        ):
            counters.foreign += 1
            continue
        flags = wire.flags(row)
        _count_arrival(counters, flags)
        latest = server_store.iteration_of(server, place)
        if iteration < latest:  # its row has another fragment's sum by now
            counters.stale += 1
            continue
        server_store.arrived(server, row)
        slot = server_store.slot_of(server, place)
        if iteration > latest:
            if iteration > state.iteration:
                _begin(server, iteration)
            slot = server_store.open_row(server, place, iteration)
            if slot == server_store.NO_SLOT:
                continue
        if flags & wire.RESEND == 0:
            _note_progress(server, iteration, fragment, row)
        anew = slot == server_store.NO_SLOT and _asks_for_result(server, row)
        if anew:
            slot = server_store.open_row(server, place, iteration)
            if slot == server_store.NO_SLOT:
                continue
            server.flags[slot] = np.uint16(wire.AGAIN)
        if slot == server_store.NO_SLOT or server.stage[slot] == server_store.COMPLETE:
            filled = _serve_again(server, row, slot, out, out_lengths, destinations, filled)
            continue
        # Room to send requests to all, in the batch and on the link; else a reminder follows later.
        room = filled + count - i + config.workers < out.shape[0]
        spare = room and state.next_request_ps <= now * 1000
        begun = server.stage[slot] != server_store.EMPTY  # by a worker that lacks the result
        anew |= _still_waits(server, row, slot)
        verdict = _take(server, now, row, slot)
        if verdict == COMPLETES and delivered and not begun:
            _note_complete(server, now, flags, slot)
        elif verdict == COMPLETES:
            filled = _complete(server, now, flags, slot, out, out_lengths, destinations, filled)
        elif (verdict == LACKS_OTHERS or anew) and spare:
            filled = server_losses.request_missing(
                server, slot, out, out_lengths, destinations, filled
            )
        elif flags & server_store.SENT_AGAIN == wire.REMINDED:
            filled = server_losses.answered(
                server, slot, room, out, out_lengths, destinations, filled
            )
        elif verdict == IS_USELESS and flags & wire.RESEND and wire.sender(row) < config.workers:
            filled = server_losses.request_from(
                server, slot, wire.sender(row), out, out_lengths, destinations, filled
            )
    return filled


@njit(cache=True)
def _asks_for_result(server, row):
    """True if a worker sends its part of a row again, of which it lacks the result."""
    return wire.flags(row) & wire.RESEND != 0 and wire.sender(row) < server.config.workers


@njit(cache=True)
def _still_waits(server, row, slot):
    """True if a worker sends its part of a row that began anew once more: no timer of others, who
    have the result, makes up for a request that is lost."""
    return (
        server.flags[slot] & wire.AGAIN != 0
        and _asks_for_result(server, row)
        and not server_store.lacks(server, slot, wire.sender(row))
    )


@njit(cache=True)
def _serve_again(server, row, slot, out, out_lengths, destinations, filled):
    """The row is complete: a worker that sends again lacks the result. Returns the new count."""
    server.counters[0].ps_known += 1
    if slot != server_store.NO_SLOT and _asks_for_result(server, row):
        worker = wire.sender(row)
        out_lengths[filled] = server_store.write_result_for(
            server, out[filled], wire.RESULT_ONE, slot, worker
        )
        destinations[filled] = server_store.FIRST_WORKER + worker
        server.counters[0].duplicate_results += 1
        filled += 1
    return filled


# How the workers of a packet lie to those of its row
NOTHING_NEW = 0  # the row has them all
APART = 1  # it has none of them
COVERING = 2  # they are those of the row and others
OVERLAPPING = 3  # the row has some of them, and others: in a sum of both the common ones would
#                  count twice; in place of the row's sum, the row's others would be lost


@njit(cache=True)
def _compare(server, row, slot):
    """One of these four, and whether the packet has all workers of the job."""
    common = False  # they share workers
    more = False  # the packet has workers that the row does not have
    fewer = False  # the row has workers that the packet does not have
    everyone = True
    for j in range(server.config.bitmap_words):
        bits = wire.swap(row[wire.HEADER_WORDS + j])
        have = server.bitmap[slot, j]
        common |= (bits & have) != 0
        more |= (bits & ~have) != 0
        fewer |= (have & ~bits) != 0
        everyone &= bits == server.everyone[j]
    if not more:
        return NOTHING_NEW, everyone
    if not common:
        return APART, everyone
    return OVERLAPPING if fewer else COVERING, everyone


@njit(cache=True)
def _set_sum(server, row, slot):
    base = wire.HEADER_WORDS + server.config.bitmap_words
    if server.wide.shape[0] > 0:
        server.wide[slot] = 0
        _add_wide(server, row, slot)
        return
    sums = server.sums[server.place[slot]]
    for j in range(server.config.values):
        sums[j] = np.int32(wire.swap(row[base + j]))


@njit(cache=True)
def _add_wide(server, row, slot):
    """True if a sum is known to be wrong. Integers are in the first words of sums."""
    base, adder = wire.HEADER_WORDS + server.config.bitmap_words, server.config.adder
    if wire.flags(row) & wire.INTEGERS:
        for j in range(server.config.values):
            server.wide[slot, j, 0] += np.int64(wire.swap(row[base + j]))
        return False
    wrong = np.int64(0)
    for j in range(server.config.values):
        wrong |= by_number.add_wide(adder, server.wide[slot, j], wire.swap(row[base + j]))
    return wrong > 0


@njit(cache=True)
def _add_to_sum(server, row, slot):
    """True if a value has left int32, or is known to be wrong."""
    base = wire.HEADER_WORDS + server.config.bitmap_words
    if server.wide.shape[0] > 0:
        return _add_wide(server, row, slot)
    sums = server.sums[server.place[slot]]
    if server.config.adder != INT32 and wire.flags(row) & wire.INTEGERS == 0:
        for j in range(server.config.values):
            more, _ = by_number.add(
                server.config.adder, np.uint32(sums[j]), wire.swap(row[base + j])
            )
            sums[j] = np.int32(more)
        return False
    overflow = 0
    for j in range(server.config.values):
        old = sums[j]
        new = np.int32(wire.swap(row[base + j]))
        total = np.int32(np.int64(old) + np.int64(new) & 0xFFFFFFFF)
        overflow |= (old ^ total) & (new ^ total)
        sums[j] = total
    return overflow < 0


# What `_take` has found
ENOUGH = 0  # nothing is to be done
COMPLETES = 1  # the row has all workers now
LACKS_OTHERS = 2  # the workers that are missing are to send (again)
IS_USELESS = 3  # its sender is to send floating-point numbers


@njit(cache=True)
def _take(server, now, row, slot):
    """Take a gradient of a row that is not complete; returns one of these."""
    config, counters, flags = server.config, server.counters[0], wire.flags(row)
    server.flags[slot] |= np.uint16(flags & wire.COLLISION)
    as_floats = server.flags[slot] & wire.FLOAT != 0
    if config.floats > 0 and flags & wire.FLOAT == 0:
        if config.floats == 1 and not as_floats and flags & wire.OVERFLOW:
            server_store.become_floats(server, slot)
            server_losses.hold(server, slot, now)
            return LACKS_OTHERS
        if as_floats:
            return IS_USELESS
    elif flags & wire.FLOAT:
        if config.floats == 0:
            counters.foreign += 1
            return ENOUGH
        if not as_floats:
            server_store.become_floats(server, slot)

    relation, everyone = _compare(server, row, slot)
    if everyone:
        counters.ps_aggregates += 1
    if flags & server_store.SENT_AGAIN == wire.REMINDED:
        _note_answer(server, slot, now)
    if relation == NOTHING_NEW:
        counters.ps_known += 1
        return ENOUGH
    if flags & wire.FLOAT:
        floats.add(server.floats, slot, row, wire.HEADER_WORDS + config.bitmap_words)
    elif relation == OVERLAPPING:
        counters.ps_overlaps += 1
        server.flags[slot] |= np.uint16(server_store.SENT_AGAIN)
        return LACKS_OTHERS
    elif relation == COVERING:
        counters.ps_replaced += 1
        _set_sum(server, row, slot)
        server.flags[slot] &= np.uint16(wire.COLLISION | wire.AGAIN | server_store.SENT_AGAIN)
    elif server.stage[slot] == server_store.EMPTY:
        _set_sum(server, row, slot)
    elif _add_to_sum(server, row, slot):
        if config.floats == 1:
            server_store.become_floats(server, slot)
            return LACKS_OTHERS
        server.flags[slot] |= np.uint16(wire.OVERFLOW)
    kept = wire.ECN | wire.OVERFLOW | wire.ROUND | wire.INTEGERS
    server.flags[slot] |= np.uint16(flags & kept)
    if flags & server_store.SENT_AGAIN == wire.RESEND and server_store.lacks(
        server, slot, wire.sender(row)
    ):
        server.flags[slot] |= np.uint16(wire.RESEND)
    if flags & wire.FOR_SOME:
        server.flags[slot] |= np.uint16(flags & wire.FOR_SOME)
        server.meant[slot] = np.uint16(wire.meant(row))

    complete = True
    for j in range(config.bitmap_words):
        server.bitmap[slot, j] |= wire.swap(row[wire.HEADER_WORDS + j])
        complete &= server.bitmap[slot, j] == server.everyone[j]
    if complete:
        return COMPLETES
    server_losses.hold(server, slot, now)
    return LACKS_OTHERS if flags & wire.FLOAT and not as_floats else ENOUGH


@njit(cache=True)
def _complete(server, now, flags, slot, out, out_lengths, destinations, filled):
    """The row has all workers: send its result. `flags`: of the last packet.

    A result that waited for a packet that was lost says so: it tells nothing about the usual round
    trip."""
    _note_complete(server, now, flags, slot)
    out_lengths[filled] = server_store.write_result(server, out[filled], wire.RESULT, slot)
    if server.flags[slot] & wire.AGAIN == 0:
        server_store.completed(server, out[filled], slot)
    destinations[filled] = server_store.TO_WORKERS
    server.counters[0].results += 1
    return filled + 1


@njit(cache=True)
def _note_complete(server, now, flags, slot):
    """The row has all workers. `flags`: of the last packet."""
    state = server.state
    if server.stage[slot] == server_store.PART and flags & (wire.REMINDED | wire.RESEND) == 0:
        state.spread_ns = server_losses.smoothed(state.spread_ns, now - server.first_ns[slot])
    server.stage[slot] = server_store.COMPLETE
    state.completed += 1
    server_store.note_done(server, slot)
