"""The events of virtual time, in order.

Three things happen: a host handles what has arrived or keeps a deadline, a frame from one switch
reaches another, a switch's traffic manager does what is due (a frame has crossed a host's link, a
queue moves on). The frames that a switch sends are put into the inbox behind the port at once,
together with the time at which it will be there: links are modelled by the traffic managers alone,
so that the rules for rates, queues, marks and losses are those of the switch process.

Time is int64 ns. Links and pacing keep exact fractions of their own, so rates are exact although a
frame of 320 bytes takes 25.6 ns at 100 Gbit/s.
"""

from __future__ import annotations

import numpy as np
from numba import typeof, types

from testbed.protocols.jit import njit
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.status import offset
from testbed.protocols.values import mix2
from testbed.simulate import event_queue
from testbed.simulate.state import new_world
from testbed.workload.background import PORT as BACKGROUND_PORT
from testbed.workload.native import INTERPRETED, copy, foreign, peek
from testbed.workload.placed_machine import Placed, PlacedTuple, at, call_step, raised

# Why the loop returned
TIME_REACHED = 0  # no event is left before `until_ns`
FINISHED = 1  # all workers have finished
WRONG_VALUE = 2  # the host World.state.failed_host found a wrong value
NO_EVENTS = 3  # no event will ever happen again
NO_ROOM = 4  # there are more frames on their way than rows for them
EVENTS_HANDLED = 5  # the largest number of events has been handled
WORKER_FINISHED = 6  # the worker World.state.finished_host has finished; jobs come and go
RAISED = 7  # an exception, in plain Python

# Where a machine's status has these fields, in bytes
FAILED_OFFSET = offset("failed")
FINISHED_OFFSET = offset("finished")
LENGTH = FRAME_OVERHEAD - 4  # of UDP, in the frame
OUTPUT_BYTES = 24  # of a tm_output: time, offset, length and port

_receive = foreign(types.int32, types.int64, types.uint32, types.int64, types.uint32, types.int64)
_advance = foreign(types.void, types.int64, types.int64)
_next_event = foreign(types.int64, types.int64)
_outputs = foreign(types.int64, types.int64, types.int64, types.int64)
_outputs_clear = foreign(types.void, types.int64)


@njit(cache=True)
def _handling_ns(row, arrival_ns):
    """When a host will have handled a frame: frames keep their order and wait for each other.

    A drawn delay lasts for a time, by default much longer than delays differ. If every frame had a
    delay of its own, then at a high rate each would wait for the longest delay of the frames just
    before it, and the delay would be nearly constant. Each host's times begin somewhere else."""
    delay = row.delay_ns
    if row.spread_ns > 0:
        if row.hold_ns > 0:
            number = (arrival_ns + row.stream % row.hold_ns) // row.hold_ns
        else:
            number = row.draws
            row.draws += 1
        delay += mix2(row.stream, number) * (row.spread_ns + 1) >> 32
    row.free_ns = max(row.free_ns, arrival_ns + delay) + row.cost_ns
    return row.free_ns


@njit(cache=True)
def _udp_port(frame):
    """The destination port of a UDP packet in the frame at this address."""
    word = peek(frame + 32)  # its bytes 36 and 37, in a word of a little-endian machine
    return (word >> 32 & 0xFF) << 8 | word >> 40 & 0xFF


@njit(cache=True)
def _collect(world, switch):
    """Put what a switch has given out into inboxes. False, with nothing done, if there is no
    room."""
    state, frames, queue = world.state[0], world.frames, world.queue
    switch_row = world.switches[switch]
    count = _outputs(
        switch_row.outputs, (switch_row.manager, world.left.ctypes.data, world.left.ctypes.data + 8)
    )
    if count > state.free:
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
        if state.background == 1:
            beside = world.background[switch, port]
            if beside >= 0 and _udp_port(start) == BACKGROUND_PORT:
                inbox = beside
        if inbox < 0:
            continue
        if length > frames.bytes.shape[1]:
            state.oversized += 1
            continue
        if inbox < hosts:
            when = _handling_ns(world.hosts[inbox], when)
        put_frame(world, inbox, start, length, when)
    if count > 0:
        _outputs_clear(switch_row.outputs_clear, (switch_row.manager,))
    due = _next_event(switch_row.next_event, (switch_row.manager,))
    source = hosts + world.trunks.shape[0] + switch
    due = due if due >= 0 else event_queue.NEVER  # -1: TM_NEVER
    if queue.time[source] != due:
        event_queue.put(queue, source, due)
    return True


