"""Reliable connections as RDMA's: the ends of their flows at one host, without a clock. The form of
their packets is the business of generator.py, which calls this.

Packets have numbers, the same again when they are sent again. What is lost is repaired in one of
two ways. *Go-back-N* is InfiniBand's reliable connection: the receiver drops what is behind a gap
and says once which packet it misses, and the sender sends all from there on again. *Selective
repeat* is Mittal et al., "Revisiting Network Support for RDMA" (SIGCOMM 2018): the receiver keeps
it, and the sender repeats those that are three places behind one that has arrived. A lost
repetition is found by a timeout, at which go-back-N sends all from the oldest on again, selective
repeat all that is in flight.

An acknowledgement says before which number all packets have arrived, which one has arrived last,
and when that was sent. The receiver sends one for so many packets, for a gap at once, for others
after a while. It tells of congestion marks by notifications (CNP), at most one in an interval.

When a packet may leave is the business of the flow's congestion control (controls.py): no faster
than its rate, at random distances as in tcp_model.py, with no more packets in flight than its
window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from p4fabric.simulate import controls
from p4fabric.simulate.congestion import GAP, RATE, TIMEOUT, UNIT, WINDOW, WORDS
from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import record
from p4fabric.simulate.tcp_model import (
    LONGEST_BACKOFF,
    NEVER,
    REORDERING,
    RING,
    end_burst,
    measure_trip,
    silent_until,
    timeout_ns,
)

GO_BACK_N, SELECTIVE = 0, 1  # places in base/transports.py's RECOVERIES
NONE = -1

# States of a packet, of a sender; a receiver knows ARRIVED alone
IN_FLIGHT, ARRIVED, LOST, REPEATED = 1, 2, 3, 4

# An end of a flow. A burst's packets are those before `limit`, which all have arrived at its end.
END = record(
    "flow",  # its number, for packets
    "template",  # see generator.py: of data, or of acknowledgements
    "sending",  # 1: the sender
    "length",  # of a packet, bytes
    "recovery",
    "stream",  # of random distances
    "start_ns",
    "end_ns",
    "on_ns",  # 0: always
    "off_ns",
    "next_ns",  # of the next burst
    "burst",  # packets; 0: without end
    "every_ns",
    "begun_ns",
    "bursts",
    "bursts_ns",  # sum of their times
    "longest_ns",
    # the sender
    "limit",  # packets before this one are there to be sent
    "oldest",  # all before it have arrived
    "number",  # of the next packet that is in turn
    "furthest",  # the last one that has arrived
    "past",  # all before it have been sent, at some time
    "scanned",  # gaps before this number have been looked for
    "in_flight",
    "lost",  # to be sent again, with selective repeat,
    "lost_from",  # none of them before this number
    "due_ps",
    "smoothed_ns",  # round-trip time; 0: not known
    "deviation_ns",
    "least_timeout_ns",
    "doublings",
    "timeout_at_ns",
    "timed_out",  # packets before this number are sent again for a timeout
    "packets_sent",
    "resent_gap",  # of them, for a gap that the receiver has told of
    "resent_timeout",
    "told",  # notifications that have come
    # the receiver
    "expected",  # all before it have arrived
    "ack_every",
    "answer_ns",  # how long a packet may wait for its acknowledgement
    "answer_at_ns",
    "owed",  # packets since the last acknowledgement
    "latest",  # the last packet,
    "echo_ns",  # and when it was sent
    "asks",  # 1: the packet `expected` is to be asked for, 2: it has been
    "cnp_ns",  # least time between notifications; -1: there are none
    "cnp_at_ns",  # of the next one, at the earliest
    "notifies",  # 1: one is to be sent
    "notified",
    "dropped",  # packets behind a gap
)


class RcEnds(NamedTuple):
    """E ends at one host."""

    ends: np.ndarray  # END[E]
    controls: np.ndarray  # int64[E, WORDS], see congestion.py
    states: np.ndarray  # int8[E, RING], by number modulo RING


def new_ends(rows: Sequence[np.ndarray], words: Sequence[np.ndarray]) -> RcEnds:
    """Of tables of one END each, and their controls' words."""
    return RcEnds(
        ends=np.concatenate([np.zeros(0, END), *rows]),
        controls=np.array(words, np.int64).reshape(len(rows), WORDS),
        states=np.zeros((len(rows), RING), np.int8),
    )


# -- the receiver


@njit(cache=True)
def receive(ends, place, number, sent_ns, marked, now):
    """Take a packet, of which there may be copies, and set when it is to be acknowledged."""
    end, states = ends.ends[place], ends.states[place]
    if marked == 1 and end.cnp_ns >= 0 and now >= end.cnp_at_ns:
        end.notifies = 1
        end.cnp_at_ns = now + end.cnp_ns
    in_turn = number == end.expected
    if in_turn:
        end.expected += 1
        end.asks = 0
        while states[end.expected % RING] == ARRIVED:
            states[end.expected % RING] = 0
            end.expected += 1
    elif number > end.expected and end.recovery == GO_BACK_N:
        end.dropped += 1
        if end.asks != 0:
            return
        end.asks = 1
    elif number > end.expected:
        if number - end.expected >= RING:
            end.dropped += 1
            return
        states[number % RING] = ARRIVED
    end.owed += 1
    end.latest, end.echo_ns = number, sent_ns
    whole = end.burst > 0 and end.expected % end.burst == 0
    at_once = end.owed >= end.ack_every or not in_turn or whole
    end.answer_at_ns = now if at_once else min(end.answer_at_ns, now + end.answer_ns)


