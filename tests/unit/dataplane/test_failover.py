"""Planned failures of links under a clock that is late."""

from __future__ import annotations

import contextlib
from collections import defaultdict

from testbed.dataplane.failover import Failover
from testbed.experiment import load_text
from testbed.schemes import set_up
from tests.support.link_faults import text

FAILS = "{at: 150 ms, fault: link_down, between: [s1, s3], failover: 100 ms, for: 400 ms}"
AGAIN = "{at: 1 s, fault: link_down, between: [s1, s4], failover: 100 ms}"
MS = 1_000_000


class Switch:
    """Takes calls, and finds every entry."""

    def __init__(self):
        self.calls = []

    def batch(self, calls):
        self.calls += calls
        return [0 for _ in calls]

    def ports(self):
        return [call[1:] for call in self.calls if call[0] == "port_up"]


def failover(system="esa", switches=None, clock=None, faults=(FAILS, AGAIN)):
    setup = set_up(load_text(text(system, *faults, virtual=False)))
    switches = defaultdict(Switch) if switches is None else switches
    asked = lambda name: contextlib.nullcontext(switches[name])  # noqa: E731
    return Failover(setup, asked, lambda parts: None, lambda *begun: None, clock)


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


def test_links_change_at_both_ends():
    switches = defaultdict(Switch)
    links = failover(switches=switches)
    assert links.last_ns == -1 and links.returns()
    links.tick(150 * MS)
    assert (switches["s1"].ports(), switches["s3"].ports()) == ([(5, False)], [(1, False)])
    assert links.last_ns == 150 * MS
    links.tick(250 * MS)
    called = [call[0] for switch in switches.values() for call in switch.calls]
    written = [name for name in called if name not in ("port_up", "table_find")]
    assert links.followed[0].entries == len(written) > 0 and links.last_ns == 250 * MS
    begun = Switch()
    links.install("s3", begun)
    assert begun.ports() == [(1, False)]
    links.tick(550 * MS)
    assert switches["s1"].ports()[1:] == [(5, True)] and not links.returns()
    assert "s2" not in switches or not switches["s2"].ports()


def test_what_happened_to_links_becomes_rows():
    links = failover("grid")
    before = [(row["fault"], row["begun_ns"], row["ended_ns"]) for row in links.rows(2_000 * MS)]
    assert before == [(0, None, None), (1, None, None)]
    while (now_ns := links.next_ns()) < 1_050 * MS:
        links.tick(now_ns)
    columns = ("fault", "kind", "target", "job", "at_ns", "begun_ns", "ended_ns")
    rows = links.rows(2_000 * MS)
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (0, "link_down", "link s1-s3", None, 150 * MS, 150 * MS, 550 * MS),
        (1, "link_down", "link s1-s4", None, 1_000 * MS, 1_000 * MS, 2_000 * MS),
        (2, "reroute", "all switches", None, 250 * MS, 250 * MS, 250 * MS),
        (3, "replan", "job a", 0, 250 * MS, 250 * MS, 250 * MS),
        (4, "replan", "job b", 1, 250 * MS, 250 * MS, 250 * MS),
        (5, "reroute", "all switches", None, 650 * MS, 650 * MS, 650 * MS),
        (6, "replan", "job a", 0, 650 * MS, 650 * MS, 650 * MS),
        (7, "replan", "job b", 1, 650 * MS, 650 * MS, 650 * MS),
    ]
    assert [row["rate_bps"] for row in rows] == [None] * 3 + [5e6, 5e6, None, 5e6, 10e6]
    assert [row["entries"] for row in rows if row["kind"] == "reroute"] == [
        each.entries for each in links.followed
    ]


def test_a_link_is_down_before_the_switches_have_done_it_and_up_after():
    """The clock goes on by 1 ms whenever it is read."""
    times_ns = iter(range(150 * MS, 10_000 * MS, MS))
    links = failover(clock=lambda: next(times_ns))
    links.tick(150 * MS)
    assert links.done[0][1] == 150 * MS
    times_ns = iter(range(550 * MS, 10_000 * MS, MS))
    links.tick(550 * MS)
    assert [(change.up, at_ns) for change, at_ns in links.done] == [
        (False, 150 * MS), (True, 552 * MS)
    ]  # fmt: skip


def test_a_failure_ends_with_its_own_link():
    other = "{at: 200 ms, fault: link_down, between: [s2, s4], failover: 100 ms, for: 500 ms}"
    links = failover(faults=(FAILS, other))
    links.tick(2_000 * MS)
    while (now_ns := links.next_ns()) < 3_000 * MS:
        links.tick(now_ns)
    first, second, *_ = links.rows(9_000 * MS)
    assert first["ended_ns"] - first["begun_ns"] == 400 * MS
    assert second["ended_ns"] - second["begun_ns"] == 500 * MS
