"""Planned failures of links under a clock that is late."""

from __future__ import annotations

import contextlib

from testbed.dataplane.failover import Failover
from testbed.experiment import load_text
from testbed.schemes import set_up
from tests.support.link_faults import text

FAILS = "{at: 150 ms, fault: link_down, between: [s1, s3], failover: 100 ms, for: 400 ms}"
AGAIN = "{at: 1 s, fault: link_down, between: [s1, s4], failover: 100 ms}"
MS = 1_000_000


class Switch:
    """Takes calls, and finds every entry."""

    def batch(self, calls):
        return [0 for _ in calls]


def failover():
    setup = set_up(load_text(text("esa", FAILS, AGAIN, virtual=False)))
    return Failover(setup, lambda name: contextlib.nullcontext(Switch()), lambda parts: None)


def times(links):
    changes = [(at_ns // MS, "up" if change.up else "down") for change, at_ns in links.done]
    followed = [(each.at_ns // MS, "routes") for each in links.followed]
    return sorted(changes + followed)


def test_links_change_when_it_is_planned():
    links = failover()
    while (now_ns := links.next_ns()) < 2_000 * MS:
        links.tick(now_ns)
    assert times(links) == [
        (150, "down"), (250, "routes"), (550, "up"), (650, "routes"), (1_000, "down"),
        (1_100, "routes"),
    ]  # fmt: skip


def test_what_follows_from_a_late_change_is_as_late():
    links = failover()
    links.tick(700 * MS)  # 550 ms late
    assert times(links) == [(700, "down")]
    assert links.next_ns() == 800 * MS
    links.tick(800 * MS)
    assert links.next_ns() == 1_100 * MS
    links.tick(1_150 * MS)
    assert times(links)[-1] == (1_150, "up")
    assert links.next_ns() == 1_250 * MS


def test_another_failure_is_not_late_for_that():
    links = failover()
    for now_ms in (200, 300, 600, 700):
        links.tick(now_ms * MS)
    assert links.next_ns() == 1_000 * MS
