"""The parameter server of a system with a shared pool of aggregators.

What reaches it are sums over some of the job's workers: of all of them when the switch completed
the fragment, of fewer when a sum left its aggregator early or a contribution found no room. The
server adds them up by their bitmaps, never by counting packets, and answers a fragment that has all
workers with one result, which the switch multicasts.

A fragment that is here in part may have a remainder in a switch, which can never complete there:
the *reminder* pulls it out. If the switch has nothing, the missing workers are *asked* one by one.
Both back off and stop when the fragment is complete.

Results stay here, to be served again to a worker that asks for one. A worker that sends something
of iteration i + 1 has received all of iteration i. So two iterations' results are all that is ever
needed, and the store has one row for each fragment of an even and of an odd iteration.

`receive` takes a batch of packets and fills another; `send` does what is due by the clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import heap, wire
from testbed.protocols import positions as pos
from testbed.protocols import status as st
from testbed.protocols.index import POSITION, index_of
from testbed.protocols.status import new_status
from testbed.protocols.values import mix2

NEVER = (1 << 62) - 1

# Destinations: the workers' multicast group, then each worker, then each switch of the job's tree.
TO_WORKERS = 0
FIRST_WORKER = 1

# A worker that is merely late would be asked for what it is about to send, and its contribution
# would come past the switch's aggregators. So the first reminders go to the switches alone.
REMINDERS_BEFORE_ASKING = 2

# Places in Server.c, the configuration
JOB = 0
WORKERS = 1
FRAGMENTS = 2  # per iteration
VALUES = 3  # per fragment
BITMAP_WORDS = 4
ITERATIONS = 5
REMIND = 6  # 0: no reminders
DELAY_NS = 7  # of the reminder; 0: adaptive
LEAST_DELAY_NS = 8
MOST_DELAY_NS = 9
INDEX_MODE = 10
POOL = 11
REHASH = 12  # 1: a window position that collided gets another index
FLOATS = 13  # 1: what leaves int32 is summed as floating-point numbers
PROMPT_PS = 14  # link time set aside for a reminder or an ask with its answer; 0: none
CONFIGURATION = 15

# Places in Server.s, the state
TIMERS = 0  # entries in the heap
SPREAD_NS = 1  # smoothed time from a fragment's first arrival here to its last, if unprompted
ROUND_TRIP_NS = 2  # smoothed time from a reminder to its answer
ITERATION = 3  # latest that has been heard of
COMPLETED = 4  # fragments with a result, all iterations
DRAWS = 5  # indices drawn for window positions
NEXT_PROMPT_PS = 6  # when the next reminder or ask may go out
STATE = 7

# Values of Server.stage
EMPTY = 0
PART = 1
COMPLETE = 2

REHASH_DRAWS = 8  # to find an index that no other window position of the job has
RESULT_FLAGS = wire.ECN | wire.OVERFLOW | wire.FLOAT


class Server(NamedTuple):
    """Rows: fragment f of iteration i is row (i & 1) * F + f. B words of bitmap, V values."""

    c: np.ndarray  # int64[CONFIGURATION]
    s: np.ndarray  # int64[STATE]
    nodes: np.ndarray  # int64[*], switch numbers on the job's tree
    everyone: np.ndarray  # uint32[B], bitmap of all workers in packet order
    iteration: np.ndarray  # int32[2F], -1: none yet
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    bitmap: np.ndarray  # uint32[2F, B], in packet order, native bytes
    sums: np.ndarray  # int32[2F, V]
    attempts: np.ndarray  # uint8[2F], reminders sent
    first_ns: np.ndarray  # int64[2F], first arrival
    reminded_ns: np.ndarray  # int64[2F], last reminder
    due_ns: np.ndarray  # int64[2F], next reminder
    timers: np.ndarray  # int32[2F]
    positions: pos.Positions
    taken: np.ndarray  # int32[pool], window positions with this index; empty where there are none
    floats: fl.ServerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see status.py


def bitmap_of(workers: int, words: int) -> np.ndarray:
    """The bitmap that names workers 0 .. workers - 1; uint32[words], most significant first."""
    whole = (1 << workers) - 1
    return np.array(
        [(whole >> (32 * (words - 1 - i))) & 0xFFFFFFFF for i in range(words)], np.uint32
    )


def new_server(configuration: np.ndarray, nodes: list[int], counters: np.ndarray) -> Server:
    rows = 2 * int(configuration[FRAGMENTS])
    words = int(configuration[BITMAP_WORDS])
    s = np.zeros(STATE, np.int64)
    s[ITERATION] = -1
    return Server(
        c=configuration,
        s=s,
        nodes=np.asarray(nodes, np.int64),
        everyone=bitmap_of(int(configuration[WORKERS]), words),
        iteration=np.full(rows, -1, np.int32),
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        bitmap=np.zeros((rows, words), np.uint32),
        sums=np.zeros((rows, int(configuration[VALUES])), np.int32),
        attempts=np.zeros(rows, np.uint8),
        first_ns=np.zeros(rows, np.int64),
        reminded_ns=np.zeros(rows, np.int64),
        due_ns=np.zeros(rows, np.int64),
        timers=np.zeros(rows, np.int32),
        positions=pos.no_positions(),
        taken=np.zeros(0, np.int32),
        floats=fl.new_server_floats(0, 0),
        counters=counters,
        status=new_status(),
    )


@njit(cache=True)
def delay_ns(v):
    """How long an incomplete fragment waits for its first reminder.

    Adaptive: twice the usual spread of a fragment's arrivals plus the round trip to the switch, so
    that what is merely late is not pulled."""
    if v.c[DELAY_NS] > 0:
        return v.c[DELAY_NS]
    adaptive = 2 * v.s[SPREAD_NS] + v.s[ROUND_TRIP_NS]
    return min(max(adaptive, v.c[LEAST_DELAY_NS]), v.c[MOST_DELAY_NS])


@njit(cache=True)
def _smooth(s, place, sample):
    if s[place] == 0:
        s[place] = sample
    else:
        s[place] += (sample - s[place]) >> 3


@njit(cache=True)
def _write(v, row, kind, flags, node, place):
    """Header of a packet about the fragment in row `place` of the store."""
    c = v.c
    fragment = place % c[FRAGMENTS]
    whole = v.iteration[place] * c[FRAGMENTS] + fragment
    if c[INDEX_MODE] == POSITION:
        p = v.positions
        index = p.index[pos.position_of(p, v.iteration[place], fragment)]
    else:
        index = index_of(c[INDEX_MODE], c[POOL], c[JOB], whole)
    wire.write_header(row, kind, 255, flags, c[JOB], node, whole, index, 0x4000)
    if c[INDEX_MODE] == POSITION:
        wire.set_extra(row, index)


@njit(cache=True)
def _write_result(v, row, kind, place):
    c = v.c
    base = wire.HEADER_WORDS + c[BITMAP_WORDS]
    _write(v, row, kind, np.int64(v.flags[place]) & RESULT_FLAGS, 0, place)
    for i in range(c[BITMAP_WORDS]):
        row[wire.HEADER_WORDS + i] = wire.swap(v.everyone[i])
    if v.flags[place] & wire.FLOAT:
        fl.write_sum(v.floats, place, row, base)
    else:
        for i in range(c[VALUES]):
            row[base + i] = wire.swap(np.uint32(v.sums[place, i]))
    return 4 * (base + c[VALUES])


@njit(cache=True)
def _rehash(v, row, place):
    """The fragment is complete. If it collided, its window position gets another index, which all
    workers learn from the result in `row` and use for the position's next fragment."""
    c, s, p = v.c, v.s, v.positions
    if c[REHASH] == 0 or v.flags[place] & wire.COLLISION == 0:
        return
    position = pos.position_of(p, v.iteration[place], place % c[FRAGMENTS])
    v.taken[p.index[position]] -= 1
    for _ in range(REHASH_DRAWS):
        s[DRAWS] += 1
        p.index[position] = mix2(mix2(c[JOB], 0x2E4A5), s[DRAWS]) % c[POOL]
        if v.taken[p.index[position]] == 0:
            break
    v.taken[p.index[position]] += 1
    v.counters[n.REHASHES] += 1
    wire.set_extra(row, p.index[position])


