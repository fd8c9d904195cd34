"""What a worker does to suit the path: retransmission timeout, congestion window, pacing.

Every system's worker uses it. Pacing is in ps, since at 100 Gbit/s a rounded nanosecond per packet
is 4 %.
"""

from __future__ import annotations

from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import worker as wk


@njit(cache=True)
def timeout_ns(w):
    """How long a fragment may stay unanswered before it is sent again.

    Adaptive: the smoothed round trip plus four variations, as TCP has it, and at least 1.5 times
    the longest of this iteration and the one before. Round trips here are of several kinds: through
    the switch alone, through the server's queue, and those that wait for a slower worker, which
    come once for each tensor. Their mean says little about the slower kinds."""
    c, s = w.c, w.s
    if c[wk.TIMEOUT_NS] > 0:
        return c[wk.TIMEOUT_NS]
    if s[wk.ROUND_TRIP_NS] == 0:
        return 4 * c[wk.LEAST_TIMEOUT_NS]
    adaptive = s[wk.ROUND_TRIP_NS] + 4 * s[wk.VARIATION_NS]
    longest = max(s[wk.LONGEST_NS], s[wk.LONGEST_BEFORE_NS])
    adaptive = max(adaptive, longest + (longest >> 1))
    return min(max(adaptive, c[wk.LEAST_TIMEOUT_NS]), c[wk.MOST_TIMEOUT_NS])


@njit(cache=True)
def patience_ns(w):
    """How much earlier than one whose result is here a fragment must have been sent to count as
    lost, where all workers send the two in the same order.

    The same round trip as a timeout's, but no more: what holds up a host or a switch holds up both
    fragments. With a fixed timeout nothing counts as lost before it."""
    c, s = w.c, w.s
    if c[wk.TIMEOUT_NS] > 0 or s[wk.ROUND_TRIP_NS] == 0:
        return wk.NEVER
    return max(s[wk.ROUND_TRIP_NS] + 4 * s[wk.VARIATION_NS], c[wk.LEAST_PATIENCE_NS])


@njit(cache=True)
def retry_ns(w):
    """How long a fragment that has been sent again may stay unanswered before the next time; it
    doubles from time to time (book.backoff_ns).

    A retransmission goes past what holds others up, aggregators and slower workers, and everybody
    waits for it. So it has the patience of one round trip, not that of all kinds of them."""
    return min(patience_ns(w), timeout_ns(w))


@njit(cache=True)
def begin(s):
    """An iteration begins."""
    s[wk.LONGEST_BEFORE_NS] = s[wk.LONGEST_NS]
    s[wk.LONGEST_NS] = 0


@njit(cache=True)
def measure_round_trip(s, sample_ns):
    s[wk.LONGEST_NS] = max(sample_ns, s[wk.LONGEST_NS])
    if s[wk.ROUND_TRIP_NS] == 0:
        s[wk.ROUND_TRIP_NS] = sample_ns
        s[wk.VARIATION_NS] = sample_ns >> 1
        return
    difference = sample_ns - s[wk.ROUND_TRIP_NS]
    s[wk.ROUND_TRIP_NS] += difference >> 3
    s[wk.VARIATION_NS] += (abs(difference) - s[wk.VARIATION_NS]) >> 2


@njit(cache=True)
def adapt_window(w, marked, sent_ns, now):
    """AIMD: halve once per window on an ECN echo, else one fragment more per window.

    `sent_ns`: when what has been answered was sent."""
    s = w.s
    if marked:
        w.counters[n.MARKED_RESULTS] += 1
        cut_window(s, sent_ns, now)
    elif s[wk.CREDIT] < w.c[wk.WINDOW] * wk.UNIT:
        more = s[wk.CREDIT] + wk.UNIT * wk.UNIT // s[wk.CREDIT] + 1
        s[wk.CREDIT] = min(more, w.c[wk.WINDOW] * wk.UNIT)


@njit(cache=True)
def cut_window(s, sent_ns, now):
    """Halve the window, unless what gave cause to it was sent before it was last halved.

    That met the queue of that time and says nothing of what halving did. (To count a window of
    answers instead is not enough: a halved window is full after half as many, while the marks of
    the old one are still coming in, and one long queue brings it down to a single fragment.)"""
    if sent_ns >= s[wk.CUT_NS]:
        s[wk.CREDIT] = max(s[wk.CREDIT] >> 1, wk.UNIT)
        s[wk.CUT_NS] = now


@njit(cache=True)
def take_pace(s, c, now):
    """Book one packet's time on the link."""
    earliest = now * 1000 - c[wk.BURST_PS]
    s[wk.NEXT_SEND_PS] = max(s[wk.NEXT_SEND_PS], earliest) + c[wk.PACE_PS]
