"""Congestion controls alone, and reliable connections: a sender and a receiver by hand."""

from __future__ import annotations

import heapq
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.transports import CONTROLS, OWN_WINDOW, PRODUCT
from p4fabric.simulate import controls, dcqcn, nscc, reliable, swift
from p4fabric.simulate.congestion import (
    CUTS,
    DUE,
    GAP,
    LINE,
    RATE,
    TIMEOUT,
    TIMER,
    UNIT,
    WIDEST,
    WINDOW,
)
from p4fabric.simulate.records import new_table
from p4fabric.simulate.tcp_model import NEVER

LINE_BPS, LENGTH, TRIP_NS, PRODUCT_PACKETS = 40 * 10**9, 1000, 20_000, 101
US = 1000


def words(name, window=OWN_WINDOW, line_bps=LINE_BPS):
    return controls.new_words(name, line_bps, LENGTH, TRIP_NS, PRODUCT_PACKETS, window)


def until(control, now):
    """Let the timers of DCQCN go off that are due before `now`."""
    while control[TIMER] < now:
        dcqcn.on_timer(control, control[TIMER], DUE)


def test_all_names_have_a_control_and_a_window():
    assert tuple(controls.CONTROLS)[: len(CONTROLS)] == CONTROLS
    for name in CONTROLS:
        own, given, product, free = (
            int(words(name, window)[WINDOW]) for window in (OWN_WINDOW, 7, PRODUCT, None)
        )
        windowed = controls.CONTROLS[name].windowed
        most = UNIT * 150 if name == "nscc" else NEVER  # 1.5 products of 100 kB
        assert own == (product if windowed else most) and free == most
        assert (given, product) == (7 * UNIT, PRODUCT_PACKETS * UNIT)


def test_dcqcn_is_as_its_paper_has_it():
    """Section 3, by hand: cuts, alpha, five recoveries of 55 us, and increases of 40 Mbit/s."""
    control = words("dcqcn")
    dcqcn.on_start(control, 0)
    dcqcn.on_mark(control, 0)
    assert control[RATE] == LINE_BPS // 2 and control[dcqcn.TARGET] == LINE_BPS
    dcqcn.on_mark(control, 50 * US)  # alpha is still 1
    assert control[RATE] == LINE_BPS // 4 and control[dcqcn.TARGET] == LINE_BPS // 2
    assert control[CUTS] == 2
    rate, target, alpha = LINE_BPS / 4, LINE_BPS / 2, 1.0
    for event in range(1, 12):
        until(control, (50 + 55 * event) * US + 1)
        target += 40e6 if event > 5 else 0
        rate, alpha = (rate + target) / 2, alpha * 255 / 256
        assert control[RATE] == pytest.approx(rate, abs=30)
        assert control[dcqcn.ALPHA] == pytest.approx(alpha * dcqcn.ONE, abs=20)
    until(control, 10**9)
    assert control[RATE] == LINE_BPS and control[TIMER] == NEVER  # nothing is left to be done


