"""The events of virtual time, in order.

Three things happen: a host handles what has arrived or keeps a deadline, a frame from one switch
reaches another, a switch's traffic manager does what is due (a frame has crossed a host's link, a
queue moves on). Whatever a switch gives out is put into the inbox behind the port at once, together
with the time at which it will be there: links are modelled by the traffic managers alone, so that
the rules for rates, queues, marks and losses are those of the switch process.

Time is int64 ns. Links and pacing keep exact fractions of their own, so rates are exact although a
frame of 320 bytes takes 25.6 ns at 100 Gbit/s.
"""

from __future__ import annotations

import numpy as np
from numba import config, njit, typeof, types

from testbed.protocols import status as st
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.values import mix2
from testbed.simulate import event_queue as ag
from testbed.simulate import state as w
from testbed.workload.native import copy, foreign, peek
from testbed.workload.placed_machine import Placed, PlacedTuple, at, call_step, raised

# Why the loop returned
REACHED = 0  # nothing happens before the time that was asked for
FINISHED = 1  # all workers have
WRONG = 2  # a value, at the host World.s[WHO]
NOTHING = 3  # can ever happen
CROWDED = 4  # more frames are on their way than there is room for
PAUSE = 5  # as many events have been handled as were asked for
ENDED = 6  # a worker has finished, where jobs come and go
RAISED = 7  # an exception, in plain Python

LENGTH = FRAME_OVERHEAD - 4  # of UDP, in the frame
OUTPUT_BYTES = 24  # of a tm_output: time, offset, length and port

_receive = foreign(types.int32, types.int64, types.uint32, types.int64, types.uint32, types.int64)
_advance = foreign(types.void, types.int64, types.int64)
_next_event = foreign(types.int64, types.int64)
_outputs = foreign(types.int64, types.int64, types.int64, types.int64)
_outputs_clear = foreign(types.void, types.int64)


@njit(cache=True)
def _handling_ns(row, arrival_ns):
    """When a host will have handled a frame: frames keep their order and wait for each other."""
    delay = row[w.DELAY_NS]
    if row[w.SPREAD_NS] > 0:
        draw = mix2(row[w.STREAM], row[w.DRAWS])
        row[w.DRAWS] += 1
        delay += draw * (row[w.SPREAD_NS] + 1) >> 32
    row[w.FREE_NS] = max(row[w.FREE_NS], arrival_ns + delay) + row[w.COST_NS]
    return row[w.FREE_NS]


@njit(cache=True)
def _collect(world, switch):
    """Put what a switch has given out into inboxes. False, with nothing done, if there is no
    room."""
    s, f, a = world.s, world.frames, world.agenda
    c = world.switches[switch]
    count = _outputs(
        c[w.OUTPUTS], (c[w.MANAGER], world.left.ctypes.data, world.left.ctypes.data + 8)
    )
    if count > s[w.FREE]:
        return False
    hosts = world.hosts.shape[0]
    output, data = world.left[0], world.left[1]
    for _ in range(count):
        when = peek(output)
        start = data + peek(output + 8)
        both = peek(output + 16)
        length, port = both & 0xFFFFFFFF, both >> 32
        output += OUTPUT_BYTES
        inbox = world.leads[switch, port]
        if inbox < 0:
            continue
        if length > f.bytes.shape[1]:
            s[w.OVERSIZED] += 1
            continue
        if inbox < hosts:
            when = _handling_ns(world.hosts[inbox], when)
        s[w.FREE] -= 1
        row = f.free[s[w.FREE]]
        copy(f.bytes.ctypes.data + row * f.bytes.shape[1], start, length)
        f.length[row] = length
        f.when_ns[row] = when
        f.next[row] = -1
        if world.first[inbox] >= 0:
            f.next[world.last[inbox]] = row
        else:
            world.first[inbox] = row
            if when < a.time[inbox]:
                ag.put(a, inbox, when)
        world.last[inbox] = row
    if count > 0:
        _outputs_clear(c[w.OUTPUTS_CLEAR], (c[w.MANAGER],))
    due = _next_event(c[w.NEXT_EVENT], (c[w.MANAGER],))
    source = hosts + world.trunks.shape[0] + switch
    due = due if due >= 0 else ag.NEVER  # -1: TM_NEVER
    if a.time[source] != due:
        ag.put(a, source, due)
    return True


@njit(cache=True)
def _take(world, inbox):
    """Take the first frame out of an inbox; returns its row, which is free from now on, but keeps
    its content until the next frame is put anywhere."""
    row = world.first[inbox]
    world.first[inbox] = world.frames.next[row]
    world.frames.free[world.s[w.FREE]] = row
    world.s[w.FREE] += 1
    return row


@njit(cache=True)
def _for(identity, frame):
    """Whether a frame is for the host with these addresses and this UDP port."""
    for i in range(6):
        if frame[i] != identity[i]:
            return False
    for i in range(4):
        if frame[30 + i] != identity[6 + i]:
            return False
    return frame[36] == identity[10] and frame[37] == identity[11]


@njit(cache=True)
def _hand_in(world, host, now):
    """Fill the batch of arrivals with the frames that a host handles by `now`; returns their
    number."""
    f, arrived, row = world.frames, world.arrived, world.hosts[host]
    rows, words = arrived.packets.shape
    count = 0
    while count < rows and world.first[host] >= 0 and f.when_ns[world.first[host]] <= now:
        frame = f.bytes[_take(world, host)]
        length = (np.int64(frame[LENGTH]) << 8 | np.int64(frame[LENGTH + 1])) - 8
        if length < 0 or length > 4 * words or not _for(world.identity[host], frame):
            row[w.DISCARDED] += 1
            continue
        copy(
            arrived.packets.ctypes.data + count * 4 * words,
            frame.ctypes.data + FRAME_OVERHEAD,
            length,
        )
        arrived.lengths[count] = length
        row[w.PACKETS_RECEIVED] += 1
        row[w.BYTES_RECEIVED] += FRAME_OVERHEAD + length
        count += 1
    return count


