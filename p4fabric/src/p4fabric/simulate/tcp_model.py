"""The model of TCP: the ends of its flows at one host, in virtual time. The form of its packets is
the business of generator.py, which calls it.

A sender has a window that grows with every acknowledgement (slow start, then one packet per round
trip) and is halved when the queues have dropped a packet: additive increase, multiplicative
decrease, as in Jacobson, "Congestion Avoidance and Control" (SIGCOMM 1988). Each packet has a
number of its own, also if it replaces a lost one. The receiver acknowledges every second packet,
one that leaves a gap and the last one of a burst at once, and any other after a while (RFC 1122,
RFC 5681), which may be none. An acknowledgement has the highest number so far and which of the 62
before it have arrived, so that a lost one does no harm. A packet is lost when a packet that was
sent three places later has been acknowledged; the window is halved at most once for the packets in
flight at one time. If nothing is acknowledged for a timeout, all packets in flight are lost, and
the window begins at one packet.

Its packets leave no faster than its host's link, at random distances: half to one and a half times
a packet's time on the link. Without that, the packets of some flows would come to a full queue just
after a place in it has become free, and those of others never (Floyd and Jacobson, "Traffic Phase
Effects in Packet-Switched Gateways", 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import record

NEVER = (1 << 62) - 1
UNIT = 1024  # of a window, to one packet
RING = 8192  # packets that a sender may have in flight
FIRST_WINDOW = 10
REORDERING = 3  # places by which a packet may be late before it counts as lost
HEADERS = 14 + 20 + 32  # of a segment with time stamps, as the kernel sends it
LONGEST_BACKOFF = 6  # doublings of the timeout
LONGEST_ANSWER_NS = 40_000_000  # Linux's delay of an acknowledgement
BEFORE = 62  # packets that an acknowledgement names beside the last one

IN_FLIGHT = 1
ARRIVED = 2

# An end of a flow
END = record(
    "flow",  # its number, for packets
    "template",  # see generator.py: of data, or of acknowledgements
    "sending",  # 1: the sender
    "length",  # of a packet, bytes
    "interval_ps",  # from one packet to the next, on average and at least
    "stream",  # of random distances
    "start_ns",
    "end_ns",
    "on_ns",  # 0: always
    "off_ns",
    "due_ps",  # the next packet
    "number",  # of the next packet
    "packets_sent",
    "packets_received",
    "lost",
    "furthest",  # the last packet that has arrived, of a sender: as far as it knows
    "before",  # of a receiver, as bits: which packets before that one have arrived
    "owed",  # of a receiver: packets since its last acknowledgement
    "answer_ns",  # how long one packet may wait for its acknowledgement
    "answer_at_ns",
    "window",  # in 1/UNIT
    "threshold",  # end of slow start, in 1/UNIT
    "in_flight",
    "oldest",  # the first packet that is neither acknowledged nor lost
    "recovery",  # losses of packets before this one have been answered
    "smoothed_ns",  # round-trip time; 0: not known
    "deviation_ns",
    "least_timeout_ns",
    "doublings",
    "timeout_at_ns",
    "burst",  # packets; 0: without end
    "every_ns",
    "to_send",  # packets of the burst
    "to_arrive",
    "begun_ns",  # of the burst
    "next_ns",
    "bursts",
    "bursts_ns",  # sum of their times
    "longest_ns",
)


class TcpEnds(NamedTuple):
    """E ends at one host."""

    ends: np.ndarray  # END[E]
    sent_ns: np.ndarray  # int64[E, RING], of packets by their number modulo RING
    packets: np.ndarray  # int8[E, RING], 0: none, or lost; IN_FLIGHT, ARRIVED


def new_ends(rows: Sequence[np.ndarray]) -> TcpEnds:
    """Of tables of one END each. Rows that are not used take no memory."""
    return TcpEnds(
        ends=np.concatenate([np.zeros(0, END), *rows]),
        sent_ns=np.zeros((len(rows), RING), np.int64),
        packets=np.zeros((len(rows), RING), np.int8),
    )


@njit(cache=True)
def silent_until(end, now):
    """Time at which the end may send: `now`, or the next time at which it is on."""
    if now < end.start_ns:
        return end.start_ns
    if now >= end.end_ns:
        return NEVER
    if end.on_ns > 0:
        period = end.on_ns + end.off_ns
        within = (now - end.start_ns) % period
        if within >= end.on_ns:
            following = now - within + period
            return following if following < end.end_ns else NEVER
    return now


@njit(cache=True)
def measure_trip(end, trip_ns):
    """Take note of a round trip."""
    if end.smoothed_ns == 0:
        end.smoothed_ns = trip_ns
        end.deviation_ns = trip_ns // 2
    else:
        end.deviation_ns += (abs(trip_ns - end.smoothed_ns) - end.deviation_ns) // 4
        end.smoothed_ns += (trip_ns - end.smoothed_ns) // 8


@njit(cache=True)
def end_burst(end, now):
    """All packets of a burst have arrived."""
    took = now - end.begun_ns
    end.bursts += 1
    end.bursts_ns += took
    end.longest_ns = max(end.longest_ns, took)


@njit(cache=True)
def timeout_ns(end):
    """Time after which what is in flight counts as lost."""
    usual = end.smoothed_ns + 4 * end.deviation_ns
    return max(usual, end.least_timeout_ns) << end.doublings


@njit(cache=True)
def _lose(end, states, number):
    """A packet in flight is lost, and will be replaced."""
    states[number % RING] = 0
    end.in_flight -= 1
    end.lost += 1
    if end.burst > 0:
        end.to_send += 1


@njit(cache=True)
def receive(end, number, now):
    """Take note of a packet that has arrived, of which there may be copies, and set when it is to
    be acknowledged."""
    end.packets_received += 1
    end.owed += 1
    whole = end.burst > 0 and end.packets_received % end.burst == 0
    at_once = end.owed >= 2 or number != end.furthest + 1 or whole
    end.answer_at_ns = now if at_once else now + end.answer_ns
    ahead = number - end.furthest
    if ahead > 0:
        end.before = (end.before << 1 | 1) << (ahead - 1) if ahead <= BEFORE else 0
        end.before &= (1 << BEFORE) - 1
        end.furthest = number
    elif 0 < -ahead <= BEFORE:
        end.before |= 1 << (-ahead - 1)


@njit(cache=True)
def acknowledged(machine, place, number, before, now):
    """Packet `number` has arrived, and of those before it the ones whose bits are set."""
    end, states = machine.ends[place], machine.packets[place]
    if number >= end.number:
        return
    arrived = 0
    if number > end.furthest:
        end.furthest = number
        measure_trip(end, now - machine.sent_ns[place, number % RING])
    for each in range(max(end.oldest, number - BEFORE), number + 1):
        named = each == number or before >> (number - each - 1) & 1 == 1
        if named and states[each % RING] == IN_FLIGHT:  # else it counted as lost before
            states[each % RING] = ARRIVED
            arrived += 1
            if end.window < end.threshold:
                end.window += UNIT
            else:
                end.window += UNIT * UNIT // end.window
    if arrived == 0:
        return
    end.in_flight -= arrived
    end.doublings = 0
    end.window = min(end.window, (RING - 1) * UNIT)
    halved = False
    while end.oldest < end.number:
        state = states[end.oldest % RING]
        if state == IN_FLIGHT:
            if end.oldest + REORDERING > end.furthest:
                break
            halved = halved or end.oldest >= end.recovery
            _lose(end, states, end.oldest)
        end.oldest += 1
    if halved:
        end.recovery = end.number
        end.threshold = max(end.window // 2, 2 * UNIT)
        end.window = end.threshold
    end.timeout_at_ns = now + timeout_ns(end) if end.in_flight > 0 else NEVER
    if end.burst > 0:
        end.to_arrive -= arrived
        if end.to_arrive == 0:
            end_burst(end, now)


@njit(cache=True)
def _give_up(machine, place):
    """Nothing has been acknowledged for a timeout."""
    end, states = machine.ends[place], machine.packets[place]
    for number in range(end.oldest, end.number):
        if states[number % RING] == IN_FLIGHT:
            _lose(end, states, number)
    end.oldest = end.number
    end.recovery = end.number
    end.threshold = max(end.window // 2, 2 * UNIT)
    end.window = UNIT
    end.doublings = min(end.doublings + 1, LONGEST_BACKOFF)
    end.timeout_at_ns = NEVER


@njit(cache=True)
def send_window(machine, place, now, room):
    """Send what the window allows, at most `room` packets, whose numbers follow on one another;
    returns (packets, next deadline)."""
    end, states = machine.ends[place], machine.packets[place]
    filled = 0
    if end.timeout_at_ns <= now:
        _give_up(machine, place)
    allowed_ns = silent_until(end, now)
    if allowed_ns > now:
        return filled, min(allowed_ns, end.timeout_at_ns)
    if end.burst > 0 and end.to_arrive == 0:
        if now < end.next_ns:
            return filled, min(end.next_ns, end.end_ns)
        end.begun_ns = now
        end.next_ns = now - (now - end.start_ns) % end.every_ns + end.every_ns
        end.to_send = end.to_arrive = end.burst
    while filled < room and (end.in_flight + 1) * UNIT <= end.window:
        if end.burst > 0 and end.to_send == 0 or end.number - end.oldest >= RING:
            break
        if end.due_ps > 1000 * now:
            return filled, min(-(-end.due_ps // 1000), end.timeout_at_ns)
        distance = end.interval_ps * (512 + mix2(end.stream, end.packets_sent) % 1024) // 1024
        end.due_ps = max(end.due_ps, 1000 * now - end.interval_ps) + distance
        filled += 1
        states[end.number % RING] = IN_FLIGHT
        machine.sent_ns[place, end.number % RING] = now
        end.number += 1
        end.packets_sent += 1
        if end.burst > 0:
            end.to_send -= 1
        if end.in_flight == 0:
            end.timeout_at_ns = now + timeout_ns(end)
        end.in_flight += 1
    more = filled == room  # it may have stopped for want of room
    return filled, now if more else end.timeout_at_ns
