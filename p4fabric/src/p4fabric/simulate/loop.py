"""The events of virtual time, in order.

Three things happen: a host handles what has arrived or keeps a deadline, a frame from one switch
reaches another, a switch's traffic manager does what is due (a frame has crossed a host's link, a
queue moves on). The frames that a switch sends are put into the inbox behind the port at once,
together with the time at which it will be there: links are modelled by the traffic managers alone,
so that the rules for rates, queues, marks and losses are those of the switch process.

A packet is on its way for a time, the least of which is known: from a host to its switch, and from
there until a host handles it. Within this time no host can affect another one. So hosts take turns:
each handles all its events of a *slice* of time, one host after the other, then the switches handle
theirs. Every node sees the same frames at the same times as if all events had been handled in their
order, but a host's state and code, and then the P4 program's, stay in the processor's caches for
some sixteen packets instead of one. Where the least time is 0 or not known (hosts that come and go,
links that fail, machines that share a link), events are handled in their order.

Time is int64 ns. Links and pacing keep exact fractions of their own, so rates are exact although a
frame of 320 bytes takes 25.6 ns at 100 Gbit/s.
"""

from __future__ import annotations

import numpy as np
from numba import typeof, types

from p4fabric.base.errors import RunError
from p4fabric.base.topology import FRAME_OVERHEAD
from p4fabric.simulate import event_queue, frames
from p4fabric.simulate.generator import PORT as BACKGROUND_PORT
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import SEED_BYTES
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.native import INTERPRETED, copy, foreign, peek, prefetch
from p4fabric.simulate.placed_machine import Placed, PlacedTuple, at, call_step, raised
from p4fabric.simulate.records import offset
from p4fabric.simulate.state import new_world

# Why the loop returned
TIME_REACHED = 0  # no event is left before `until_ns`
FINISHED = 1  # all machines for which the run waits have finished
FAILED = 2  # the machine of the host World.state.failed_host has failed
NO_EVENTS = 3  # no event will ever happen again
NO_ROOM = 4  # there are more frames on their way than rows for them
EVENTS_HANDLED = 5  # the largest number of events has been handled
HOST_FINISHED = 6  # the machine of the host World.state.finished_host has finished
RAISED = 7  # an exception, in plain Python
STUCK = 8  # the machine of host World.state.failed_host lets time stand still

# Where a machine's status has these fields, in bytes
FAILED_OFFSET = offset("failed")
FINISHED_OFFSET = offset("finished")
LENGTH = FRAME_OVERHEAD - 4  # of UDP, in the frame
TOS = 15  # of IPv4
MOST_IDLE_STEPS = 10_000  # of a host in a row at one time
OUTPUT_BYTES = 24  # of a tm_output: time, offset, length and port

_receive = foreign(types.int32, types.int64, types.uint32, types.int64, types.uint32, types.int64)
_receive_seeded = foreign(
    types.int32,
    *(types.int64, types.uint32, types.int64, types.uint32, types.uint32, types.int64, types.int64),
)
_fill = foreign(types.void, types.int64, types.int64, types.int64)
_advance = foreign(types.void, types.int64, types.int64)
_next_event = foreign(types.int64, types.int64)
_outputs = foreign(types.int64, types.int64, types.int64, types.int64)
_outputs_clear = foreign(types.void, types.int64)


@njit(cache=True)
def _handling_ns(row, arrival_ns):
    """Time at which a host will have handled a frame: frames keep their order and wait for each
    other.

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
def _is_control(frame):
    """True for a frame of MAC control, which ends in a host's network card."""
    return peek(frame + 12) & 0xFFFF == 0x0888  # little-endian


@njit(cache=True)
def _collect(world, switch):
    """Put what a switch has given out into inboxes. False, with nothing done, if there is no
    room."""
    state = world.state[0]
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
        if length > world.frame.size:
            state.oversized += 1
            continue
        if state.controls == 1 and inbox < hosts and _is_control(start):
            continue
        if inbox < hosts:
            when = _handling_ns(world.hosts[inbox], when)
        frames.put(world, inbox, start, length, when)
    if count > 0:
        _outputs_clear(switch_row.outputs_clear, (switch_row.manager,))
    _expect(world, switch)
    return True


@njit(cache=True)
def _expect(world, switch):
    """Note when a switch's next event is."""
    switch_row = world.switches[switch]
    due = _next_event(switch_row.next_event, (switch_row.manager,))
    source = world.trunks.shape[0] + switch
    due = due if due >= 0 else event_queue.NEVER  # -1: TM_NEVER
    if world.fabric.time[source] != due:
        event_queue.put(world.fabric, source, due)


