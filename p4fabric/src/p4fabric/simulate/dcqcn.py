"""DCQCN: a rate that notifications of marked packets (CNP) cut and that timers raise.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 3: at a
notification the rate R becomes R (1 - alpha / 2), the target the old R, and alpha (1 - g) alpha +
g. Without one, alpha becomes (1 - g) alpha in every interval. A timer and a counter of bytes raise
R: at their first events half of the way to the target (fast recovery), later the target, too
(additive, then hyper increase).

Two profiles of constants. `PAPER` is the paper's table; it has no constant of hyper increase, so
there is none. `VENDOR` is what the simulator of HPCC (Li et al., SIGCOMM 2019) sets for network
cards as sold: no counter of bytes, at most one cut in 4 us, increases in proportion to the link's
rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from p4fabric.simulate.congestion import CUTS, DUE, LINE, OWN, RATE, TIMER
from p4fabric.simulate.jit import njit
from p4fabric.simulate.tcp_model import NEVER

US, MBIT, MB = 1000, 10**6, 10**6
ONE = 1 << 20  # alpha of 1
PER = 25_000 * MBIT  # rate of the link for which a scaled profile's increases are


@dataclass(frozen=True)
class Profile:
    """Constants. Times in ns, rates in bit/s."""

    cnp_ns: int  # a receiver sends at most one notification in this time, per flow
    gain_shift: int  # g is 2^-gain_shift
    alpha_ns: int  # interval of alpha
    decrease_ns: int  # at most one cut in this time; 0: each notification cuts
    increase_ns: int  # of the timer that raises the rate
    counter_bytes: int  # of the counter that raises it; 0: none
    recoveries: int  # events of fast recovery
    additive_bps: int
    hyper_bps: int  # 0: no hyper increase
    least_bps: int
    scaled: bool  # the increases are for 25 Gbit/s, and in proportion to the link's rate


PAPER = Profile(50 * US, 8, 55 * US, 0, 55 * US, 10 * MB, 5, 40 * MBIT, 0, 40 * MBIT, False)
VENDOR = Profile(4 * US, 8, 1 * US, 4 * US, 300 * US, 0, 1, 5 * MBIT, 50 * MBIT, 1000 * MBIT, True)
LEAST_SHARE = 100  # the least rate is at most so much of a slow link's

# Words of a control
ALPHA, TARGET, BY_TIMER, BY_BYTES, SENT = range(OWN, OWN + 5)
MARKED, MARKED_ALPHA, ALPHA_AT, INCREASE_AT, DECREASE_AT = range(OWN + 5, OWN + 10)
GAIN, ALPHA_NS, DECREASE_NS, INCREASE_NS, COUNTER = range(OWN + 10, OWN + 15)
RECOVERIES, ADDITIVE, HYPER, LEAST = range(OWN + 15, OWN + 19)


def set_constants(control: np.ndarray, profile: Profile) -> None:
    """Write a profile into a connection's words, for its link."""
    line = int(control[LINE])
    share, per = (line, PER) if profile.scaled else (1, 1)
    control[GAIN], control[ALPHA_NS] = profile.gain_shift, profile.alpha_ns
    control[DECREASE_NS], control[INCREASE_NS] = profile.decrease_ns, profile.increase_ns
    control[COUNTER], control[RECOVERIES] = profile.counter_bytes, profile.recoveries
    control[ADDITIVE] = max(profile.additive_bps * share // per, 1)
    control[HYPER] = profile.hyper_bps * share // per
    control[LEAST] = min(profile.least_bps, max(line // LEAST_SHARE, 1))


@njit(cache=True)
def on_start(control, now):
    """A flow begins at the link's rate."""
    control[RATE] = control[TARGET] = control[LINE]
    control[ALPHA] = ONE
    control[ALPHA_AT] = control[INCREASE_AT] = control[DECREASE_AT] = NEVER


@njit(cache=True)
def on_send(control, now, length):
    """Count the bytes of a packet."""
    if control[COUNTER] == 0 or control[RATE] == control[LINE]:
        return
    control[SENT] += length
    if control[SENT] >= control[COUNTER]:
        control[SENT] -= control[COUNTER]
        _increase(control)
        control[BY_BYTES] += 1


@njit(cache=True)
def on_ack(control, now, packets, trip_ns):
    """Round trips say nothing to it."""


@njit(cache=True)
def on_mark(control, now):
    """Cut the rate, at once or when the last cut is long enough ago."""
    if control[DECREASE_NS] == 0:
        _cut(control, now)
        control[ALPHA] += (ONE - control[ALPHA]) >> control[GAIN]
        control[ALPHA_AT] = now + control[ALPHA_NS]
    else:
        control[MARKED_ALPHA] = 1
        if control[ALPHA_AT] == NEVER:
            control[ALPHA_AT] = now + control[ALPHA_NS]
        if control[DECREASE_AT] == NEVER:
            _cut(control, now)
            control[DECREASE_AT] = now + control[DECREASE_NS]
        else:
            control[MARKED] = 1
    _set_timer(control)


@njit(cache=True)
def on_timer(control, now, why):
    """Do what is due first. Losses change no rate."""
    if why != DUE:
        return
    due = control[TIMER]
    if control[DECREASE_AT] == due:
        control[DECREASE_AT] = NEVER
        if control[MARKED] == 1:
            control[MARKED] = 0
            _cut(control, due)
            control[DECREASE_AT] = due + control[DECREASE_NS]
    if control[ALPHA_AT] == due:
        control[ALPHA_AT] = due + control[ALPHA_NS]
        decay = control[ALPHA] >> control[GAIN]
        if control[MARKED_ALPHA] == 1:
            control[MARKED_ALPHA] = 0
            control[ALPHA] += (ONE - control[ALPHA]) >> control[GAIN]
        elif decay == 0:
            control[ALPHA_AT] = NEVER  # it stays as it is
        else:
            control[ALPHA] -= decay
    if control[INCREASE_AT] == due:
        control[INCREASE_AT] = due + control[INCREASE_NS]
        _increase(control)
        control[BY_TIMER] += 1
        if control[RATE] == control[LINE]:
            control[INCREASE_AT] = NEVER
    _set_timer(control)


@njit(cache=True)
def _set_timer(control):
    control[TIMER] = min(control[ALPHA_AT], control[INCREASE_AT], control[DECREASE_AT])


@njit(cache=True)
def _cut(control, now):
    rate = control[RATE]
    control[TARGET] = rate
    control[RATE] = max(rate - ((rate >> 10) * control[ALPHA] >> 11), control[LEAST])
    control[BY_TIMER] = control[BY_BYTES] = control[SENT] = 0
    control[INCREASE_AT] = now + control[INCREASE_NS]
    control[CUTS] += 1


@njit(cache=True)
def _increase(control):
    """An event of the timer or of the counter."""
    by_timer, by_bytes, first = control[BY_TIMER], control[BY_BYTES], control[RECOVERIES]
    both = min(by_timer, by_bytes) if control[COUNTER] > 0 else by_timer
    if max(by_timer, by_bytes) >= first:
        hyper = control[HYPER] > 0 and both > first
        control[TARGET] += control[HYPER] if hyper else control[ADDITIVE]
    control[TARGET] = min(control[TARGET], control[LINE])
    control[RATE] = (control[TARGET] + control[RATE] + 1) // 2