@njit(cache=True)
def _send(world, host, filled, now):
    """Send the first `filled` packets of the batch to the host's switch."""
    row, out, frame = world.hosts[host], world.out, world.frame
    c = world.switches[row[w.SWITCH]]
    for i in range(filled):
        length = out.lengths[i]
        which = row[w.HEADER] + out.destinations[i]
        copy(
            frame.ctypes.data,
            world.headers.ctypes.data + which * FRAME_OVERHEAD,
            FRAME_OVERHEAD,
        )
        total = length + 28
        frame[16], frame[17] = total >> 8, total & 0xFF
        check = world.partial[which] + total
        check = (check & 0xFFFF) + (check >> 16)
        check = ~(check + (check >> 16)) & 0xFFFF
        frame[24], frame[25] = check >> 8, check & 0xFF
        total -= 20
        frame[LENGTH], frame[LENGTH + 1] = total >> 8, total & 0xFF
        copy(
            frame.ctypes.data + FRAME_OVERHEAD,
            out.packets.ctypes.data + i * 4 * out.packets.shape[1],
            length,
        )
        length += FRAME_OVERHEAD
        _receive(c[w.RECEIVE], (c[w.MANAGER], row[w.PORT], frame.ctypes.data, length, now))
        row[w.BYTES_SENT] += length
    row[w.PACKETS_SENT] += filled


@njit(cache=True)
def _step_host(world, host, now):
    """What a host does at `now`; returns packets sent, or less than 0: why the loop must end."""
    row = world.hosts[host]
    count = _hand_in(world, host, now)
    filled = call_step(
        row[w.STEP],
        (row[w.MACHINE], world.places[0], world.places[1], now, count, world.places[2]),
    )
    if filled < 0:
        return -RAISED
    if peek(row[w.STATUS] + 8 * st.FAILED) == 1:
        world.s[w.WHO] = host
        return -WRONG
    if filled > 0:
        _send(world, host, filled, now)
    if row[w.IS_WORKER] == 1 and row[w.DONE] == 0 and peek(row[w.STATUS] + 8 * st.FINISHED) == 1:
        row[w.DONE] = 1
        world.s[w.OPEN] -= 1
        world.s[w.ENDED] += world.s[w.HEEDED]
    row[w.DEADLINE_NS] = max(world.deadline[0], now)
    due = row[w.DEADLINE_NS]
    if world.first[host] >= 0:
        due = min(due, max(world.frames.when_ns[world.first[host]], now))
    ag.put(world.agenda, host, due)
    return filled


@njit(cache=True)
def _cross_trunk(world, inbox, now):
    """A frame from another switch reaches this one; returns the switch."""
    switch, port = world.trunks[inbox - world.hosts.shape[0]]
    f, c = world.frames, world.switches[switch]
    row = _take(world, inbox)
    start = f.bytes.ctypes.data + row * f.bytes.shape[1]
    _receive(c[w.RECEIVE], (c[w.MANAGER], port, start, f.length[row], now))
    left = world.first[inbox]
    ag.put(world.agenda, inbox, f.when_ns[left] if left >= 0 else ag.NEVER)
    return switch


@njit(cache=True)
def _run(world, until_ns, events):
    s, a = world.s, world.agenda
    hosts, trunks = world.hosts.shape[0], world.trunks.shape[0]
    last = s[w.EVENTS] + events
    while True:
        if s[w.PENDING] >= 0:
            if not _collect(world, s[w.PENDING]):
                return CROWDED
            s[w.PENDING] = -1
        if s[w.OPEN] == 0:
            return FINISHED
        if s[w.ENDED] > 0:
            s[w.ENDED] = 0
            return ENDED
        source = ag.first(a)
        now = a.time[source]
        if now > until_ns:
            return NOTHING if now >= ag.NEVER else REACHED
        if s[w.EVENTS] == last:
            return PAUSE
        s[w.EVENTS] += 1
        s[w.NOW] = now
        while s[w.PAUSES] < world.pauses.shape[0] and world.pauses[s[w.PAUSES], 0] <= now:
            begun = world.pauses[s[w.PAUSES]]
            world.hosts[begun[2], w.RESUMED_NS] = begun[1]
            s[w.PAUSES] += 1
        if source < hosts and world.hosts[source, w.RESUMED_NS] > now:
            ag.put(a, source, world.hosts[source, w.RESUMED_NS])
        elif source < hosts:
            filled = _step_host(world, source, now)
            if filled < 0:
                return -filled
            if filled > 0:
                s[w.PENDING] = world.hosts[source, w.SWITCH]
        elif source < hosts + trunks:
            s[w.PENDING] = _cross_trunk(world, source, now)
        else:
            switch = source - hosts - trunks
            c = world.switches[switch]
            _advance(c[w.ADVANCE], (c[w.MANAGER], now))
            s[w.PENDING] = switch


WORLD = PlacedTuple(typeof(w.new_world(1, 0, 1, 1, 64)))


@njit(cache=True)
def _run_at(address, until_ns, events):
    return _run(at(address, WORLD), until_ns, events)


def run(world: Placed, until_ns: int, events: int) -> int:
    """Handle events up to and including `until_ns`, at most `events` of them; returns why it
    ended. `world` is a placed state.World."""
    if config.DISABLE_JIT:
        reason = _run(world.part, until_ns, events)
        if reason == RAISED:
            raise raised.pop()
        return reason
    return _run_at(world.address, until_ns, events)
