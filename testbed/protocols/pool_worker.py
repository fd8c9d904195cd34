"""The worker of a system with a shared pool of aggregators and a parameter server.

It sends the fragments that its book names, paced at the link's rate and within a window, checks and
books every result, retransmits what stays unanswered, and answers what the server asks for. The
systems differ in the priority and the index that a fragment carries and in how they retransmit.

`receive` takes a batch of packets, `send` fills one; `deadline` says when to call again although
nothing has arrived. Times are int64 ns since the run's start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import flow, lag, payload, wire
from testbed.protocols import positions as pos
from testbed.protocols import priority as prio
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import stripes as sp
from testbed.protocols import values as val
from testbed.protocols import worker as wk
from testbed.protocols.index import POSITION, index_of

TO_SERVER = 0  # the only destination
ANEW = 1 << 40  # added to a fragment in Worker.asks


class Worker(NamedTuple):
    c: np.ndarray  # int64[worker.CONFIGURATION]
    s: np.ndarray  # int64[worker.STATE]
    priority: np.ndarray  # int64[T], of the tensors in this iteration
    asks: np.ndarray  # int64[*], what to send again: f, the server wants it; ~f, it is missing;
    #                   f + ANEW, a switch has dropped it and may take it next time
    recorded: np.ndarray  # int32[I, F * V], this worker's gradients if the trace has values
    sums: np.ndarray  # int32[I, F * V], their sums over the workers
    positions: pos.Positions
    stripes: sp.Stripes
    floats: fl.WorkerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see status.py
    lag: np.ndarray  # int64, see lag.py


@njit(cache=True)
def begin(w, b, iteration):
    """Start exchanging the gradients of an iteration."""
    c, s = w.c, w.s
    bk.begin(b, iteration)
    flow.begin(s)
    s[wk.FACTOR] = val.factor(c[wk.SEED], c[wk.JOB], iteration, c[wk.NUMBER])
    s[wk.FACTOR_SUM] = val.factor_sum(c[wk.SEED], c[wk.JOB], iteration, c[wk.WORKERS])
    s[wk.ASKS] = 0
    s[wk.BASE] = 0
    s[wk.FURTHEST] = -1
    s[wk.NEXT_PLACE] = 0
    s[wk.SEEN] = -1
    communication, computation = c[wk.COMMUNICATION_NS], c[wk.COMPUTATION_NS]
    remaining = c[wk.ITERATIONS] - iteration
    for t in range(w.priority.size):
        w.priority[t] = prio.priority_of(c[wk.POLICY], communication, computation, remaining, t)


@njit(cache=True)
def receive(w, b, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    c, s, k = w.c, w.s, w.counters
    base = wire.HEADER_WORDS + c[wk.BITMAP_WORDS]
    full = 4 * (base + b.s[bk.VALUES])
    finished = False
    for i in range(count):
        row = packets[i]
        if lengths[i] < 4 * base or wire.version(row) != wire.VERSION or wire.job(row) != c[wk.JOB]:
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
                elif s[wk.ASKS] < w.asks.size:
                    w.asks[s[wk.ASKS]] = fragment
                    s[wk.ASKS] += 1
            continue
        if kind == wire.COLLIDED:
            _take_back(w, b, now, iteration, fragment)
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
        if kind == wire.RESULT and c[wk.INDEX_MODE] != POSITION:
            _miss_previous(w, b, now, wire.extra(row) - 1)
        if b.status[fragment] & bk.RECEIVED:
            k[n.DUPLICATE_RESULTS] += 1
            continue
        flags = wire.flags(row)
        if flags & wire.FLOAT:
            if not payload.check_floats(w, b, row, base, fragment):
                return finished
            k[n.FLOAT_RESULTS] += 1
        elif not payload.check_values(w, b, row, base, fragment):
            return finished
        k[n.RESULTS] += 1
        if flags & wire.OVERFLOW:
            k[n.SATURATED] += 1
        once = b.status[fragment] & (bk.SENT | bk.RESENT) == bk.SENT
        if flags & wire.RESEND:
            s[wk.RECOVERED_NS] = now
        elif once and bk.sent_ns(b, fragment) > s[wk.RECOVERED_NS]:
            flow.measure_round_trip(s, now - bk.sent_ns(b, fragment))
        flow.adapt_window(w, flags & wire.ECN != 0, bk.sent_ns(b, fragment), now)
        if bk.mark_received(b, fragment, now):
            finished = True
        elif once:
            _miss_earlier(w, b, now, fragment)
        if c[wk.INDEX_MODE] == POSITION:
            w.positions.index[pos.position_of(w.positions, iteration, fragment)] = wire.extra(row)
            _slide(w, b, fragment)
    return finished


@njit(cache=True)
def _take_back(w, b, now, iteration, fragment):
    """A switch had no room for a fragment and has dropped it: slow down, and try again."""
    s = w.s
    if iteration != b.s[bk.ITERATION]:
        w.counters[n.STALE] += 1
        return
    w.counters[n.COLLISIONS_SIGNALLED] += 1
    if b.status[fragment] & (bk.SENT | bk.RECEIVED) != bk.SENT:
        return
    flow.cut_window(s, bk.sent_ns(b, fragment), now)
    if s[wk.ASKS] < w.asks.size:
        w.asks[s[wk.ASKS]] = fragment + ANEW
        s[wk.ASKS] += 1


@njit(cache=True)
def _miss(w, b, now, fragment):
    """Have a fragment sent again without waiting for its timer."""
    s = w.s
    if s[wk.ASKS] < w.asks.size:
        w.asks[s[wk.ASKS]] = ~fragment
        s[wk.ASKS] += 1
        bk.mark_missed(b, fragment, now)


@njit(cache=True)
def _miss_previous(w, b, now, whole):
    """A result says of which fragment the server sent one before it. If it is not here, it is
    lost."""
    fragment = whole - b.s[bk.ITERATION] * b.s[bk.FRAGMENTS]
    if not 0 <= fragment < b.s[bk.FRAGMENTS]:
        return
    if b.status[fragment] & (bk.SENT | bk.RECEIVED) == bk.SENT:
        _miss(w, b, now, fragment)


@njit(cache=True)
def _miss_earlier(w, b, now, fragment):
    """The result is here of a fragment that was sent only once. What was sent well before it and
    has none is lost.

    Within a tensor only: its fragments are sent in order by every worker. Which of two tensors goes
    first may differ among them, as they become ready."""
    before = bk.sent_ns(b, fragment) - flow.patience_ns(w)
    for earlier in range(b.oldest[b.tensor[fragment]], fragment):
        if b.status[earlier] & bk.RECEIVED == 0 and bk.sent_ns(b, earlier) <= before:
            _miss(w, b, now, earlier)


@njit(cache=True)
def _slide(w, b, fragment):
    """A result moves the window on: up to the first fragment that has none."""
    s, p = w.s, w.positions
    s[wk.FURTHEST] = max(s[wk.FURTHEST], p.place[fragment])
    while s[wk.BASE] < p.order.size and b.status[p.order[s[wk.BASE]]] & bk.RECEIVED:
        s[wk.BASE] += 1


@njit(cache=True)
def _write_gradient(w, b, row, fragment, flags):
    c = w.c
    tensor = b.tensor[fragment]
    whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    priority = w.priority[tensor]
    if c[wk.POLICY] == prio.RANDOM:
        priority = prio.random_priority(c[wk.JOB], whole)
    if c[wk.INDEX_MODE] == POSITION:
        p = w.positions
        index = p.index[pos.position_of(p, b.s[bk.ITERATION], fragment)]
        place = np.int64(p.place[fragment])
        p.gap_place[place % c[wk.WINDOW]] = max(place, w.s[wk.NEXT_PLACE] - 1) + c[wk.GAP]
    else:
        index = index_of(c[wk.INDEX_MODE], c[wk.POOL], c[wk.JOB], whole)
    as_floats = fl.wanted(w.floats, b.s[bk.ITERATION], fragment, b.status[fragment])
    if as_floats:
        flags |= wire.FLOAT
    stripe = sp.stripe_of(w.stripes, fragment)
    node = w.stripes.node[stripe]
    wire.write_header(
        row, wire.GRADIENT, priority, flags, c[wk.JOB], node, whole, index, c[wk.NUMBER]
    )
    wire.set_extra(row, w.stripes.tag[stripe])
    wire.set_worker(row, c[wk.BITMAP_WORDS], c[wk.NUMBER])
    base = wire.HEADER_WORDS + c[wk.BITMAP_WORDS]
    if as_floats:
        fl.write_own(w.floats, row, base, b.s[bk.ITERATION], fragment, b.s[bk.VALUES])
    else:
        payload.write_values(w, b, row, base, fragment)
    w.counters[n.GRADIENT_PACKETS] += 1


@njit(cache=True)
def _fill_gaps(w, b, now, packets, m):
    """Send again what has no result while results of fragments sent later are here: once per gap.

    A fragment that has been sent again is missing anew when results are here of fragments that were
    sent for the first time after that."""
    c, s, k, p = w.c, w.s, w.counters, w.positions
    for place in range(s[wk.BASE], s[wk.FURTHEST] - c[wk.GAP] + 1):
        fragment = p.order[place]
        if b.status[fragment] & bk.RECEIVED or p.gap_place[place % c[wk.WINDOW]] > s[wk.FURTHEST]:
            continue
        if m == packets.shape[0]:
            return m
        bk.mark_sent_again(b, fragment, now, flow.retry_ns(w))
        _write_gradient(w, b, packets[m], fragment, wire.RESEND)
        flow.take_pace(s, c, now)
        k[n.RETRANSMISSIONS] += 1
        k[n.GAP_RESENDS] += 1
        m += 1
    s[wk.SEEN] = s[wk.FURTHEST]
    return m


@njit(cache=True)
def send(w, b, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    c, s, k = w.c, w.s, w.counters
    capacity = packets.shape[0]
    retry = flow.retry_ns(w)
    m = 0
    while s[wk.ASKS] > 0 and m < capacity:
        s[wk.ASKS] -= 1
        entry = w.asks[s[wk.ASKS]]
        asked = 0 <= entry < ANEW
        fragment = entry % ANEW if entry >= 0 else ~entry
        if b.status[fragment] & bk.RECEIVED == 0:
            flags = 0
            if entry >= ANEW:
                bk.mark_tried_again(b, fragment, now)
            else:
                bk.mark_sent_again(b, fragment, now, retry)
                flags = wire.RESEND
            _write_gradient(w, b, packets[m], fragment, flags)
            flow.take_pace(s, c, now)
            k[n.RETRANSMISSIONS] += 1
            if entry < ANEW:
                k[n.ANSWERED_ASKS if asked else n.GAP_RESENDS] += 1
            m += 1
    if c[wk.GAP] > 0 and s[wk.FURTHEST] > s[wk.SEEN]:
        m = _fill_gaps(w, b, now, packets, m)
    timeout = flow.timeout_ns(w)
    while m < capacity:
        fragment = bk.resend(b, now, timeout, retry)
        if fragment < 0:
            break
        _write_gradient(w, b, packets[m], fragment, wire.RESEND)
        flow.take_pace(s, c, now)
        k[n.RETRANSMISSIONS] += 1
        m += 1
    window = s[wk.CREDIT] // wk.UNIT
    end = s[wk.BASE] + c[wk.WINDOW]
    waited = s[wk.PACING] == 1
    s[wk.PACING] = 0
    while m < capacity:
        fragment = bk.next_fragment(b, window)
        if fragment < 0:
            break
        if c[wk.INDEX_MODE] == POSITION and w.positions.place[fragment] >= end:
            break  # its position's last fragment has no result yet
        if s[wk.NEXT_SEND_PS] > now * 1000:
            s[wk.PACING] = 1
            break
        if waited:
            lag.record(w.lag, now - s[wk.NEXT_SEND_PS] // 1000)
            waited = False
        flow.take_pace(s, c, now)
        flags = wire.RESEND if b.status[fragment] & bk.ASKED else 0
        _write_gradient(w, b, packets[m], fragment, flags)
        bk.mark_sent(b, fragment, now, timeout)
        if c[wk.INDEX_MODE] == POSITION:
            s[wk.NEXT_PLACE] = w.positions.place[fragment] + 1
        m += 1
    s[wk.MORE] = 1 if m == capacity else 0
    for i in range(m):
        destinations[i] = TO_SERVER
        lengths[i] = 4 * packets.shape[1]
    return m


@njit(cache=True)
def deadline(w, b):
    """When to call `send` again although nothing has arrived; ns, wk.NEVER if not at all."""
    s = w.s
    if s[wk.MORE] == 1:
        return 0
    due = bk.next_resend_ns(b)
    if due < 0:
        due = wk.NEVER
    if s[wk.PACING] == 1:
        due = min(due, (s[wk.NEXT_SEND_PS] + 999) // 1000)
    return due