@njit(cache=True)
def put_frame(world, inbox, start, length, when):
    """Put a frame of so many bytes from `start` into an inbox, where it is at `when`; there must be
    room."""
    state, frames = world.state[0], world.frames
    state.free -= 1
    row = np.int64(frames.free[state.free])
    copy(frames.bytes.ctypes.data + row * frames.bytes.shape[1], start, length)
    frames.length[row] = length
    frames.when_ns[row] = when
    frames.next[row] = -1
    if inbox >= world.first.shape[0]:  # of another part
        frames.inbox[row] = inbox - world.trunks.shape[0]
        if state.leaving_first >= 0:
            frames.next[state.leaving_last] = row
        else:
            state.leaving_first = row
        state.leaving_last = row
        return
    if world.first[inbox] >= 0:
        frames.next[world.last[inbox]] = row
    else:
        world.first[inbox] = row
        if when < world.queue.time[inbox]:
            event_queue.put(world.queue, inbox, when)
    world.last[inbox] = row


@njit(cache=True)
def _take(world, inbox):
    """Take the first frame out of an inbox; returns its row, which is free from now on, but keeps
    its content until the next frame is put anywhere."""
    row = np.int64(world.first[inbox])
    world.first[inbox] = world.frames.next[row]
    world.frames.free[world.state[0].free] = row
    world.state[0].free += 1
    return row


@njit(cache=True)
def _is_addressed_to(identity, frame):
    """Whether a frame is for the host with these addresses and this UDP port."""
    for i in range(6):
        if frame[i] != identity[i]:
            return False
    for i in range(4):
        if frame[30 + i] != identity[6 + i]:
            return False
    return frame[36] == identity[10] and frame[37] == identity[11]


@njit(cache=True)
def _deliver(world, host, now):
    """Fill the batch of arrivals with the frames that a host handles by `now`; returns their
    number."""
    frames, arrived, row = world.frames, world.arrived, world.hosts[host]
    rows, words = arrived.packets.shape
    count = 0
    while count < rows and world.first[host] >= 0 and frames.when_ns[world.first[host]] <= now:
        frame = frames.bytes[_take(world, host)]
        length = (np.int64(frame[LENGTH]) << 8 | np.int64(frame[LENGTH + 1])) - 8  # of its payload
        if length < 0 or not _is_addressed_to(world.identity[host], frame):
            row.discarded += 1
            continue
        if length > 4 * words and row.background == 0:
            row.discarded += 1
            continue
        copy(
            arrived.packets.ctypes.data + count * 4 * words,
            frame.ctypes.data + FRAME_OVERHEAD,
            min(length, 4 * words),  # the rest is padding
        )
        arrived.lengths[count] = length
        row.packets_received += 1
        row.bytes_received += FRAME_OVERHEAD + length
        count += 1
    return count


@njit(cache=True)
def _send(world, host, filled, now):
    """Send the first `filled` packets of the batch to the host's switch."""
    row, out, frame = world.hosts[host], world.out, world.frame
    switch_row = world.switches[row.switch]
    for i in range(filled):
        length = out.lengths[i]
        which = row.header + out.destinations[i]
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
            min(length, 4 * out.packets.shape[1]),  # a longer packet is filled with anything
        )
        length += FRAME_OVERHEAD
        _receive(switch_row.receive, (switch_row.manager, row.port, frame.ctypes.data, length, now))
        row.bytes_sent += length
    row.packets_sent += filled