@njit(cache=True)
def answered(end):
    """An acknowledgement leaves; returns (packet before which all have arrived, further word)."""
    word = (end.latest & 0xFFFFFFFF) | (np.int64(end.asks == 1) << 32)
    if end.asks == 1:
        end.asks = 2
    end.owed, end.answer_at_ns = 0, NEVER
    return end.expected, word


# -- the sender


@njit(cache=True)
def notified(ends, place, now):
    """A notification has come."""
    control = ends.controls[place]
    ends.ends[place].told += 1
    controls.catch_up(control, now)
    controls.on_mark(control, now)


@njit(cache=True)
def _take(end, states, number):
    """A packet has arrived; returns 1 if that is new."""
    state = states[number % RING]
    if state == ARRIVED:
        return 0
    if state == LOST:
        end.lost -= 1
    else:
        end.in_flight -= 1
    states[number % RING] = ARRIVED
    return 1


@njit(cache=True)
def acknowledged(ends, place, expected, word, echo_ns, now):
    """All packets before `expected` have arrived, and the one that `word` names."""
    end, states, control = ends.ends[place], ends.states[place], ends.controls[place]
    latest, asks = word & 0xFFFFFFFF, word >> 32 & 1
    if expected > end.past or latest >= end.past:
        return
    controls.catch_up(control, now)
    trip_ns = now - echo_ns
    measure_trip(end, trip_ns)
    arrived, lost = 0, False
    while end.oldest < expected:
        if end.recovery == SELECTIVE:
            arrived += _take(end, states, end.oldest)
        else:
            arrived += 1
        end.oldest += 1
    if end.recovery == GO_BACK_N:
        end.number = max(end.number, end.oldest)
        if asks == 1 and end.oldest == expected < end.number:
            end.number, lost = expected, True
        end.in_flight = end.number - end.oldest
    else:
        if latest > end.oldest:
            arrived += _take(end, states, latest)
        end.furthest = max(end.furthest, latest)
        end.scanned = max(end.scanned, end.oldest)
        while end.scanned + REORDERING <= end.furthest:
            if states[end.scanned % RING] == IN_FLIGHT:
                _lose(end, states, end.scanned)
                lost = True
            end.scanned += 1
    if arrived > 0:
        end.doublings = 0
        end.timeout_at_ns = now + timeout_ns(end) if end.oldest < end.past else NEVER
        if end.burst > 0 and end.oldest == end.limit:
            end_burst(end, now)
    controls.on_ack(control, now, arrived, trip_ns)
    if lost:
        controls.on_timer(control, now, GAP)


@njit(cache=True)
def _lose(end, states, number):
    """A packet in flight is to be sent again."""
    states[number % RING] = LOST
    end.in_flight -= 1
    end.lost_from = min(end.lost_from, number) if end.lost > 0 else number
    end.lost += 1


@njit(cache=True)
def _give_up(ends, place, now):
    """Nothing has been acknowledged for a timeout."""
    end, states = ends.ends[place], ends.states[place]
    if end.recovery == GO_BACK_N:
        end.number = end.oldest
        end.in_flight = 0
    else:
        for number in range(end.oldest, end.number):
            if states[number % RING] == IN_FLIGHT or states[number % RING] == REPEATED:
                _lose(end, states, number)
    end.timed_out = end.past
    end.doublings = min(end.doublings + 1, LONGEST_BACKOFF)
    end.timeout_at_ns = NEVER
    controls.on_timer(ends.controls[place], now, TIMEOUT)


@njit(cache=True)
def _begin_burst(end, now):
    """The time at which there is a packet to send: `now`, or that of the next burst."""
    if end.oldest < end.limit:
        return now
    if now < end.next_ns:
        return min(end.next_ns, end.end_ns)
    end.begun_ns = now
    end.next_ns = now - (now - end.start_ns) % end.every_ns + end.every_ns
    end.limit += end.burst
    return now


@njit(cache=True)
def next_packet(ends, place, now):
    """The number of the packet that leaves now, NONE: none does; and the next deadline."""
    end, states, control = ends.ends[place], ends.states[place], ends.controls[place]
    if end.timeout_at_ns <= now:
        _give_up(ends, place, now)
    allowed_ns = silent_until(end, now)
    if allowed_ns <= now:
        allowed_ns = _begin_burst(end, now)
    if allowed_ns > now:
        return np.int64(NONE), min(allowed_ns, end.timeout_at_ns)
    number = end.number
    if end.lost > 0:
        end.lost_from = max(end.lost_from, end.oldest)
        while states[end.lost_from % RING] != LOST:
            end.lost_from += 1
        number = end.lost_from
    elif number == end.limit or number - end.oldest >= RING:
        return np.int64(NONE), end.timeout_at_ns
    if (end.in_flight + 1) * UNIT > max(control[WINDOW], UNIT):
        return np.int64(NONE), end.timeout_at_ns
    if end.due_ps > 1000 * now:
        return np.int64(NONE), min(-(-end.due_ps // 1000), end.timeout_at_ns)
    controls.catch_up(control, now)
    controls.on_send(control, now, end.length)
    gap_ps = 8 * 10**12 * end.length // control[RATE]
    gap_ps = gap_ps * (512 + mix2(end.stream, end.packets_sent) % 1024) // 1024
    end.due_ps = max(end.due_ps, 1000 * now - gap_ps) + gap_ps
    if number < end.past:
        if number < end.timed_out:
            end.resent_timeout += 1
        else:
            end.resent_gap += 1
    states[number % RING] = IN_FLIGHT if number == end.past else REPEATED
    if end.lost > 0:
        end.lost -= 1
        end.lost_from = number + 1
    else:
        end.number += 1
    end.past = max(end.past, end.number)
    end.in_flight += 1
    end.packets_sent += 1
    if end.timeout_at_ns == NEVER:
        end.timeout_at_ns = now + timeout_ns(end)
    return number, now
