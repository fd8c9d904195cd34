"""The parameter server of a system with a shared pool of aggregators.

What reaches it are sums over some of the job's workers: of all of them when the switch completed
the fragment, of fewer when a sum left its aggregator early or a contribution found no room. The
server adds them up by their bitmaps, never by counting packets, and answers a fragment that has all
workers with one result, which the switch multicasts. Results stay, to be served again to a worker
that asks for one.

`receive` takes a batch of packets and fills another; `prompts.send` does what is due by the clock.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import heap, wire
from testbed.protocols import loss_recovery as prompts
from testbed.protocols import progress as pg
from testbed.protocols import server_store as ss
from testbed.protocols import status as st
from testbed.protocols.index import POSITION


@njit(cache=True)
def _begin(v, iteration):
    """The first packet of an iteration: rows are used again, so no timer of their past may stay."""
    s = v.s
    s[ss.ITERATION] = iteration
    pg.begin(v.progress)
    v.status[st.ITERATIONS] = iteration
    size = s[ss.TIMERS]
    s[ss.TIMERS] = 0
    for i in range(size):
        place = v.timers[i]
        if v.stage[place] == ss.PART:
            s[ss.TIMERS] = heap.push(v.timers, s[ss.TIMERS], v.due_ns, place)


@njit(cache=True)
def _note_progress(v, iteration, fragment, row):
    """Have pulled what is here in part although all workers have sent it."""
    if iteration != v.s[ss.ITERATION] or v.progress.least.size == 0:
        return
    begin, end = pg.note(v.progress, fragment, row, v.c[ss.BITMAP_WORDS])
    offset = (iteration & 1) * v.c[ss.FRAGMENTS]
    for sent in range(begin, end):
        place = offset + sent
        part = v.iteration[place] == iteration and v.stage[place] == ss.PART
        if part or sent == fragment:
            pg.put(v.progress, sent)


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
    base = wire.HEADER_WORDS + c[ss.BITMAP_WORDS]
    m = 0
    for i in range(count):
        row = packets[i]
        if lengths[i] < 4 * base or wire.version(row) != wire.VERSION or wire.job(row) != c[ss.JOB]:
            k[n.FOREIGN] += 1
            continue
        kind = wire.kind(row)
        whole = wire.fragment(row)
        iteration = whole // c[ss.FRAGMENTS]
        place = (iteration & 1) * c[ss.FRAGMENTS] + whole - iteration * c[ss.FRAGMENTS]
        if kind == wire.REMINDER_EMPTY:
            k[n.REMINDERS_EMPTY] += 1
            if v.iteration[place] == iteration and v.attempts[place] == 1:
                prompts.smooth(s, ss.ROUND_TRIP_NS, now - v.reminded_ns[place])
            continue
        if kind != wire.GRADIENT or lengths[i] != 4 * (base + c[ss.VALUES]):
            k[n.FOREIGN] += 1
            continue
        if iteration >= c[ss.ITERATIONS]:
            k[n.FOREIGN] += 1
            continue

        flags = wire.flags(row)
        _count_arrival(k, flags)
        if iteration < v.iteration[place]:
            k[n.STALE] += 1
            continue
        if iteration > v.iteration[place]:
            if iteration > s[ss.ITERATION]:
                _begin(v, iteration)
            ss.open_row(v, place, iteration)
        if flags & wire.RESEND == 0:
            _note_progress(v, iteration, place - (iteration & 1) * c[ss.FRAGMENTS], row)
        if v.stage[place] == ss.COMPLETE:
            k[n.PS_KNOWN] += 1
            worker = wire.sender(row)
            if flags & wire.RESEND and worker < c[ss.WORKERS]:
                out_lengths[m] = ss.write_result(v, out[m], wire.RESULT_ONE, place)
                destinations[m] = ss.FIRST_WORKER + worker
                k[n.DUPLICATE_RESULTS] += 1
                m += 1
            continue

        v.flags[place] |= np.uint16(flags & wire.COLLISION)
        as_floats = v.flags[place] & wire.FLOAT != 0
        # Room to ask all, in the batch and on the link; what is not asked now is reminded later.
        spare = m + count - i + c[ss.WORKERS] < out.shape[0] and s[ss.NEXT_PROMPT_PS] <= now * 1000
        if c[ss.FLOATS] == 1 and flags & wire.FLOAT == 0:
            # Whole numbers that are of no use: everyone is to send floating-point numbers.
            if not as_floats and flags & wire.OVERFLOW:
                ss.become_floats(v, place)
                prompts.hold(v, place, now)
                if spare:
                    m = prompts.ask_missing(v, place, out, out_lengths, destinations, m)
                continue
            if as_floats:
                worker = wire.sender(row)
                if flags & wire.RESEND and worker < c[ss.WORKERS]:
                    m = prompts.ask(v, place, worker, out, out_lengths, destinations, m)
                continue
        elif flags & wire.FLOAT:
            if c[ss.FLOATS] == 0:
                k[n.FOREIGN] += 1
                continue
            if not as_floats:
                ss.become_floats(v, place)

        # How does the packet's set of workers lie to the row's?
        common = False  # they share workers
        more = False  # the packet has workers that the row lacks
        lacks = False  # the row has workers that the packet lacks
        whole_set = True
        outside = False
        for j in range(c[ss.BITMAP_WORDS]):
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
            prompts.smooth(s, ss.ROUND_TRIP_NS, now - v.reminded_ns[place])
        if not more:
            k[n.PS_KNOWN] += 1
            continue
        kept = flags & (wire.ECN | wire.OVERFLOW)
        if flags & wire.FLOAT:
            fl.add(v.floats, place, row, base)
            v.flags[place] |= np.uint16(kept)
        elif not common:
            if v.stage[place] == ss.EMPTY:
                for j in range(c[ss.VALUES]):
                    v.sums[place, j] = np.int32(wire.swap(row[base + j]))
            else:
                overflow = 0
                for j in range(c[ss.VALUES]):
                    old = v.sums[place, j]
                    new = np.int32(wire.swap(row[base + j]))
                    total = np.int32(np.int64(old) + np.int64(new) & 0xFFFFFFFF)
                    overflow |= (old ^ total) & (new ^ total)
                    v.sums[place, j] = total
                if overflow < 0:
                    kept |= wire.OVERFLOW
                    if c[ss.FLOATS] == 1:
                        ss.become_floats(v, place)
                        if spare:
                            m = prompts.ask_missing(v, place, out, out_lengths, destinations, m)
                        continue
            v.flags[place] |= np.uint16(kept)
        elif not lacks:
            k[n.PS_REPLACED] += 1
            for j in range(c[ss.VALUES]):
                v.sums[place, j] = np.int32(wire.swap(row[base + j]))
            v.flags[place] = np.uint16(kept | v.flags[place] & wire.COLLISION)
        else:
            k[n.PS_OVERLAPS] += 1
            if spare:
                m = prompts.ask_missing(v, place, out, out_lengths, destinations, m)
            continue
        complete = True
        for j in range(c[ss.BITMAP_WORDS]):
            v.bitmap[place, j] |= wire.swap(row[wire.HEADER_WORDS + j])
            complete &= v.bitmap[place, j] == v.everyone[j]
        if complete:
            if v.stage[place] == ss.PART and flags & (wire.REMINDED | wire.RESEND) == 0:
                prompts.smooth(s, ss.SPREAD_NS, now - v.first_ns[place])
            # A result that waited for a retransmission says nothing about the usual round trip.
            v.flags[place] |= np.uint16(flags & wire.RESEND)
            v.stage[place] = ss.COMPLETE
            s[ss.COMPLETED] += 1
            out_lengths[m] = ss.write_result(v, out[m], wire.RESULT, place)
            if c[ss.INDEX_MODE] == POSITION:
                ss.rehash(v, out[m], place)
            else:
                ss.name_previous(v, out[m])
            destinations[m] = ss.TO_WORKERS
            k[n.RESULTS] += 1
            m += 1
        else:
            first_float = flags & wire.FLOAT and not as_floats
            prompts.hold(v, place, now)
            if first_float and spare:
                m = prompts.ask_missing(v, place, out, out_lengths, destinations, m)
    return m
