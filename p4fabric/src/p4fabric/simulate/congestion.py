"""The state of a congestion control: one row of 64-bit words for each connection.

A control is a module with five functions of such a row, which have no clock of their own:

    on_start(control, now)                      the connection begins
    on_send(control, now, length)               a packet of so many bytes leaves
    on_ack(control, now, packets, trip_ns)      so many packets are newly acknowledged
    on_mark(control, now)                       a congestion notification (CNP) has come
    on_timer(control, now, why)                 TIMER is due, or a packet is lost: GAP, TIMEOUT

They set RATE and WINDOW, which say when a sender may send, and TIMER. Words from OWN on are the
control's own. All numbers are integers, so a run is the same on every machine. Times are in ns,
rates in bit/s. controls.py lists the controls and calls them.
"""

from __future__ import annotations

import numpy as np

from p4fabric.simulate.jit import njit
from p4fabric.simulate.tcp_model import NEVER

KIND = 0  # number of the control (controls.py)
LINE = 1  # rate of the host's link
RATE = 2  # rate of sending
WINDOW = 3  # most packets in flight, in 1/UNIT; below UNIT, one packet at RATE
WIDEST = 4  # most that WINDOW may be
TIMER = 5  # when on_timer is to be called
PACKET = 6  # bytes of a full packet
TRIP = 7  # round trip in the empty network
CUTS = 8  # how often the control has slowed down
OWN = 9  # the first of the control's own words
WORDS = 32

UNIT = 1024  # of a window, to one packet
DUE, GAP, TIMEOUT = 0, 1, 2  # why on_timer is called


def new_control(kind: int, line_bps: int, packet_bytes: int, trip_ns: int) -> np.ndarray:
    """A row of words with no limit but the link's rate."""
    control = np.zeros(WORDS, np.int64)
    control[KIND], control[LINE], control[RATE] = kind, line_bps, line_bps
    control[WINDOW] = control[WIDEST] = NEVER
    control[PACKET], control[TRIP], control[TIMER] = packet_bytes, trip_ns, NEVER
    return control


# -- without congestion control: the rate of the link, and a constant window


@njit(cache=True)
def on_start(control, now):
    """Nothing to prepare."""


@njit(cache=True)
def on_send(control, now, length):
    """The rate is constant."""


@njit(cache=True)
def on_ack(control, now, packets, trip_ns):
    """The window is constant."""


@njit(cache=True)
def on_mark(control, now):
    """Marks are ignored."""


@njit(cache=True)
def on_timer(control, now, why):
    """Losses are repaired, and change no rate."""
