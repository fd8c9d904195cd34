"""The worker of a system with a shared pool of aggregators and a parameter server.

It sends the fragments that its book names, paced at the link's rate and within a window, checks and
books every result, retransmits what stays unanswered, and answers what the server asks for. The
systems differ in the priority and the index that a fragment carries and in how they retransmit.

`receive` takes a batch of packets, `send` fills one; `deadline` says when to call again although
nothing has arrived. Times are int64 ns since the run's start, pacing is in ps, since at 100 Gbit/s
a rounded nanosecond per packet is 4 %.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import lag, wire
from testbed.protocols import positions as pos
from testbed.protocols import priority as prio
from testbed.protocols import status as st
from testbed.protocols import values as val
from testbed.protocols.index import POSITION, index_of

NEVER = (1 << 62) - 1
TO_SERVER = 0  # the only destination

# Places in Worker.c, the configuration
JOB = 0
NUMBER = 1  # of this worker in its job
WORKERS = 2
SEED = 3
BITMAP_WORDS = 4
SHIFT = 5  # of generated values
WINDOW = 6  # most fragments in flight
PACE_PS = 7  # time of one packet on the link; 0: unlimited
BURST_PS = 8  # how much lateness the pacing makes up for
TIMEOUT_NS = 9  # of retransmission; 0: adaptive
LEAST_TIMEOUT_NS = 10
MOST_TIMEOUT_NS = 11
INDEX_MODE = 12
POOL = 13
POLICY = 14
COMMUNICATION_NS = 15  # of one iteration, for the priority
COMPUTATION_NS = 16
ITERATIONS = 17
GAP = 18  # so many places behind the furthest result a fragment is sent again; 0: never
CONFIGURATION = 19

# Places in Worker.s, the state
FACTOR = 0  # this worker's c of the iteration
FACTOR_SUM = 1
NEXT_SEND_PS = 2
PACING = 3  # 1: a fragment is ready and waits for the pacing alone
ROUND_TRIP_NS = 4  # smoothed, with its variation: what the adaptive timeout follows
VARIATION_NS = 5
LONGEST_NS = 6  # the longest lately, which fades
CREDIT = 7  # the congestion window, in 1/256 fragments
SINCE_CUT = 8  # results since it was last halved
ASKS = 9  # entries in Worker.asks
MORE = 10  # 1: the batch was full, call again at once
BASE = 11  # with window positions: place of the first fragment without a result
FURTHEST = 12  # and of the last one with a result
NEXT_PLACE = 13  # that is sent for the first time
SEEN = 14  # FURTHEST when gaps were last looked for
STATE = 15

UNIT = 256  # of CREDIT


class Worker(NamedTuple):
    c: np.ndarray  # int64[CONFIGURATION]
    s: np.ndarray  # int64[STATE]
    priority: np.ndarray  # int64[T], of the tensors in this iteration
    asks: np.ndarray  # int64[*], fragments that the server wants again
    recorded: np.ndarray  # int32[I, F * V], this worker's gradients if the trace has values
    sums: np.ndarray  # int32[I, F * V], their sums over the workers
    positions: pos.Positions
    floats: fl.WorkerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see status.py
    lag: np.ndarray  # int64, see lag.py


@njit(cache=True)
def begin(w, b, iteration):
    """Start exchanging the gradients of an iteration."""
    c, s = w.c, w.s
    bk.begin(b, iteration)
    s[FACTOR] = val.factor(c[SEED], c[JOB], iteration, c[NUMBER])
    s[FACTOR_SUM] = val.factor_sum(c[SEED], c[JOB], iteration, c[WORKERS])
    s[ASKS] = 0
    s[BASE] = 0
    s[FURTHEST] = -1
    s[NEXT_PLACE] = 0
    s[SEEN] = -1
    for t in range(w.priority.size):
        w.priority[t] = prio.priority_of(
            c[POLICY], c[COMMUNICATION_NS], c[COMPUTATION_NS], c[ITERATIONS] - iteration, t
        )


@njit(cache=True)
def timeout_ns(w):
    """How long a fragment may stay unanswered before it is sent again.

    Adaptive: the smoothed round trip plus four variations, as TCP has it, and at least 1.5 times
    the longest of late. Round trips here are of two kinds, through the switch alone and through
    the server's queue, and their mean says little about the slower kind."""
    c, s = w.c, w.s
    if c[TIMEOUT_NS] > 0:
        return c[TIMEOUT_NS]
    if s[ROUND_TRIP_NS] == 0:
        return 4 * c[LEAST_TIMEOUT_NS]
    adaptive = s[ROUND_TRIP_NS] + 4 * s[VARIATION_NS]
    adaptive = max(adaptive, s[LONGEST_NS] + (s[LONGEST_NS] >> 1))
    return min(max(adaptive, c[LEAST_TIMEOUT_NS]), c[MOST_TIMEOUT_NS])