@njit(cache=True)
def _ask(v, place, worker, packets, lengths, destinations, m):
    """Ask one worker for the row's fragment; the batch must have room. Returns the new count."""
    words = v.c[BITMAP_WORDS]
    _write(v, packets[m], wire.ASK, np.int64(v.flags[place]) & wire.FLOAT, 0, place)
    wire.set_worker(packets[m], words, worker)
    lengths[m] = 4 * (wire.HEADER_WORDS + words)
    destinations[m] = FIRST_WORKER + worker
    v.counters[n.ASKS] += 1
    v.s[NEXT_PROMPT_PS] += v.c[PROMPT_PS]
    return m + 1


@njit(cache=True)
def _ask_missing(v, place, packets, lengths, destinations, m):
    """Ask each worker that the row lacks, as far as the batch has room; returns the new count."""
    c = v.c
    for worker in range(c[WORKERS]):
        word = c[BITMAP_WORDS] - 1 - worker // 32
        if (v.bitmap[place, word] >> np.uint32(worker % 32)) & np.uint32(1):
            continue
        if m == packets.shape[0]:
            break
        m = _ask(v, place, worker, packets, lengths, destinations, m)
    return m


@njit(cache=True)
def _arm(v, place, due):
    v.due_ns[place] = due
    v.s[TIMERS] = heap.push(v.timers, v.s[TIMERS], v.due_ns, place)


