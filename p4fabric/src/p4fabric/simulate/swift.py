"""Swift: a window that follows round trips, towards a target of delay.

Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter"
(SIGCOMM 2020), algorithm 1, for the delay of the network; hosts have none here. Below the target
the window grows by one packet per round trip; above it, at most once per round trip, it shrinks by
0.8 of the excess's share of the delay, at most by half, and by half after a loss. A window below
one packet is a packet at a rate. The target is 25 us above the round trip in the empty network,
which holds the paper's part of hops; its scaling by the number of flows is left out.
"""

from __future__ import annotations

import numpy as np

from p4fabric.simulate.congestion import (
    CUTS,
    DUE,
    LINE,
    OWN,
    PACKET,
    RATE,
    TRIP,
    UNIT,
    WIDEST,
    WINDOW,
)
from p4fabric.simulate.jit import njit
from p4fabric.simulate.tcp_model import NEVER

TARGET_NS = 25_000  # above the round trip in the empty network
BETA = 4, 5  # of a decrease, 0.8
MOST_CUT = 2  # a decrease leaves at least 1 / 2
LEAST = 1  # window, in 1/UNIT packets

# Words of a control
DELAY, CUT_NS, SMOOTHED, REST = range(OWN, OWN + 4)  # REST: of the division that is the growth


def set_constants(control: np.ndarray, target_ns: int = TARGET_NS) -> None:
    """Write the target into a connection's words."""
    control[DELAY] = control[TRIP] + target_ns


@njit(cache=True)
def on_start(control, now):
    """The window is as wide as it may be, which the caller has set."""
    control[SMOOTHED] = control[TRIP]
    control[CUT_NS] = -NEVER


@njit(cache=True)
def on_send(control, now, length):
    """The window counts packets, not their bytes."""


@njit(cache=True)
def on_ack(control, now, packets, trip_ns):
    """Follow a round trip."""
    control[SMOOTHED] += (trip_ns - control[SMOOTHED]) // 8
    if trip_ns < control[DELAY]:
        control[REST] += packets * UNIT * UNIT
        window = max(control[WINDOW], UNIT)
        grown = control[REST] // window
        control[REST] -= grown * window
        _set_window(control, control[WINDOW] + grown)
    elif now - control[CUT_NS] >= control[SMOOTHED]:
        over = control[WINDOW] * (trip_ns - control[DELAY]) // trip_ns * BETA[0] // BETA[1]
        _cut(control, now, min(over, control[WINDOW] // MOST_CUT))


@njit(cache=True)
def on_mark(control, now):
    """Marks say nothing to it."""


@njit(cache=True)
def on_timer(control, now, why):
    """Halve the window after a loss."""
    if why != DUE and now - control[CUT_NS] >= control[SMOOTHED]:
        _cut(control, now, control[WINDOW] // MOST_CUT)


@njit(cache=True)
def _cut(control, now, by):
    control[CUT_NS] = now
    control[CUTS] += 1
    _set_window(control, control[WINDOW] - by)


@njit(cache=True)
def _set_window(control, window):
    control[WINDOW] = min(max(window, LEAST), control[WIDEST])
    control[RATE] = control[LINE]
    if control[WINDOW] < UNIT:
        bits = 8 * control[PACKET] * 10**9 // max(control[SMOOTHED], 1)
        control[RATE] = min(max(bits * control[WINDOW] // UNIT, 1), control[LINE])