@njit(cache=True)
def _is_addressed_to(identity, frame):
    """True if the frame at an address is for the host with these addresses and this UDP port."""
    mac, ip_and_port = peek(identity), peek(identity + 8)
    ports = peek(frame + 36) & 0xFFFF
    return peek(frame) & 0xFFFFFFFFFFFF == mac and (
        peek(frame + 30) & 0xFFFFFFFF | ports << 32 == ip_and_port
    )


@njit(cache=True)
def _deliver(world, host, now):
    """Fill the batch of arrivals with the frames that a host handles by `now`; returns their
    number."""
    arrived, row = world.arrived, world.hosts[host]
    rows, words = arrived.packets.shape
    identity = world.identity.ctypes.data + host * 16
    count = 0
    while count < rows and world.first[host] >= 0:
        if frames.when_ns(world.frames, np.int64(world.first[host])) > now:
            break
        taken = frames.take(world, host)
        frame = frames.address(world.frames, taken) + frames.HEAD
        frames.prefetch_next(world, host)
        if row.raw == 1:
            length = peek(frame - frames.HEAD + frames.LENGTH)
            frames.read(
                world.frames, taken, arrived.packets.ctypes.data + count * 4 * words, 0, length
            )
            arrived.lengths[count] = length
            row.packets_received += 1
            row.bytes_received += length
            count += 1
            continue
        big_endian = peek(frame + LENGTH)
        length = ((big_endian & 0xFF) << 8 | big_endian >> 8 & 0xFF) - 8  # of its payload
        if length < 0 or not _is_addressed_to(identity, frame):
            row.discarded += 1
            continue
        if length > 4 * words and row.background == 0:
            row.discarded += 1
            continue
        target = arrived.packets.ctypes.data + count * 4 * words
        there = min(length, 4 * words)  # the rest is padding
        frames.read(world.frames, taken, target, FRAME_OVERHEAD, there)
        arrived.lengths[count] = length
        if row.background == 1:
            arrived.destinations[count] = np.int64(peek(frame + TOS) & 3 == 3)
        row.packets_received += 1
        row.bytes_received += FRAME_OVERHEAD + length
        count += 1
    return count


@njit(cache=True)
def _arrive(world, switch_row, port, start, length, now):
    """Give a switch a frame of `now`, which is an event of its own like all arrivals at that time:
    among them the traffic manager draws the order."""
    if _receive(switch_row.receive_ahead, (switch_row.manager, port, start, length, now)) < 0:
        if world.state[0].to_switch_ns > 0:
            world.state[0].too_late += 1
        else:  # it has come so far itself
            _receive(switch_row.receive, (switch_row.manager, port, start, length, now))


@njit(cache=True)
def _send(world, host, filled, now):
    """Send the first `filled` packets of the batch to the host's switch."""
    row, out, frame = world.hosts[host], world.out, world.frame
    switch_row = world.switches[row.switch]
    for i in range(filled):
        head, length = out.lengths[i] >> 32, out.lengths[i] & 0xFFFFFFFF
        if row.raw == 1:
            start = out.packets.ctypes.data + i * 4 * out.packets.shape[1]
            _arrive(world, switch_row, row.port, start, length, now)
            row.bytes_sent += length
            continue
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
        payload = out.packets.ctypes.data + i * 4 * out.packets.shape[1]
        there = frame.ctypes.data + FRAME_OVERHEAD
        length += FRAME_OVERHEAD
        if head > 0:
            copy(there, payload, head + SEED_BYTES)
            if switch_row.receive_seeded != 0 and world.state[0].to_switch_ns > 0:
                first, fill = FRAME_OVERHEAD + head, world.fill[0]
                status = _receive_seeded(
                    switch_row.receive_seeded,
                    (switch_row.manager, row.port, frame.ctypes.data, first, length, now, fill),
                )
                world.state[0].too_late += status < 0
                row.bytes_sent += length
                continue
            rest = length - FRAME_OVERHEAD - head
            _fill(world.fill[0], (there + head, payload + head, rest))
        else:
            most = 4 * out.packets.shape[1]  # a longer packet is filled with anything
            copy(there, payload, min(length - FRAME_OVERHEAD, most))
        _arrive(world, switch_row, row.port, frame.ctypes.data, length, now)
        row.bytes_sent += length
    row.packets_sent += filled


@njit(cache=True)
def _step_host(world, host, now):
    """Run a host's step at `now`, and set `due_ns` to its next one. Returns the number of packets
    sent, or less than 0: the reason why the loop must end."""
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
        world.state[0].failed_ns = now
        return -FAILED
    if filled > 0:
        _send(world, host, filled, now)
    if row.awaited == 1 and row.done == 0 and peek(row.status + FINISHED_OFFSET) == 1:
        row.done = 1
        world.state[0].open -= 1
        world.state[0].closed_ns = max(world.state[0].closed_ns, now)
        if world.state[0].report_finished == 1:
            world.state[0].finished_host = host
    row.deadline_ns = max(world.deadline[0], now)
    due = row.deadline_ns
    if world.first[host] >= 0:
        due = min(due, max(frames.when_ns(world.frames, np.int64(world.first[host])), now))
    row.due_ns = due
    if due > now or filled > 0 or count > 0:
        row.idle_steps = 0
        return filled
    row.idle_steps += 1
    if row.idle_steps > MOST_IDLE_STEPS:
        world.state[0].failed_host = host
        world.state[0].failed_ns = now
        return -STUCK
    return filled


