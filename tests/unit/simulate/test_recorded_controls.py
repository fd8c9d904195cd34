"""Each congestion control through calm, marked and lossy times, against the record of the rates
and windows that it had (tests/support/recorded.py)."""

from __future__ import annotations

import pytest
from p4fabric.base.transports import CONTROLS, OWN_WINDOW
from p4fabric.simulate import controls
from p4fabric.simulate.congestion import CUTS, GAP, RATE, TIMEOUT, TIMER, WINDOW

from tests.support import recorded

LINE_BPS, LENGTH, TRIP_NS, PRODUCT = 40 * 10**9, 1000, 20_000, 101
PHASES, EVENTS = 30, 40
US, MS = 1000, 1_000_000


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_does_what_it_did(name):
    control = controls.new_words(name, LINE_BPS, LENGTH, TRIP_NS, PRODUCT, OWN_WINDOW)
    draw, made, now = recorded.Draw(name), recorded.Record(), 0
    for _ in range(PHASES):
        marked, lost = draw.one((0, 10, 70)), draw.one((0, 0, 5, 30))
        longest, pause = draw.one((0, 2 * US, 15 * US, 200 * US)), draw.one((2 * US, 60 * US, MS))
        for _ in range(EVENTS):
            now += draw.one((0, 100, US, pause))
            controls.catch_up(control, now)
            if draw.chance(marked):
                controls.on_mark(control, now)
            if draw.chance(lost):
                controls.on_timer(control, now, draw.one((GAP, TIMEOUT)))
            controls.on_send(control, now, draw.one((LENGTH, 10**6)))
            trip_ns = TRIP_NS + draw.randrange(longest + 1)
            controls.on_ack(control, now, draw.one((0, 1, 1, 2, 8)), trip_ns)
            made.note(now, " ".join(str(control[word]) for word in (RATE, WINDOW, TIMER)), b"")
    made.facts["cuts"] = int(control[CUTS])
    made.hold("controls", name)