@njit(cache=True)
def _open_row(v, place, iteration):
    v.iteration[place] = iteration
    v.stage[place] = EMPTY
    v.flags[place] = 0
    v.attempts[place] = 0
    for i in range(v.c[BITMAP_WORDS]):
        v.bitmap[place, i] = np.uint32(0)


@njit(cache=True)
def _become_floats(v, place):
    """Forget the row's whole numbers: from here on it is a sum of floating-point numbers."""
    v.flags[place] |= np.uint16(wire.FLOAT | wire.OVERFLOW)
    for i in range(v.c[BITMAP_WORDS]):
        v.bitmap[place, i] = np.uint32(0)
    for i in range(v.c[VALUES]):
        v.floats.sums[place, i] = 0.0
    v.counters[n.FLOAT_RESULTS] += 1


@njit(cache=True)
def _hold(v, place, now):
    """Something of the fragment is here, and it is incomplete."""
    if v.stage[place] == EMPTY:
        v.stage[place] = PART
        v.first_ns[place] = now
        if v.c[REMIND] == 1:
            _arm(v, place, now + delay_ns(v))


@njit(cache=True)
def _begin(v, iteration):
    """The first packet of an iteration: rows are used again, so no timer of their past may stay."""
    s = v.s
    s[ITERATION] = iteration
    v.status[st.ITERATIONS] = iteration
    size = s[TIMERS]
    s[TIMERS] = 0
    for i in range(size):
        place = v.timers[i]
        if v.stage[place] == PART:
            s[TIMERS] = heap.push(v.timers, s[TIMERS], v.due_ns, place)


@njit(cache=True)
def _count_arrival(k, flags):
    k[n.PS_PACKETS] += 1
    if flags & wire.PARTIAL:
        k[n.PS_PARTIALS] += 1
    if flags & wire.COLLISION:
        k[n.PS_COLLISIONS] += 1
    if flags & wire.RESEND:
        k[n.PS_RESENDS] += 1