def test_the_counter_of_bytes_raises_the_rate_too():
    control = words("dcqcn")
    dcqcn.on_start(control, 0)
    dcqcn.on_mark(control, 0)
    for _ in range(10 * 10**6 // LENGTH):
        dcqcn.on_send(control, 0, LENGTH)
    assert control[RATE] == LINE_BPS * 3 // 4


def test_cards_as_sold_cut_once_in_four_us_and_in_proportion_to_the_link():
    control = words("dcqcn_vendor", line_bps=100 * 10**9)
    dcqcn.on_start(control, 0)
    for now in range(0, 8 * US, 500):
        until(control, now)
        dcqcn.on_mark(control, now)
    until(control, 8 * US + 1)
    assert control[CUTS] == 3  # at 0, 4 and 8 us
    target = int(control[dcqcn.TARGET])
    until(control, (8 + 3 * 300) * US + 1)  # a recovery, an additive and a hyper increase
    assert control[dcqcn.TARGET] - target == 4 * (5 + 50) * 10**6


def test_swift_steers_towards_its_target():
    control = words("swift", 400)
    swift.on_start(control, 0)
    target = TRIP_NS + swift.TARGET_NS
    assert control[WINDOW] == 400 * UNIT == control[WIDEST]
    swift.on_ack(control, 0, 1, 2 * target)  # half above: 0.8 of a half, at most a half
    assert control[WINDOW] == pytest.approx(0.6 * 400 * UNIT, rel=0.01)
    swift.on_ack(control, 1, 1, 2 * target)  # of the same round trip
    assert control[CUTS] == 1
    before = int(control[WINDOW])
    for _ in range(before // UNIT):
        swift.on_ack(control, 2, 1, target - 1)
    assert control[WINDOW] - before == pytest.approx(UNIT, rel=0.02)  # a packet per round trip
    for now in range(10, 40):
        swift.on_timer(control, now * 10**6, TIMEOUT)
    assert control[WINDOW] == swift.LEAST and control[RATE] < LINE_BPS // 10_000
    for _ in range(3000):
        swift.on_ack(control, 10**8, 1, TRIP_NS)
    assert control[WINDOW] > UNIT and control[RATE] == control[LINE]


def test_nscc_is_as_its_constants_have_it():
    """The four cases by hand: a is 100 kB / 150 kB, the target 20 us, the widest window 150."""
    control, a = words("nscc"), 2 / 3
    nscc.on_start(control, 0)
    control[nscc.MEAN] = 2 * TRIP_NS
    for _ in range(2):  # once per round trip
        nscc.on_mark(control, 1)
        nscc.on_ack(control, 1, 1, 3 * TRIP_NS)
        assert control[WINDOW] == pytest.approx(150 * (1 - 0.8 * 0.5) * UNIT, rel=0.001)
    nscc.on_mark(control, 2)
    nscc.on_ack(control, 2, 1, TRIP_NS + 10 * US)
    assert control[WINDOW] == pytest.approx(90 * UNIT, rel=0.001)
    for trip_ns, packets in ((2 * TRIP_NS, 5 * a), (TRIP_NS + 10 * US, 4 * a * 10 / 12)):
        before = int(control[WINDOW])
        for _ in range(before // UNIT):
            nscc.on_ack(control, 3, 1, trip_ns)
        assert control[WINDOW] - before == pytest.approx(packets * UNIT, rel=0.1)
    before = int(control[WINDOW])
    for _ in range(before // UNIT + 10):  # a window of packets without delay, then 10
        nscc.on_ack(control, 4, 1, TRIP_NS)
    grown = 4 * a * 20 / 12 + 10 * a / 4
    assert control[WINDOW] - before == pytest.approx(grown * UNIT, rel=0.15)
    before = int(control[WINDOW])
    nscc.on_timer(control, 5, GAP)
    assert control[WINDOW] == before - UNIT


def test_nscc_adapts_quickly_to_what_arrives():
    control = words("nscc")
    nscc.on_start(control, 0)
    for now, trips, window in ((TRIP_NS, 6, 150), (2 * TRIP_NS, 6, 11), (3 * TRIP_NS, 6, 11)):
        nscc.on_ack(control, now, 10 if now == TRIP_NS else 1, trips * TRIP_NS)
        assert control[WINDOW] // UNIT == window
    nscc.on_timer(control, 5 * TRIP_NS, TIMEOUT)  # 1 packet has come
    assert control[WINDOW] == UNIT


# -- connections


def connection(sending, name, recovery, ack_every, burst):
    made = new_table(
        reliable.END,
        sending=int(sending),
        length=LENGTH,
        recovery=recovery,
        burst=burst,
        every_ns=10**9,
        end_ns=NEVER,
        furthest=-1,
        ack_every=ack_every,
        answer_ns=TRIP_NS,
        answer_at_ns=NEVER,
        timeout_at_ns=NEVER,
        least_timeout_ns=8 * TRIP_NS,
        cnp_ns=-1 if controls.CONTROLS[name].cnp_ns is None else controls.CONTROLS[name].cnp_ns,
    )
    return reliable.new_ends([made], [words(name)])


def carry(name, recovery, ack_every, burst, loss, seed, held_up_ns=3000):
    """A burst over a network that loses, doubles, marks and holds up packets, until it has arrived.
    Returns the records of sender and receiver."""
    drawn = random.Random(seed)
    sender = connection(True, name, recovery, ack_every, burst)
    receiver = connection(False, name, recovery, ack_every, burst)
    (there,), (here,) = receiver.ends, sender.ends
    events: list = []
    wake_ns, order, passed, whole = 0, 0, set(), 0

    def put(now, *what):
        nonlocal order
        for _ in range(drawn.choices((0, 1, 2), (loss, 1 - loss - loss / 3, loss / 3))[0]):
            late = drawn.choice((0, 0, 0, held_up_ns)) if loss else 0
            order += 1
            heapq.heappush(events, (now + TRIP_NS // 2 + late, order, *what))

    while here.bursts == 0:
        assert order < 400 * burst, "it makes no progress"
        now = min(wake_ns, events[0][0] if events else NEVER, int(there.answer_at_ns))
        assert now < NEVER, "it has stopped"
        while events and events[0][0] <= now:
            _, _, kind, *what = heapq.heappop(events)
            if kind == "data":
                reliable.receive(receiver, 0, *what, int(drawn.random() < loss), now)
                passed.add(what[0])
            elif kind == "ack":
                reliable.acknowledged(sender, 0, *what, now)
            else:
                reliable.notified(sender, 0, now)
        while whole in passed:
            whole += 1
        assert there.expected <= whole and there.expected <= here.past
        if there.notifies:
            there.notifies = 0
            put(now, "cnp")
        if there.answer_at_ns <= now:
            echo_ns = int(there.echo_ns)
            put(now, "ack", *reliable.answered(there), echo_ns)
        while True:
            number, wake_ns = reliable.next_packet(sender, 0, now)
            if number < 0:
                break
            put(now, "data", int(number), now)
            window = int(sender.controls[0, WINDOW])
            assert here.in_flight * UNIT <= max(window, UNIT) or window < sender.controls[0, WIDEST]
        wake_ns = max(wake_ns, now + 1)
    return here, there


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(CONTROLS),
    st.sampled_from([reliable.GO_BACK_N, reliable.SELECTIVE]),
    st.integers(1, 8),
    st.integers(1, 150),
    st.sampled_from([0, 0.01, 0.2]),
    st.integers(0, 1 << 32),
)
def test_everything_arrives(name, recovery, ack_every, burst, loss, seed):
    here, there = carry(name, recovery, ack_every, burst, loss, seed)
    assert here.oldest == there.expected == burst
    resent = here.resent_gap + here.resent_timeout
    assert here.packets_sent == burst + resent and here.lost == 0
    if loss == 0:
        assert resent == there.dropped == here.told == 0


def test_selective_repeat_repeats_what_is_lost_and_go_back_n_all_behind_it():
    sent = {}
    for recovery in (reliable.GO_BACK_N, reliable.SELECTIVE):
        here, there = carry("none", recovery, 1, 400, 0.02, 5, 0)
        sent[recovery] = int(here.packets_sent)
        assert (there.dropped > 0) == (recovery == reliable.GO_BACK_N)
    assert sent[reliable.SELECTIVE] < 420 and sent[reliable.GO_BACK_N] > 600


def test_notifications_keep_their_interval():
    ends = connection(False, "dcqcn", reliable.GO_BACK_N, 1, 0)
    (end,) = ends.ends
    times = []
    for number, now in enumerate(range(0, 200 * US, 1300)):
        reliable.receive(ends, 0, number, 0, 1, now)
        if end.notifies:
            end.notifies = 0
            times.append(now)
    assert len(times) == 4 and np.diff(times).min() >= 50 * US
