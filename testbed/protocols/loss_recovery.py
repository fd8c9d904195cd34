"""How a parameter server gets what a fragment lacks: it reminds the switches and asks workers.

A fragment that is here in part may have a remainder in a switch, which can never complete there:
the *reminder* pulls it out. If the switch has nothing, the missing workers are *asked* one by one.
Both back off and stop when the fragment is complete.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import heap, wire
from testbed.protocols import progress as pg
from testbed.protocols import server_store as ss
from testbed.protocols import stripes as sp

NEVER = (1 << 62) - 1

# A worker that is merely late would be asked for what it is about to send, and its contribution
# would come past the switch's aggregators. So the first reminders go to the switches alone.
REMINDERS_BEFORE_ASKING = 2


@njit(cache=True)
def delay_ns(v):
    """How long an incomplete fragment waits for its first reminder.

    Adaptive: twice the usual spread of a fragment's arrivals plus the round trip to the switch, so
    that what is merely late is not pulled."""
    if v.c[ss.DELAY_NS] > 0:
        return v.c[ss.DELAY_NS]
    adaptive = 2 * v.s[ss.SPREAD_NS] + v.s[ss.ROUND_TRIP_NS]
    return min(max(adaptive, v.c[ss.LEAST_DELAY_NS]), v.c[ss.MOST_DELAY_NS])


@njit(cache=True)
def smooth(s, place, sample):
    if s[place] == 0:
        s[place] = sample
    else:
        s[place] += (sample - s[place]) >> 3


@njit(cache=True)
def ask(v, place, worker, packets, lengths, destinations, m):
    """Ask one worker for the row's fragment; the batch must have room. Returns the new count."""
    words = v.c[ss.BITMAP_WORDS]
    ss.write_header(v, packets[m], wire.ASK, np.int64(v.flags[place]) & wire.FLOAT, 0, place)
    wire.set_worker(packets[m], words, worker)
    lengths[m] = 4 * (wire.HEADER_WORDS + words)
    destinations[m] = ss.FIRST_WORKER + worker
    v.counters[n.ASKS] += 1
    v.s[ss.NEXT_PROMPT_PS] += v.c[ss.PROMPT_PS]
    return m + 1


@njit(cache=True)
def ask_missing(v, place, packets, lengths, destinations, m):
    """Ask each worker that the row lacks, as far as the batch has room; returns the new count."""
    c = v.c
    for worker in range(c[ss.WORKERS]):
        word = c[ss.BITMAP_WORDS] - 1 - worker // 32
        if (v.bitmap[place, word] >> np.uint32(worker % 32)) & np.uint32(1):
            continue
        if m == packets.shape[0]:
            break
        m = ask(v, place, worker, packets, lengths, destinations, m)
    return m


@njit(cache=True)
def _arm(v, place, due):
    v.due_ns[place] = due
    v.s[ss.TIMERS] = heap.push(v.timers, v.s[ss.TIMERS], v.due_ns, place)


@njit(cache=True)
def hold(v, place, now):
    """Something of the fragment is here, and it is incomplete."""
    if v.stage[place] == ss.EMPTY:
        v.stage[place] = ss.PART
        v.first_ns[place] = now
        if v.c[ss.REMIND] == 1:
            _arm(v, place, now + delay_ns(v))


@njit(cache=True)
def _remind(v, place, now, packets, lengths, destinations, m):
    """Remind the switches of a row, if they may hold something of it; returns the new count."""
    c = v.c
    stripe = sp.stripe_of(v.stripes, place % c[ss.FRAGMENTS])
    for i in range(v.nodes.size if v.flags[place] & wire.FLOAT == 0 else 0):
        if v.stripes.reached[stripe, i] == 0:
            continue
        ss.write_header(v, packets[m], wire.REMINDER, 0, v.nodes[i], place)
        for j in range(c[ss.BITMAP_WORDS]):
            packets[m, wire.HEADER_WORDS + j] = np.uint32(0)
        lengths[m] = 4 * (wire.HEADER_WORDS + c[ss.BITMAP_WORDS])
        destinations[m] = ss.FIRST_WORKER + c[ss.WORKERS] + i
        v.counters[n.REMINDERS] += 1
        v.s[ss.NEXT_PROMPT_PS] += c[ss.PROMPT_PS]
        m += 1
    v.attempts[place] = min(v.attempts[place] + 1, 6)
    v.reminded_ns[place] = now
    return m


@njit(cache=True)
def _drop_done_timers(v):
    s = v.s
    while s[ss.TIMERS] > 0 and v.stage[v.timers[0]] == ss.COMPLETE:
        s[ss.TIMERS] = heap.pop(v.timers, s[ss.TIMERS], v.due_ns)


@njit(cache=True)
def send(v, now, m, out, out_lengths, destinations):
    """Add to a batch of `m` packets the reminders and asks that are due; returns the new count.

    They are paced: what they call for comes over the server's own link. Unpaced, a full queue there
    makes fragments late, late fragments are asked for, and the answers fill the queue."""
    c, s, p = v.c, v.s, v.progress
    room = v.nodes.size + c[ss.WORKERS]
    while p.s[pg.HEAD] < p.s[pg.TAIL]:
        place = (s[ss.ITERATION] & 1) * c[ss.FRAGMENTS] + p.pulls[p.s[pg.HEAD]]
        if v.stage[place] == ss.PART:
            if m + room > out.shape[0] or s[ss.NEXT_PROMPT_PS] > now * 1000:
                return m
            s[ss.NEXT_PROMPT_PS] = now * 1000
            m = _remind(v, place, now, out, out_lengths, destinations, m)
        p.s[pg.HEAD] += 1
    while True:
        _drop_done_timers(v)
        if s[ss.TIMERS] == 0 or v.due_ns[v.timers[0]] > now or m + room > out.shape[0]:
            return m
        if s[ss.NEXT_PROMPT_PS] > now * 1000:
            return m
        place = v.timers[0]
        s[ss.TIMERS] = heap.pop(v.timers, s[ss.TIMERS], v.due_ns)
        if v.attempts[place] > 0 and v.reminded_ns[place] + delay_ns(v) > now:
            _arm(v, place, v.reminded_ns[place] + delay_ns(v))
            continue  # it has been pulled since
        s[ss.NEXT_PROMPT_PS] = now * 1000
        whole_numbers = v.flags[place] & wire.FLOAT == 0  # which alone a switch may hold
        asks = v.attempts[place] >= REMINDERS_BEFORE_ASKING or not whole_numbers
        m = _remind(v, place, now, out, out_lengths, destinations, m)
        if asks:
            m = ask_missing(v, place, out, out_lengths, destinations, m)
        backoff = min(delay_ns(v) << v.attempts[place], max(c[ss.MOST_DELAY_NS], delay_ns(v)))
        _arm(v, place, now + backoff)


@njit(cache=True)
def deadline(v):
    """When to call `send` although nothing has arrived; ns, NEVER if not at all."""
    _drop_done_timers(v)
    if v.progress.s[pg.HEAD] < v.progress.s[pg.TAIL]:
        return (v.s[ss.NEXT_PROMPT_PS] + 999) // 1000
    if v.s[ss.TIMERS] == 0:
        return NEVER
    return max(v.due_ns[v.timers[0]], (v.s[ss.NEXT_PROMPT_PS] + 999) // 1000)
