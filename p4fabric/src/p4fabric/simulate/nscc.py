"""NSCC, the window of Ultra Ethernet: marks and delay together say what an acknowledgement means.

Rules and constants are those of the htsim of Ultra Ethernet (uec.cpp) without trimming. Delay is
what a round trip takes above that of the empty network, and its target is that round trip:

                      no mark                                    marked
    below the target  grow in proportion to what is missing      stay
    above the target  grow by 5 a packets per round trip         shrink, once per round trip, by 0.8
                                                                 of the excess, at most by half

with a = the bandwidth-delay product / 150 kB. The window also grows by 0.15 a packets per round
trip, and by a / 4 of what is acknowledged once a window of packets had no delay (below 1 us). After
a loss, or a delay of four targets, it is what has arrived in the last round trip and target (*quick
adapt*), at most once in that time and only if that is less than an eighth of the widest window;
else a loss takes one packet. It starts at the widest window, 1.5 products.

A receiver notifies its sender of each marked packet. Left out: pulls, and credits of receivers.
"""

from __future__ import annotations

import numpy as np

from p4fabric.simulate.congestion import (
    CUTS,
    DUE,
    LINE,
    OWN,
    PACKET,
    TRIP,
    UNIT,
    WIDEST,
    WINDOW,
)
from p4fabric.simulate.jit import njit

CNP_NS = 0  # between notifications
REFERENCE_BYTES, REFERENCE_NS = 150_000, 12_000  # 100 Gbit/s x 12 us
PROPORTIONAL, FAIR = (
    4,
    5,
)  # x a, packets per round trip: at no delay and a target of 12 us, and for all
ALWAYS = 3, 20  # x a, packets per round trip
FAST = 4  # a part of what is acknowledged, x a
NO_DELAY_NS = 1000
EXCESS, MOST_CUT = (4, 5), 2
MEMORY = 80  # acknowledgements of the mean delay: 1 / 0.0125
ADJUSTED = 8  # packets after which increases count at the latest
QUICK, GATE = 4, 8  # targets; part of the widest window

# Words of a control. SCALE: a, in 1/UNIT; GROWTH: of the window x the window, in packets x 1/UNIT
(
    SCALE,
    MARKED,
    MEAN,
    GROWTH,
    ADDED,
    ADJUST_NS,
    ETA_NS,
    CUT_NS,
    STILL,
    FASTER,
    CAME,
    QUICK_NS,
    LOST,
) = range(OWN, OWN + 13)


def set_constants(control: np.ndarray) -> None:
    """Write a and the widest window into a connection's words."""
    product = int(control[LINE]) * int(control[TRIP]) // (8 * 10**9)
    control[SCALE] = max(UNIT * product // REFERENCE_BYTES, 1)
    widest = 3 * UNIT * product // (2 * int(control[PACKET]))
    control[WIDEST] = max(min(int(control[WIDEST]), widest), UNIT)
    control[WINDOW] = control[WIDEST]


@njit(cache=True)
def on_start(control, now):
    """The window is as wide as it may be, which the constants have set."""
    control[ADJUST_NS] = control[ETA_NS] = now + control[TRIP]
    control[QUICK_NS] = now + 2 * control[TRIP]
    control[CUT_NS] = now - control[TRIP]


@njit(cache=True)
def on_send(control, now, length):
    """The window counts packets, not their bytes."""


@njit(cache=True)
def on_mark(control, now):
    """The next acknowledgement is of a marked packet."""
    control[MARKED] = 1


@njit(cache=True)
def on_ack(control, now, packets, trip_ns):
    """Grow, stay or shrink."""
    target = control[TRIP]
    delay = max(trip_ns - control[TRIP], 0)
    control[MEAN] += (delay - control[MEAN]) // MEMORY
    control[CAME] += packets
    marked, control[MARKED] = control[MARKED], 0
    if _quick_adapt(control, now, delay > QUICK * target):
        return
    if delay >= NO_DELAY_NS:
        control[STILL] = control[FASTER] = 0
    if marked == 0 and delay < target:
        control[STILL] += packets
        if control[FASTER] == 1 or control[STILL] * UNIT > control[WINDOW]:
            control[FASTER] = 1
            _set_window(control, control[WINDOW] + packets * control[SCALE] // FAST)
            return
        missing = PROPORTIONAL * (target - delay) * UNIT // REFERENCE_NS
        control[GROWTH] += packets * control[SCALE] * missing
    elif marked == 0:
        control[GROWTH] += packets * control[SCALE] * FAIR * UNIT
    elif delay >= target:
        control[STILL] = control[FASTER] = 0
        if control[MEAN] > target and now - control[CUT_NS] > control[TRIP]:
            over = control[WINDOW] * (control[MEAN] - target) // control[MEAN]
            control[CUT_NS] = now
            control[CUTS] += 1
            cut = min(over * EXCESS[0] // EXCESS[1], control[WINDOW] // MOST_CUT)
            _set_window(control, control[WINDOW] - cut)
    control[ADDED] += packets
    if control[ADDED] >= ADJUSTED or now >= control[ADJUST_NS]:
        _adjust(control, now)


@njit(cache=True)
def on_timer(control, now, why):
    """Take what has arrived as the window after losses, or a packet for each."""
    if why == DUE:
        return
    control[LOST] = 1
    if not _quick_adapt(control, now, True):
        control[CUTS] += 1
        _set_window(control, control[WINDOW] - UNIT)


@njit(cache=True)
def _adjust(control, now):
    """Let increases count."""
    control[WINDOW] += control[GROWTH] // control[WINDOW]
    control[GROWTH] = control[ADDED] = 0
    control[ADJUST_NS] = now + control[TRIP]
    if now >= control[ETA_NS]:
        control[WINDOW] += control[SCALE] * ALWAYS[0] // ALWAYS[1]
        control[ETA_NS] = now + control[TRIP]
    _set_window(control, control[WINDOW])


@njit(cache=True)
def _quick_adapt(control, now, is_bad):
    """True if the window is now what has arrived since the last time."""
    if now < control[QUICK_NS]:
        return False
    came, lost = control[CAME] * UNIT, control[LOST]
    control[QUICK_NS] = now + 2 * control[TRIP]
    control[CAME] = control[LOST] = 0
    if (not is_bad and lost == 0) or came >= control[WIDEST] // GATE:
        return False
    control[CUTS] += 1
    control[GROWTH] = control[ADDED] = 0
    _set_window(control, came)
    return True


@njit(cache=True)
def _set_window(control, window):
    control[WINDOW] = min(max(window, UNIT), control[WIDEST])
