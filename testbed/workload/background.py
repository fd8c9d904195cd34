"""The ends of background flows at one host, in virtual time.

A sender at a constant rate sends a packet every so many picoseconds, from a time of its own on and
each later by up to as much. Real sources are in step with no other ones; where sources are in step,
their phases alone decide whose packets find the last place in a queue.

A sender like TCP has a window that grows with every acknowledgement (slow start, then one packet
per round trip) and is halved when the queues have dropped a packet: additive increase,
multiplicative decrease, as in Jacobson, "Congestion Avoidance and Control" (SIGCOMM 1988). Each
packet has a number of its own, also if it replaces a lost one. The receiver acknowledges every
second packet, one that leaves a gap and the last one of a burst at once, and any other after a
while (RFC 1122, RFC 5681). An acknowledgement has the highest number so far and which of the 62
before it have arrived, so that a lost one does no harm. A packet is lost when a packet that was
sent three places later has been acknowledged; the window is halved at most once for the packets in
flight at one time. If nothing is acknowledged for a timeout, all packets in flight are lost, and
the window begins at one packet.

Its packets leave no faster than its host's link, at random distances: half to one and a half times
a packet's time on the link. Without that, the packets of some flows would come to a full queue just
after a place in it has become free, and those of others never (Floyd and Jacobson, "Traffic Phase
Effects in Packet-Switched Gateways", 1991).

A packet begins with six words: the place of its end in the receiver's table, what it is, its
number, and for an acknowledgement, as bits, which packets before it have arrived. The rest of its
payload is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from testbed.protocols.jit import njit
from testbed.protocols.records import new_status, record
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.values import mix2

PORT = 18767  # of UDP
NEVER = (1 << 62) - 1
MOST_OFF_PS = 1 << 30  # the latest that a packet leaves behind its exact time, about 1 ms
PHASE = 0x9A5E  # the number of the random number that is a sender's phase
UNIT = 1024  # of a window, to one packet
RING = 8192  # packets that a sender may have in flight
FIRST_WINDOW = 10
REORDERING = 3  # places by which a packet may be late before it counts as lost
TCP_HEADERS = 14 + 20 + 32  # of a segment with time stamps, as the kernel sends it
ACKNOWLEDGEMENT_BYTES = TCP_HEADERS - FRAME_OVERHEAD  # of payload here
LONGEST_BACKOFF = 6  # doublings of the timeout
LONGEST_ANSWER_NS = 40_000_000  # Linux's delay of an acknowledgement

BEFORE = 62  # packets that an acknowledgement names beside the last one
DATA = 0
ACKNOWLEDGEMENT = 1

IN_FLIGHT = 1
ARRIVED = 2

# An end of a flow. What only a sender like TCP has comes last.
END = record(
    "sending",  # 1: the sender
    "tcp",
    "remote",  # place of the other end in its host's table
    "destination",  # the other end's host, as a place in this host's list
    "length",  # of a packet's payload, bytes
    "interval_ps",  # from one packet to the next, of tcp on average and at least
    "stream",  # of random distances
    "jitter_ps",  # of a constant rate: packets leave up to so much later; 0: exactly
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


class Background(NamedTuple):
    """E ends at one host."""

    ends: np.ndarray  # END[E]
    sent_ns: np.ndarray  # int64[E, RING], of packets by their number modulo RING
    packets: np.ndarray  # int8[E, RING], 0: none, or lost; IN_FLIGHT, ARRIVED
    status: np.ndarray


def new_background(ends: Sequence[np.ndarray]) -> Background:
    """The machine of these ends, each of `new_end`. Rows that are not used take no memory."""
    return Background(
        ends=np.concatenate(ends),
        sent_ns=np.zeros((len(ends), RING), np.int64),
        packets=np.zeros((len(ends), RING), np.int8),
        status=new_status(),
    )


def take_phase(sender: np.ndarray, gap_ps: int) -> None:
    """Give a sender with a gap of `gap_ps` between its packets a phase and a jitter of its own."""
    gap_ps = min(gap_ps, MOST_OFF_PS)
    sender["due_ps"] += int(mix2(int(sender["stream"][0]), PHASE)) * gap_ps >> 32
    sender["jitter_ps"] = gap_ps


@njit(cache=True)
def later_ps(sender, number):
    """Delay of a packet after its exact time, ps."""
    return mix2(sender.stream, number) * sender.jitter_ps >> 32


@njit(cache=True)
def _silent_until(end, now):
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
def _put(out, row, end, kind, number, before, length):
    out.packets[row, 0] = end.remote
    out.packets[row, 1] = kind
    out.packets[row, 2] = number & 0xFFFFFFFF
    out.packets[row, 3] = number >> 32
    out.packets[row, 4] = before & 0xFFFFFFFF
    out.packets[row, 5] = before >> 32
    out.lengths[row] = length
    out.destinations[row] = end.destination


@njit(cache=True)
def _timeout_ns(end):
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
def owes(end, number):
    """True if packet `number`, which has arrived, is to be acknowledged at once."""
    end.owed += 1
    whole = end.burst > 0 and end.packets_received % end.burst == 0
    return end.owed >= 2 or number != end.furthest + 1 or whole


@njit(cache=True)
def _answer(end, now, out, filled):
    """Acknowledge what is due; returns the rows filled."""
    if end.answer_at_ns <= now and filled < out.lengths.size:
        kind, length = ACKNOWLEDGEMENT, ACKNOWLEDGEMENT_BYTES
        _put(out, filled, end, kind, end.furthest, end.before, length)
        end.owed, end.answer_at_ns = 0, NEVER
        filled += 1
    return filled


@njit(cache=True)
def receive(end, number):
    """Take note of a packet that has arrived, of which there may be copies."""
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
        sample = now - machine.sent_ns[place, number % RING]
        if end.smoothed_ns == 0:
            end.smoothed_ns = sample
            end.deviation_ns = sample // 2
        else:
            end.deviation_ns += (abs(sample - end.smoothed_ns) - end.deviation_ns) // 4
            end.smoothed_ns += (sample - end.smoothed_ns) // 8
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
    end.timeout_at_ns = now + _timeout_ns(end) if end.in_flight > 0 else NEVER
    if end.burst > 0:
        end.to_arrive -= arrived
        if end.to_arrive == 0:
            took = now - end.begun_ns
            end.bursts += 1
            end.bursts_ns += took
            end.longest_ns = max(end.longest_ns, took)


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
def _send_constantly(machine, place, now, out, filled):
    """Send what is due at a constant rate; returns (rows filled, next deadline)."""
    end = machine.ends[place]
    while filled < out.lengths.size:
        due_ns = -(-(end.due_ps + later_ps(end, end.number)) // 1000)
        allowed_ns = _silent_until(end, max(due_ns, end.start_ns))
        if allowed_ns > due_ns:
            if allowed_ns == NEVER:
                return filled, NEVER
            end.due_ps = 1000 * allowed_ns
            due_ns = allowed_ns
        if due_ns > now:
            return filled, due_ns
        _put(out, filled, end, DATA, end.number, 0, end.length)
        filled += 1
        end.number += 1
        end.packets_sent += 1
        end.due_ps += end.interval_ps
    return filled, now


@njit(cache=True)
def send_window(machine, place, now, out, filled):
    """Send what the window allows; returns (rows filled, next deadline)."""
    end, states = machine.ends[place], machine.packets[place]
    if end.timeout_at_ns <= now:
        _give_up(machine, place)
    allowed_ns = _silent_until(end, now)
    if allowed_ns > now:
        return filled, min(allowed_ns, end.timeout_at_ns)
    if end.burst > 0 and end.to_arrive == 0:
        if now < end.next_ns:
            return filled, min(end.next_ns, end.end_ns)
        end.begun_ns = now
        end.next_ns = now - (now - end.start_ns) % end.every_ns + end.every_ns
        end.to_send = end.to_arrive = end.burst
    while filled < out.lengths.size and (end.in_flight + 1) * UNIT <= end.window:
        if end.burst > 0 and end.to_send == 0 or end.number - end.oldest >= RING:
            break
        if end.due_ps > 1000 * now:
            return filled, min(-(-end.due_ps // 1000), end.timeout_at_ns)
        distance = end.interval_ps * (512 + mix2(end.stream, end.packets_sent) % 1024) // 1024
        end.due_ps = max(end.due_ps, 1000 * now - end.interval_ps) + distance
        _put(out, filled, end, DATA, end.number, 0, end.length)
        filled += 1
        states[end.number % RING] = IN_FLIGHT
        machine.sent_ns[place, end.number % RING] = now
        end.number += 1
        end.packets_sent += 1
        if end.burst > 0:
            end.to_send -= 1
        if end.in_flight == 0:
            end.timeout_at_ns = now + _timeout_ns(end)
        end.in_flight += 1
    more = filled == out.lengths.size  # it may have stopped for want of room
    return filled, now if more else end.timeout_at_ns


@njit(cache=True)
def step(machine, now, arrived, count, out):
    """Take `count` packets at `now`, fill `out`; see machine.step."""
    ends = machine.ends
    filled = 0
    for row in range(count):
        packet = arrived.packets[row]
        place = np.int64(packet[0])
        if place >= ends.size:
            continue
        end = ends[place]
        number = np.int64(packet[2]) | np.int64(packet[3]) << 32
        if packet[1] == ACKNOWLEDGEMENT:
            before = np.int64(packet[4]) | np.int64(packet[5]) << 32
            if end.sending == 1:
                acknowledged(machine, place, number, before, now)
        elif end.sending == 0:
            end.packets_received += 1
            if end.tcp == 1:
                at_once = owes(end, number)
                receive(end, number)
                end.answer_at_ns = now if at_once else now + end.answer_ns
                filled = _answer(end, now, out, filled)
    deadline = NEVER
    for place in range(ends.size):
        end = ends[place]
        if end.sending == 1:
            if end.tcp == 1:
                filled, due = send_window(machine, place, now, out, filled)
            else:
                filled, due = _send_constantly(machine, place, now, out, filled)
            deadline = min(deadline, due)
        elif end.tcp == 1:
            filled = _answer(end, now, out, filled)
            deadline = min(deadline, end.answer_at_ns)
    return filled, deadline