@njit(cache=True)
def receive(v, now, packets, lengths, count, out, out_lengths, destinations):
    """Take `count` packets and fill `out`; returns the number of packets filled.

    `out` has room for at least one packet per packet taken, and for asks beyond that as far as it
    goes: an ask that finds no room is made up for by the next reminder."""
    c, s, k = v.c, v.s, v.counters
    base = wire.HEADER_WORDS + c[BITMAP_WORDS]
    m = 0
    for i in range(count):
        row = packets[i]
        if lengths[i] < 4 * base or wire.version(row) != wire.VERSION or wire.job(row) != c[JOB]:
            k[n.FOREIGN] += 1
            continue
        kind = wire.kind(row)
        whole = wire.fragment(row)
        iteration = whole // c[FRAGMENTS]
        place = (iteration & 1) * c[FRAGMENTS] + whole - iteration * c[FRAGMENTS]
        if kind == wire.REMINDER_EMPTY:
            k[n.REMINDERS_EMPTY] += 1
            if v.iteration[place] == iteration and v.attempts[place] == 1:
                _smooth(s, ROUND_TRIP_NS, now - v.reminded_ns[place])
            continue
        if kind != wire.GRADIENT or lengths[i] != 4 * (base + c[VALUES]):
            k[n.FOREIGN] += 1
            continue
        if iteration >= c[ITERATIONS]:
            k[n.FOREIGN] += 1
            continue

        flags = wire.flags(row)
        _count_arrival(k, flags)
        if iteration < v.iteration[place]:
            k[n.STALE] += 1
            continue
        if iteration > v.iteration[place]:
            if iteration > s[ITERATION]:
                _begin(v, iteration)
            _open_row(v, place, iteration)
        if v.stage[place] == COMPLETE:
            k[n.PS_KNOWN] += 1
            worker = wire.sender(row)
            if flags & wire.RESEND and worker < c[WORKERS]:
                out_lengths[m] = _write_result(v, out[m], wire.RESULT_ONE, place)
                destinations[m] = FIRST_WORKER + worker
                k[n.DUPLICATE_RESULTS] += 1
                m += 1
            continue

        v.flags[place] |= np.uint16(flags & wire.COLLISION)
        as_floats = v.flags[place] & wire.FLOAT != 0
        # Room to ask all, in the batch and on the link; what is not asked now is reminded later.
        spare = m + count - i + c[WORKERS] < out.shape[0] and s[NEXT_PROMPT_PS] <= now * 1000
        if c[FLOATS] == 1 and flags & wire.FLOAT == 0:
            # Whole numbers that are of no use: everyone is to send floating-point numbers.
            if not as_floats and flags & wire.OVERFLOW:
                _become_floats(v, place)
                _hold(v, place, now)
                if spare:
                    m = _ask_missing(v, place, out, out_lengths, destinations, m)
                continue
            if as_floats:
                worker = wire.sender(row)
                if flags & wire.RESEND and worker < c[WORKERS]:
                    m = _ask(v, place, worker, out, out_lengths, destinations, m)
                continue
        elif flags & wire.FLOAT:
            if c[FLOATS] == 0:
                k[n.FOREIGN] += 1
                continue
            if not as_floats:
                _become_floats(v, place)

        # How does the packet's set of workers lie to the row's?
        common = False  # they share workers
        more = False  # the packet has workers that the row lacks
        lacks = False  # the row has workers that the packet lacks
        whole_set = True
        outside = False
        for j in range(c[BITMAP_WORDS]):
            bits = wire.swap(row[wire.HEADER_WORDS + j])
            have = v.bitmap[place, j]
            common |= (bits & have) != 0
            more |= (bits & ~have) != 0
            lacks |= (have & ~bits) != 0
            whole_set &= bits == v.everyone[j]
            outside |= (bits & ~v.everyone[j]) != 0
        if outside:
            k[n.FOREIGN] += 1
            continue
        if whole_set:
            k[n.PS_AGGREGATES] += 1
        if flags & wire.REMINDED and v.attempts[place] == 1:
            _smooth(s, ROUND_TRIP_NS, now - v.reminded_ns[place])
        if not more:
            k[n.PS_KNOWN] += 1
            continue
        # A result that a retransmission went into says nothing about the usual round trip.
        kept = flags & (wire.ECN | wire.OVERFLOW | wire.RESEND)
        if flags & wire.FLOAT:
            fl.add(v.floats, place, row, base)
            v.flags[place] |= np.uint16(kept)
        elif not common:
            if v.stage[place] == EMPTY:
                for j in range(c[VALUES]):
                    v.sums[place, j] = np.int32(wire.swap(row[base + j]))
            else:
                overflow = 0
                for j in range(c[VALUES]):
                    old = v.sums[place, j]
                    new = np.int32(wire.swap(row[base + j]))
                    total = np.int32(np.int64(old) + np.int64(new) & 0xFFFFFFFF)
                    overflow |= (old ^ total) & (new ^ total)
                    v.sums[place, j] = total
                if overflow < 0:
                    kept |= wire.OVERFLOW
                    if c[FLOATS] == 1:
                        _become_floats(v, place)
                        if spare:
                            m = _ask_missing(v, place, out, out_lengths, destinations, m)
                        continue
            v.flags[place] |= np.uint16(kept)
        elif not lacks:
            k[n.PS_REPLACED] += 1
            for j in range(c[VALUES]):
                v.sums[place, j] = np.int32(wire.swap(row[base + j]))
            v.flags[place] = np.uint16(kept | v.flags[place] & wire.COLLISION)
        else:
            k[n.PS_OVERLAPS] += 1
            if spare:
                m = _ask_missing(v, place, out, out_lengths, destinations, m)
            continue
        complete = True
        for j in range(c[BITMAP_WORDS]):
            v.bitmap[place, j] |= wire.swap(row[wire.HEADER_WORDS + j])
            complete &= v.bitmap[place, j] == v.everyone[j]
        if complete:
            if v.stage[place] == PART and flags & (wire.REMINDED | wire.RESEND) == 0:
                _smooth(s, SPREAD_NS, now - v.first_ns[place])
            v.stage[place] = COMPLETE
            s[COMPLETED] += 1
            out_lengths[m] = _write_result(v, out[m], wire.RESULT, place)
            if c[INDEX_MODE] == POSITION:
                _rehash(v, out[m], place)
            destinations[m] = TO_WORKERS
            k[n.RESULTS] += 1
            m += 1
        else:
            first_float = flags & wire.FLOAT and not as_floats
            _hold(v, place, now)
            if first_float and spare:
                m = _ask_missing(v, place, out, out_lengths, destinations, m)
    return m