@njit(cache=True)
def _step_host(world, host, now):
    """What a host does at `now`; returns packets sent, or less than 0: why the loop must end."""
    row = world.hosts[host]
    count = _deliver(world, host, now)
    filled = call_step(
        row.step,
        (row.machine, world.places[0], world.places[1], now, count, world.places[2]),
    )
    if filled < 0:
        return -RAISED
    if peek(row.status + FAILED_OFFSET) == 1:
        world.state[0].failed_host = host
        return -WRONG_VALUE
    if filled > 0:
        _send(world, host, filled, now)
    if row.is_worker == 1 and row.done == 0 and peek(row.status + FINISHED_OFFSET) == 1:
        row.done = 1
        world.state[0].open -= 1
        world.state[0].closed_ns = now
        if world.state[0].report_finished == 1:
            world.state[0].finished_host = host
    row.deadline_ns = max(world.deadline[0], now)
    due = row.deadline_ns
    if world.first[host] >= 0:
        due = min(due, max(world.frames.when_ns[world.first[host]], now))
    event_queue.put(world.queue, host, due)
    return filled


@njit(cache=True)
def _cross_trunk(world, inbox, now):
    """A frame from another switch reaches this one; returns the switch."""
    switch, port = world.trunks[inbox - world.hosts.shape[0]]
    frames, switch_row = world.frames, world.switches[switch]
    row = _take(world, inbox)
    start = frames.bytes.ctypes.data + row * frames.bytes.shape[1]
    _receive(switch_row.receive, (switch_row.manager, port, start, frames.length[row], now))
    left = world.first[inbox]
    event_queue.put(world.queue, inbox, frames.when_ns[left] if left >= 0 else event_queue.NEVER)
    return switch


@njit(cache=True)
def _run(world, until_ns, events):
    state, queue = world.state[0], world.queue
    hosts, trunks = world.hosts.shape[0], world.trunks.shape[0]
    last = state.events + events
    while True:
        if state.pending >= 0:
            if not _collect(world, state.pending):
                return NO_ROOM
            state.pending = -1
        if state.open == 0 and state.goes_on == 0:
            return FINISHED
        if state.finished_host >= 0:
            return WORKER_FINISHED
        source = event_queue.first(queue)
        now = queue.time[source]
        if now > until_ns:
            return NO_EVENTS if now >= event_queue.NEVER else TIME_REACHED
        if state.events == last:
            return EVENTS_HANDLED
        state.events += 1
        state.now = now
        while state.pauses < world.pauses.shape[0] and world.pauses[state.pauses, 0] <= now:
            begun = world.pauses[state.pauses]
            world.hosts[begun[2]].resumed_ns = begun[1]
            state.pauses += 1
        if source < hosts and world.hosts[source].resumed_ns > now:
            event_queue.put(queue, source, world.hosts[source].resumed_ns)
        elif source < hosts:
            filled = _step_host(world, source, now)
            if filled < 0:
                return -filled
            if filled > 0:
                state.pending = world.hosts[source].switch
        elif source < hosts + trunks:
            state.pending = _cross_trunk(world, source, now)
        else:
            switch = source - hosts - trunks
            switch_row = world.switches[switch]
            _advance(switch_row.advance, (switch_row.manager, now))
            state.pending = switch


WORLD = PlacedTuple(typeof(new_world(1, 0, 1, 1, 64)))


@njit(cache=True, nogil=True)
def _run_at(address, until_ns, events):
    return _run(at(address, WORLD), until_ns, events)


def run(world: Placed, until_ns: int, events: int) -> int:
    """Handle events up to and including `until_ns`, at most `events` of them; returns why it
    ended. `world` is a placed World."""
    if INTERPRETED:
        reason = _run(world.part, until_ns, events)
        if reason == RAISED:
            raise raised.pop()
        return reason
    return _run_at(world.address, until_ns, events)