@njit(cache=True)
def _cross_trunk(world, trunk, now):
    """A frame from another switch reaches this one; returns the switch."""
    switch, port = world.trunks[trunk]
    inbox = world.hosts.shape[0] + trunk
    switch_row = world.switches[switch]
    row = frames.address(world.frames, frames.take(world, inbox))
    frames.prefetch_next(world, inbox)
    length = peek(row + frames.LENGTH)
    left = np.int64(world.first[inbox])
    due = frames.when_ns(world.frames, left) if left >= 0 else event_queue.NEVER
    event_queue.put(world.fabric, trunk, due)
    world.state[0].too_late += now < switch_row.done_ns
    entry = switch_row.receive
    if world.fabric.time[event_queue.first(world.fabric)] == now:  # perhaps here
        entry = switch_row.receive_ahead
    if _receive(entry, (switch_row.manager, port, row + frames.HEAD, length, now)) < 0:
        _receive(switch_row.receive, (switch_row.manager, port, row + frames.HEAD, length, now))
    return switch


@njit(cache=True)
def _begin_pauses(world, now):
    """Let the hosts stand still whose pauses begin by `now`."""
    state = world.state[0]
    while state.pauses < world.pauses.shape[0] and world.pauses[state.pauses, 0] <= now:
        begun = world.pauses[state.pauses]
        world.hosts[begun[2]].resumed_ns = begun[1]
        state.pauses += 1


@njit(cache=True)
def _run_in_order(world, until_ns, last):
    """Handle one event after the other."""
    state, queue, fabric = world.state[0], world.queue, world.fabric
    trunks = world.trunks.shape[0]
    while True:
        if state.pending >= 0:
            if not _collect(world, state.pending):
                return NO_ROOM
            state.pending = -1
        if state.open == 0 and state.goes_on == 0:
            return FINISHED
        if state.finished_host >= 0:
            return HOST_FINISHED
        host, place = event_queue.first(queue), event_queue.first(fabric)
        at_host = queue.time[host] <= fabric.time[place]
        now = queue.time[host] if at_host else fabric.time[place]
        if now > until_ns:
            return NO_EVENTS if now >= event_queue.NEVER else TIME_REACHED
        if state.events >= last:
            return EVENTS_HANDLED
        state.events += 1
        state.now = now
        _begin_pauses(world, now)
        if at_host:
            row = world.hosts[host]
            if row.resumed_ns > now:
                event_queue.put(queue, host, row.resumed_ns)
                continue
            filled = _step_host(world, host, now)
            if filled < 0:
                return -filled
            event_queue.put(queue, host, row.due_ns)
            if filled > 0:
                state.pending = row.switch
        elif place < trunks:
            state.pending = _cross_trunk(world, place, now)
        else:
            switch_row = world.switches[place - trunks]
            _advance(switch_row.advance, (switch_row.manager, now))
            state.pending = place - trunks


@njit(cache=True)
def _run_hosts(world, stop_ns):
    """Let every host handle its events before `stop_ns`; returns 0, or why the loop must end."""
    state, queue = world.state[0], world.queue
    host = event_queue.first(queue)
    while queue.time[host] < stop_ns:
        now, row = queue.time[host], world.hosts[host]
        event_queue.put(queue, host, event_queue.NEVER)
        following = event_queue.first(queue)
        if queue.time[following] < stop_ns:
            _prefetch_host(world, following)
        sent = 0
        while now < stop_ns:
            state.events += 1
            state.now = max(state.now, now)
            if row.resumed_ns > now:
                now = row.resumed_ns
                continue
            filled = _step_host(world, host, now)
            if filled < 0:
                return -filled
            sent += filled
            now = row.due_ns
        event_queue.put(queue, host, now)
        if sent > 0:
            _expect(world, row.switch)
        host = event_queue.first(queue)
    return 0


@njit(cache=True)
def _prefetch_host(world, host):
    """Prefetch what a host reads first in its turn."""
    row = world.hosts[host]
    prefetch(row.machine, row.hot_bytes)
    frames.prefetch_first(world, host)


