"""SwitchML's worker: a window of slots that clock themselves, and no parameter server.

Each slot of the job's part of the pool has one chunk in flight at most. Its next chunk is `slots`
further down the stream and goes out when the result of the last one is here, so a worker is never
more than one chunk ahead of another in any slot: what the switch's two sets rely on. A chunk
without a result is sent again after a timeout, to the same slot and set, and the switch serves the
result from there. With one set it adds the packet if it lacked it, and else has nothing to serve.

Places in `c` and `s` are those of worker, whose values, checks, pacing and measure of round trips
it shares; what a slot does is its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import block_float as bf
from testbed.protocols import counters as n
from testbed.protocols import flow, heap, lag, payload, wire
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import status as st
from testbed.protocols import stream as sm
from testbed.protocols import values as val
from testbed.protocols import worker as wk

TO_ROOT = 0  # the only destination
SECOND_SET = 1 << 31  # in a packet's index, if slots have two

# Places in Worker.s behind worker's
EARLIEST_NS = wk.STATE  # no slot is due for retransmission before
FREE = wk.STATE + 1  # entries in Worker.free
HEARD_NS = wk.STATE + 2  # when the last chunk was sent of those with a result that were sent once
OLDEST_NS = wk.STATE + 3  # no chunk in flight was sent before
STATE = wk.STATE + 4


class Worker(NamedTuple):
    """S slots; F fragments and C chunks per iteration, I recorded iterations."""

    c: np.ndarray  # int64[worker.CONFIGURATION]; WINDOW is S
    s: np.ndarray  # int64[STATE]
    stream: sm.Stream
    chunk: np.ndarray  # int64[S], number of the slot's chunk in flight, or else of its next one
    busy: np.ndarray  # uint8[S], 1: a chunk is in flight
    attempts: np.ndarray  # uint8[S], how often it has been sent again
    sent_ns: np.ndarray  # int64[S]
    due_ns: np.ndarray  # int64[S], when it is sent again
    free: np.ndarray  # int32[S], heap of the slots that are not busy, by their next chunk
    exponent: np.ndarray  # int16[F], all workers' largest, of this iteration; UNKNOWN at first
    own_exponent: np.ndarray  # int8[I, F]
    recorded: np.ndarray  # float32[I, F * V], this worker's gradients if the trace has values
    sums: np.ndarray  # int32[I, F * V], the sums over the workers of the quantised gradients
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see status.py
    lag: np.ndarray  # int64, see lag.py


UNKNOWN = 1000  # no exponent


@njit(cache=True)
def begin(w, b, iteration):
    """Start exchanging the gradients of an iteration."""
    c, s = w.c, w.s
    bk.begin(b, iteration)
    flow.begin(s)
    s[wk.FACTOR] = val.factor(c[wk.SEED], c[wk.JOB], iteration, c[wk.NUMBER])
    s[wk.FACTOR_SUM] = val.factor_sum(c[wk.SEED], c[wk.JOB], iteration, c[wk.WORKERS])
    w.exponent[:] = UNKNOWN


@njit(cache=True)
def receive(w, b, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    c, s, k = w.c, w.s, w.counters
    base = wire.HEADER_WORDS + c[wk.BITMAP_WORDS]
    full = 4 * (base + b.s[bk.VALUES])
    chunks = w.stream.tensor.size
    finished = False
    for i in range(count):
        row = packets[i]
        if (
            lengths[i] != full
            or wire.version(row) != wire.VERSION
            or wire.job(row) != c[wk.JOB]
            or (wire.kind(row) != wire.RESULT and wire.kind(row) != wire.RESULT_ONE)
        ):
            k[n.FOREIGN] += 1
            continue
        number = wire.fragment(row)
        slot = number % c[wk.WINDOW]
        if w.busy[slot] == 0 or w.chunk[slot] != number:
            if number < w.chunk[slot]:
                k[n.DUPLICATE_RESULTS] += 1
            else:
                k[n.FOREIGN] += 1
            continue
        place = number % chunks
        fragment = w.stream.fragment[place]
        if not _check(w, b, row, base, place, fragment):
            return finished
        if w.stream.announced[place] >= 0:
            w.exponent[w.stream.announced[place]] = wire.next_exponent(row)
        if w.attempts[slot] == 0:
            flow.measure_round_trip(s, now - w.sent_ns[slot])
            s[HEARD_NS] = max(s[HEARD_NS], w.sent_ns[slot])
        w.busy[slot] = 0
        w.chunk[slot] = number + c[wk.WINDOW]
        s[FREE] = heap.push(w.free, s[FREE], w.chunk, slot)
        if fragment >= 0:
            k[n.RESULTS] += 1
            if wire.flags(row) & wire.OVERFLOW:
                k[n.SATURATED] += 1
            if bk.mark_received(b, fragment, now):
                finished = True
    return finished


@njit(cache=True)
def _check(w, b, row, base, place, fragment):
    """True if the packet holds the sum over all workers; else the place is noted in the status."""
    if fragment >= 0:
        return payload.check_values(w, b, row, base, fragment)
    wrong = val.first_nonzero(row, base, base + b.s[bk.VALUES])
    if wrong < 0:
        return True
    w.status[st.FAILED] = 1
    w.status[st.ITERATION] = b.s[bk.ITERATION]
    w.status[st.FRAGMENT] = w.stream.announced[place]
    w.status[st.POSITION] = wrong
    w.status[st.FOUND] = np.int64(np.int32(wire.swap(row[base + wrong])))
    w.status[st.EXPECTED] = 0
    return False


@njit(cache=True)
def _write_gradient(w, b, row, slot, flags):
    c = w.c
    number = w.chunk[slot]
    place = number % w.stream.tensor.size
    fragment, announced = w.stream.fragment[place], w.stream.announced[place]
    index = slot
    if (number // c[wk.WINDOW]) % c[wk.SETS]:
        index |= SECOND_SET
    wire.write_header(row, wire.GRADIENT, 1, flags, c[wk.JOB], 0, number, index, c[wk.NUMBER])
    wire.set_worker(row, c[wk.BITMAP_WORDS], c[wk.NUMBER])
    base = wire.HEADER_WORDS + c[wk.BITMAP_WORDS]
    exponent, following = 0, 0
    if fragment < 0:
        val.write_zeros(row, base, base + b.s[bk.VALUES])
    elif w.recorded.shape[0] > 0:
        exponent = w.exponent[fragment]
        i = b.s[bk.ITERATION] % w.recorded.shape[0]
        start = fragment * b.s[bk.VALUES]
        block = w.recorded[i, start : start + b.s[bk.VALUES]]
        bf.write_block(row, base, block, exponent, c[wk.WORKERS])
    else:
        payload.write_values(w, b, row, base, fragment)
    if announced >= 0:
        following = w.own_exponent[b.s[bk.ITERATION] % w.own_exponent.shape[0], announced]
    wire.set_exponents(row, exponent, following)
    w.counters[n.GRADIENT_PACKETS] += 1


@njit(cache=True)
def _next_slot(w, b):
    """The slot whose next chunk comes first in the stream, or -1 if that may not be sent yet."""
    if w.s[FREE] == 0:
        return -1
    slot = np.int64(w.free[0])
    chunks = w.stream.tensor.size
    iteration = w.chunk[slot] // chunks
    place = w.chunk[slot] - iteration * chunks
    if iteration != b.s[bk.ITERATION] or b.ready[w.stream.tensor[place]] == 0:
        return -1
    fragment = w.stream.fragment[place]
    if w.recorded.shape[0] > 0 and fragment >= 0 and w.exponent[fragment] == UNKNOWN:
        return -1
    return slot


@njit(cache=True)
def _resend(w, b, now, packets):
    """Send again what is due, or was sent well before a chunk whose result is here, into the first
    rows; returns their number."""
    c, s = w.c, w.s
    lost_ns = s[HEARD_NS] - flow.patience_ns(w)
    if s[EARLIEST_NS] > now and s[OLDEST_NS] > lost_ns:
        return 0
    m = 0
    earliest, oldest = wk.NEVER, wk.NEVER
    retry = flow.retry_ns(w)
    for slot in range(c[wk.WINDOW]):
        if w.busy[slot] == 0:
            continue
        late = w.due_ns[slot] <= now
        if (late or w.sent_ns[slot] <= lost_ns) and m < packets.shape[0]:
            if w.attempts[slot] == 0 or late and w.attempts[slot] < bk.MOST_ATTEMPTS:
                w.attempts[slot] += 1
            w.counters[n.GAP_RESENDS] += 0 if late else 1
            w.sent_ns[slot] = now
            _write_gradient(w, b, packets[m], slot, wire.RESEND)
            flow.take_pace(s, c, now)
            w.counters[n.RETRANSMISSIONS] += 1
            w.due_ns[slot] = now + bk.backoff_ns(retry, w.attempts[slot])
            m += 1
        earliest = min(earliest, w.due_ns[slot])
        oldest = min(oldest, w.sent_ns[slot])
    s[EARLIEST_NS] = earliest
    s[OLDEST_NS] = oldest
    return m


@njit(cache=True)
def send(w, b, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    c, s = w.c, w.s
    capacity = packets.shape[0]
    m = _resend(w, b, now, packets)
    timeout = flow.timeout_ns(w)
    waited = s[wk.PACING] == 1
    s[wk.PACING] = 0
    while m < capacity:
        slot = _next_slot(w, b)
        if slot < 0:
            break
        if s[wk.NEXT_SEND_PS] > now * 1000:
            s[wk.PACING] = 1
            break
        if waited:
            lag.record(w.lag, now - s[wk.NEXT_SEND_PS] // 1000)
            waited = False
        flow.take_pace(s, c, now)
        s[FREE] = heap.pop(w.free, s[FREE], w.chunk)
        _write_gradient(w, b, packets[m], slot, 0)
        tensor = w.stream.tensor[w.chunk[slot] % w.stream.tensor.size]
        if b.first_sent_ns[b.s[bk.ITERATION], tensor] < 0:
            b.first_sent_ns[b.s[bk.ITERATION], tensor] = now
        w.busy[slot] = 1
        w.attempts[slot] = 0
        w.sent_ns[slot] = now
        w.due_ns[slot] = now + timeout
        s[EARLIEST_NS] = min(s[EARLIEST_NS], w.due_ns[slot])
        s[OLDEST_NS] = min(s[OLDEST_NS], now)
        m += 1
    s[wk.MORE] = 1 if m == capacity else 0
    for i in range(m):
        destinations[i] = TO_ROOT
        lengths[i] = 4 * packets.shape[1]
    return m


@njit(cache=True)
def deadline(w, b):
    """When to call `send` again although nothing has arrived; ns, wk.NEVER if not at all."""
    s = w.s
    if s[wk.MORE] == 1:
        return 0
    due = s[EARLIEST_NS]
    if s[wk.PACING] == 1:
        due = min(due, (s[wk.NEXT_SEND_PS] + 999) // 1000)
    return due