@njit(cache=True)
def _drop_done_timers(v):
    s = v.s
    while s[TIMERS] > 0 and v.stage[v.timers[0]] == COMPLETE:
        s[TIMERS] = heap.pop(v.timers, s[TIMERS], v.due_ns)


@njit(cache=True)
def send(v, now, m, out, out_lengths, destinations):
    """Add to a batch of `m` packets the reminders and asks that are due; returns the new count.

    They are paced: what they call for comes over the server's own link. Unpaced, a full queue there
    makes fragments late, late fragments are asked for, and the answers fill the queue."""
    c, s = v.c, v.s
    room = v.nodes.size + c[WORKERS]
    while True:
        _drop_done_timers(v)
        if s[TIMERS] == 0 or v.due_ns[v.timers[0]] > now or m + room > out.shape[0]:
            return m
        if s[NEXT_PROMPT_PS] > now * 1000:
            return m
        s[NEXT_PROMPT_PS] = now * 1000
        place = v.timers[0]
        s[TIMERS] = heap.pop(v.timers, s[TIMERS], v.due_ns)
        whole_numbers = v.flags[place] & wire.FLOAT == 0  # which alone a switch may hold
        for i in range(v.nodes.size if whole_numbers else 0):
            _write(v, out[m], wire.REMINDER, 0, v.nodes[i], place)
            for j in range(c[BITMAP_WORDS]):
                out[m, wire.HEADER_WORDS + j] = np.uint32(0)
            out_lengths[m] = 4 * (wire.HEADER_WORDS + c[BITMAP_WORDS])
            destinations[m] = FIRST_WORKER + c[WORKERS] + i
            v.counters[n.REMINDERS] += 1
            s[NEXT_PROMPT_PS] += c[PROMPT_PS]
            m += 1
        if v.attempts[place] >= REMINDERS_BEFORE_ASKING or not whole_numbers:
            m = _ask_missing(v, place, out, out_lengths, destinations, m)
        if v.attempts[place] < 6:
            v.attempts[place] += 1
        v.reminded_ns[place] = now
        backoff = min(delay_ns(v) << v.attempts[place], max(c[MOST_DELAY_NS], delay_ns(v)))
        _arm(v, place, now + backoff)


@njit(cache=True)
def deadline(v):
    """When to call `send` although nothing has arrived; ns, NEVER if not at all."""
    _drop_done_timers(v)
    if v.s[TIMERS] == 0:
        return NEVER
    return max(v.due_ns[v.timers[0]], (v.s[NEXT_PROMPT_PS] + 999) // 1000)