@njit(cache=True)
def _run_switches(world, stop_ns):
    """Let every switch handle its events before `stop_ns`. False if there is no room."""
    state, fabric = world.state[0], world.fabric
    trunks = world.trunks.shape[0]
    while True:
        place = event_queue.first(fabric)
        now = fabric.time[place]
        if now >= stop_ns:
            return True
        state.events += 1
        state.now = max(state.now, now)
        if place < trunks:
            state.pending = _cross_trunk(world, place, now)
        else:
            event_queue.put(fabric, place, event_queue.NEVER)
            others_ns = fabric.time[event_queue.first(fabric)]
            to_ns = min(stop_ns - 1, now + state.switch_slice_ns, others_ns - 1)
            switch_row = world.switches[place - trunks]
            switch_row.done_ns = max(now, to_ns)
            _advance(switch_row.advance, (switch_row.manager, switch_row.done_ns))
            state.pending = place - trunks
        if not _collect(world, state.pending):
            return False
        state.pending = -1


@njit(cache=True)
def _cell_end(state, closed_ns):
    """The last ns of a run whose last machine has finished at `closed_ns`."""
    after_ns = closed_ns + state.after_ns
    return after_ns - after_ns % state.grid_ns + state.grid_ns - 1


@njit(cache=True)
def _run_by_turns(world, until_ns, last):
    """Let hosts and switches take turns."""
    state, queue, fabric = world.state[0], world.queue, world.fabric
    while True:
        if state.pending >= 0:
            if not _collect(world, state.pending):
                return NO_ROOM
            state.pending = -1
        # A run ends at a multiple of the grid, wherever turns have begun and ended.
        last_ns = event_queue.NEVER
        if state.open == 0 and state.goes_on == 0:
            last_ns = _cell_end(state, state.closed_ns)
        end_ns = min(until_ns, last_ns)
        first_host_ns = queue.time[event_queue.first(queue)]
        first_fabric_ns = fabric.time[event_queue.first(fabric)]
        first_ns = min(first_host_ns, first_fabric_ns)
        if min(first_host_ns + state.lag_ns, first_fabric_ns) > end_ns:
            no_more = first_ns >= event_queue.NEVER
            if end_ns == last_ns or (no_more and last_ns < event_queue.NEVER):
                state.now = last_ns
                return FINISHED
            return NO_EVENTS if no_more else TIME_REACHED
        if state.events >= last:
            return EVENTS_HANDLED
        # Before `first_ns` nothing happens any more, so all is done up to there.
        hosts_ns, switches_ns = max(state.hosts_ns, first_ns), max(state.switches_ns, first_ns)
        limit_ns = min(end_ns, _cell_end(state, hosts_ns)) + 1
        stop_ns = min(hosts_ns + state.slice_ns, switches_ns + state.to_host_ns)
        stop_ns = min(stop_ns, limit_ns, end_ns + 1 - state.lag_ns)
        _begin_pauses(world, hosts_ns)
        if state.pauses < world.pauses.shape[0]:
            stop_ns = min(stop_ns, world.pauses[state.pauses, 0])
        if stop_ns > hosts_ns:
            reason = _run_hosts(world, stop_ns)
            if reason != 0:
                return reason
            hosts_ns = stop_ns
        state.hosts_ns = hosts_ns
        stop_ns = min(limit_ns, hosts_ns + state.to_switch_ns)
        if not _run_switches(world, stop_ns):
            return NO_ROOM
        state.switches_ns = max(switches_ns, stop_ns)


@njit(cache=True)
def _run(world, until_ns, events):
    last = world.state[0].events + events
    if world.state[0].to_switch_ns > 0:
        return _run_by_turns(world, until_ns, last)
    return _run_in_order(world, until_ns, last)


WORLD = PlacedTuple(typeof(new_world(1, 0, 1, 1, frames.FrameMemory(64))))


@njit(cache=True, nogil=True)
def _run_at(address, until_ns, events):
    return _run(at(address, WORLD), until_ns, events)


@njit(cache=True)
def _empty_at(address, inbox):
    world = at(address, WORLD)
    while world.first[inbox] >= 0:
        frames.take(world, inbox)


def empty(world: Placed, inbox: int) -> None:
    """Drop the frames on their way to an inbox of a placed World."""
    if INTERPRETED:
        while world.part.first[inbox] >= 0:
            frames.take(world.part, inbox)
    else:
        _empty_at(world.address, inbox)


def run(world: Placed, until_ns: int, events: int) -> int:
    """Handle events up to and including `until_ns`, at most `events` of them; returns why it
    ended. `world` is a placed World."""
    if INTERPRETED:
        reason = _run(world.part, until_ns, events)
        if reason == RAISED:
            raise raised.pop()
    else:
        reason = _run_at(world.address, until_ns, events)
    return reason


def stuck(world: Placed, host: str) -> RunError:
    """The error after STUCK; `host`: the name of its failed host."""
    return RunError(
        f"host {host} lets time stand still at {world.part.state[0].failed_ns} ns: its machine asks"
        " for that time again and again, and sends nothing"
    )