@njit(cache=True)
def measure_round_trip(s, sample_ns):
    s[LONGEST_NS] = max(sample_ns, s[LONGEST_NS] - (s[LONGEST_NS] >> 10))
    if s[ROUND_TRIP_NS] == 0:
        s[ROUND_TRIP_NS] = sample_ns
        s[VARIATION_NS] = sample_ns >> 1
        return
    difference = sample_ns - s[ROUND_TRIP_NS]
    s[ROUND_TRIP_NS] += difference >> 3
    s[VARIATION_NS] += (abs(difference) - s[VARIATION_NS]) >> 2


@njit(cache=True)
def _adapt_window(w, marked):
    """AIMD: halve once per window on an ECN echo, else one fragment more per window."""
    s = w.s
    s[SINCE_CUT] += 1
    if marked:
        w.counters[n.MARKED_RESULTS] += 1
        if s[SINCE_CUT] * UNIT >= s[CREDIT]:
            s[CREDIT] = max(s[CREDIT] >> 1, UNIT)
            s[SINCE_CUT] = 0
    elif s[CREDIT] < w.c[WINDOW] * UNIT:
        s[CREDIT] = min(s[CREDIT] + UNIT * UNIT // s[CREDIT] + 1, w.c[WINDOW] * UNIT)


@njit(cache=True)
def write_values(w, b, row, base, fragment):
    """This worker's values of a fragment of the current iteration; zeros fill the packet up."""
    c, s = w.c, w.s
    count = bk.values_in(b, fragment)
    if w.recorded.shape[0] > 0:
        i = b.s[bk.ITERATION] % w.recorded.shape[0]
        start = fragment * b.s[bk.VALUES]
        val.write_recorded(row, base, w.recorded[i, start : start + count])
    else:
        whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
        key = val.fragment_key(c[SEED], c[JOB], whole)
        val.write_generated(row, base, count, key, s[FACTOR], c[SHIFT])
    val.write_zeros(row, base + count, base + b.s[bk.VALUES])


@njit(cache=True)
def check_values(w, b, row, base, fragment):
    """True if the packet holds the sum over all workers; else the place is noted in the status."""
    c, s, status = w.c, w.s, w.status
    count = bk.values_in(b, fragment)
    whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    key = val.fragment_key(c[SEED], c[JOB], whole)
    i = 0
    start = fragment * b.s[bk.VALUES]
    if w.recorded.shape[0] > 0:
        i = b.s[bk.ITERATION] % w.recorded.shape[0]
        wrong = val.wrong_recorded(row, base, w.sums[i, start : start + count])
    else:
        wrong = val.wrong_generated(row, base, count, key, s[FACTOR_SUM], c[SHIFT])
    if wrong < 0:
        wrong = val.first_nonzero(row, base + count, base + b.s[bk.VALUES])
        if wrong >= 0:
            wrong += count
    if wrong < 0:
        w.counters[n.VALUES_CHECKED] += count
        return True
    status[st.FAILED] = 1
    status[st.ITERATION] = b.s[bk.ITERATION]
    status[st.FRAGMENT] = fragment
    status[st.POSITION] = wrong
    status[st.FOUND] = np.int64(np.int32(wire.swap(row[base + wrong])))
    if wrong >= count:
        status[st.EXPECTED] = 0
    elif w.recorded.shape[0] > 0:
        status[st.EXPECTED] = np.int64(w.sums[i, start + wrong])
    else:
        status[st.EXPECTED] = np.int64(
            np.int32(val.position_hash(key, wrong, c[SHIFT]) * np.int32(s[FACTOR_SUM]))
        )
    return False


@njit(cache=True)
def _check_floats(w, b, row, base, fragment):
    """The same for a result in floating-point numbers, which may differ within a bound."""
    status, f, iteration = w.status, w.floats, b.s[bk.ITERATION]
    if f.sums.shape[0] == 0:
        wrong = 0
    else:
        wrong = fl.first_wrong(f, row, base, iteration, fragment, b.s[bk.VALUES])
    if wrong < 0:
        w.counters[n.VALUES_CHECKED] += bk.values_in(b, fragment)
        return True
    status[st.FAILED] = 1
    status[st.ITERATION] = iteration
    status[st.FRAGMENT] = fragment
    status[st.POSITION] = wrong
    status[st.FOUND] = np.int64(np.int32(wire.swap(row[base + wrong])))
    if f.sums.shape[0] > 0:
        status[st.EXPECTED] = fl.expected_bits(f, iteration, fragment * b.s[bk.VALUES] + wrong)
    return False


@njit(cache=True)
def receive(w, b, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    c, s, k = w.c, w.s, w.counters
    base = wire.HEADER_WORDS + c[BITMAP_WORDS]
    full = 4 * (base + b.s[bk.VALUES])
    finished = False
    for i in range(count):
        row = packets[i]
        if lengths[i] < 4 * base or wire.version(row) != wire.VERSION or wire.job(row) != c[JOB]:
            k[n.FOREIGN] += 1
            continue
        kind = wire.kind(row)
        whole = wire.fragment(row)
        iteration = whole // b.s[bk.FRAGMENTS]
        fragment = whole - iteration * b.s[bk.FRAGMENTS]
        if kind == wire.ASK:
            if iteration != b.s[bk.ITERATION]:
                k[n.STALE] += 1
            elif b.status[fragment] & bk.RECEIVED == 0:
                if wire.flags(row) & wire.FLOAT:
                    b.status[fragment] |= bk.FLOAT
                if b.status[fragment] & bk.SENT == 0:
                    b.status[fragment] |= bk.ASKED
                elif s[ASKS] < w.asks.size:
                    w.asks[s[ASKS]] = fragment
                    s[ASKS] += 1
            continue
        if (kind != wire.RESULT and kind != wire.RESULT_ONE) or lengths[i] != full:
            k[n.FOREIGN] += 1
            continue
        if iteration < b.s[bk.ITERATION]:
            k[n.STALE] += 1
            continue
        if iteration > b.s[bk.ITERATION]:
            k[n.FOREIGN] += 1
            continue
        if b.status[fragment] & bk.RECEIVED:
            k[n.DUPLICATE_RESULTS] += 1
            continue
        flags = wire.flags(row)
        if flags & wire.FLOAT:
            if not _check_floats(w, b, row, base, fragment):
                return finished
            k[n.FLOAT_RESULTS] += 1
        elif not check_values(w, b, row, base, fragment):
            return finished
        k[n.RESULTS] += 1
        if flags & wire.OVERFLOW:
            k[n.SATURATED] += 1
        if b.status[fragment] & (bk.SENT | bk.RESENT) == bk.SENT and flags & wire.RESEND == 0:
            measure_round_trip(s, now - b.sent_ns[fragment])
        _adapt_window(w, flags & wire.ECN != 0)
        if bk.mark_received(b, fragment, now):
            finished = True
        if c[INDEX_MODE] == POSITION:
            w.positions.index[pos.position_of(w.positions, iteration, fragment)] = wire.extra(row)
            _slide(w, b, fragment)
    return finished


@njit(cache=True)
def _slide(w, b, fragment):
    """A result moves the window on: up to the first fragment that has none."""
    s, p = w.s, w.positions
    s[FURTHEST] = max(s[FURTHEST], p.place[fragment])
    while s[BASE] < p.order.size and b.status[p.order[s[BASE]]] & bk.RECEIVED:
        s[BASE] += 1


@njit(cache=True)
def _write_gradient(w, b, row, fragment, flags):
    c = w.c
    tensor = b.tensor[fragment]
    whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    priority = w.priority[tensor]
    if c[POLICY] == prio.RANDOM:
        priority = prio.random_priority(c[JOB], whole)
    if c[INDEX_MODE] == POSITION:
        p = w.positions
        index = p.index[pos.position_of(p, b.s[bk.ITERATION], fragment)]
        place = np.int64(p.place[fragment])
        p.gap_place[place % c[WINDOW]] = max(place, w.s[NEXT_PLACE] - 1) + c[GAP]
    else:
        index = index_of(c[INDEX_MODE], c[POOL], c[JOB], whole)
    as_floats = fl.wanted(w.floats, b.s[bk.ITERATION], fragment, b.status[fragment])
    if as_floats:
        flags |= wire.FLOAT
    wire.write_header(row, wire.GRADIENT, priority, flags, c[JOB], 0, whole, index, c[NUMBER])
    wire.set_worker(row, c[BITMAP_WORDS], c[NUMBER])
    base = wire.HEADER_WORDS + c[BITMAP_WORDS]
    if as_floats:
        fl.write_own(w.floats, row, base, b.s[bk.ITERATION], fragment, b.s[bk.VALUES])
    else:
        write_values(w, b, row, base, fragment)
    w.counters[n.GRADIENT_PACKETS] += 1


@njit(cache=True)
def take_pace(s, c, now):
    """Book one packet's time on the link."""
    earliest = now * 1000 - c[BURST_PS]
    s[NEXT_SEND_PS] = max(s[NEXT_SEND_PS], earliest) + c[PACE_PS]


@njit(cache=True)
def _fill_gaps(w, b, now, packets, m):
    """Send again what has no result while results of fragments sent later are here: once per gap.

    A fragment that has been sent again is missing anew when results are here of fragments that were
    sent for the first time after that."""
    c, s, k, p = w.c, w.s, w.counters, w.positions
    for place in range(s[BASE], s[FURTHEST] - c[GAP] + 1):
        fragment = p.order[place]
        if b.status[fragment] & bk.RECEIVED or p.gap_place[place % c[WINDOW]] > s[FURTHEST]:
            continue
        if m == packets.shape[0]:
            return m
        b.status[fragment] |= bk.RESENT
        _write_gradient(w, b, packets[m], fragment, wire.RESEND)
        take_pace(s, c, now)
        k[n.RETRANSMISSIONS] += 1
        k[n.GAP_RESENDS] += 1
        m += 1
    s[SEEN] = s[FURTHEST]
    return m


@njit(cache=True)
def send(w, b, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    c, s, k = w.c, w.s, w.counters
    capacity = packets.shape[0]
    m = 0
    while s[ASKS] > 0 and m < capacity:
        s[ASKS] -= 1
        fragment = w.asks[s[ASKS]]
        if b.status[fragment] & bk.RECEIVED == 0:
            b.status[fragment] |= bk.RESENT
            _write_gradient(w, b, packets[m], fragment, wire.RESEND)
            take_pace(s, c, now)
            k[n.RETRANSMISSIONS] += 1
            k[n.ANSWERED_ASKS] += 1
            m += 1
    if c[GAP] > 0 and s[FURTHEST] > s[SEEN]:
        m = _fill_gaps(w, b, now, packets, m)
    while m < capacity:
        due = bk.next_resend_ns(b)
        if due < 0 or due > now:
            break
        fragment = bk.resend(b, now, timeout_ns(w))
        _write_gradient(w, b, packets[m], fragment, wire.RESEND)
        take_pace(s, c, now)
        k[n.RETRANSMISSIONS] += 1
        m += 1
    timeout = timeout_ns(w)
    window = s[CREDIT] // UNIT
    waited = s[PACING] == 1
    s[PACING] = 0
    while m < capacity:
        fragment = bk.next_fragment(b, window)
        if fragment < 0:
            break
        if c[INDEX_MODE] == POSITION and w.positions.place[fragment] >= s[BASE] + c[WINDOW]:
            break  # its position's last fragment has no result yet
        if s[NEXT_SEND_PS] > now * 1000:
            s[PACING] = 1
            break
        if waited:
            lag.record(w.lag, now - s[NEXT_SEND_PS] // 1000)
            waited = False
        take_pace(s, c, now)
        flags = wire.RESEND if b.status[fragment] & bk.ASKED else 0
        _write_gradient(w, b, packets[m], fragment, flags)
        bk.mark_sent(b, fragment, now, timeout)
        if c[INDEX_MODE] == POSITION:
            s[NEXT_PLACE] = w.positions.place[fragment] + 1
        m += 1
    s[MORE] = 1 if m == capacity else 0
    for i in range(m):
        destinations[i] = TO_SERVER
        lengths[i] = 4 * packets.shape[1]
    return m


@njit(cache=True)
def deadline(w, b):
    """When to call `send` again although nothing has arrived; ns, NEVER if not at all."""
    s = w.s
    if s[MORE] == 1:
        return 0
    due = bk.next_resend_ns(b)
    if due < 0:
        due = NEVER
    if s[PACING] == 1:
        due = min(due, (s[NEXT_SEND_PS] + 999) // 1000)
    return due
