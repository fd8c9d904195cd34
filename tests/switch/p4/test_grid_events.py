"""GRID's steps in a switch, one packet at a time, against the compiled p4/grid.p4."""

from __future__ import annotations

import pytest
from p4fabric.base.topology import host_ip
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed import dataplane
from testbed.dissect import Ina
from testbed.protocols import wire
from testbed.protocols.sizes import NO_NODE
from tests.support.experiments import setup_of
from tests.support.grid import text_of
from tests.support.switches import Sent, start_switches

# At 2608 Mbit/s a frame takes a microsecond, to the nanosecond.
STAR = """
name: star
topology: {kind: star, hosts: 4}
links: {bandwidth: 1 Gbit/s}
switches: {capacity: 2608 Mbit/s, burst: %(burst)d packets}
system: {name: grid, memory: %(memory)s, collision: %(collision)s}
memory: {aggregators: 8}
jobs:
  - {model: alexnet, workers: 3, iterations: 1, scale: 0.0001}
"""


class Switch:
    """One switch of a GRID experiment with one job."""

    def __init__(self, text: str, name: str) -> None:
        self.setup = setup_of(text)
        self.switch = start_switches(self.setup)[name]
        self.job = self.setup.jobs[0].group.routed_plan
        self.now = 1_000_000

    def gradient(self, worker: int, fragment: int = 0, **fields) -> list[Sent]:
        """A worker's fragment comes in as the plan's first assignment of the worker says."""
        topology = self.setup.platform.topology
        way = self.job.workers[worker].assignments[0]
        node = topology.number(way.node) if way.group else NO_NODE
        host = self.job.workers[worker].host
        packet = Ina(
            kind=wire.GRADIENT,
            fragment_number=fragment,
            sender=worker,
            bitmap=1 << worker,
            values=[10**worker] * 64,
            **{"node": node, "extra": way.tag, "index": fragment, "priority": 100, **fields},
        )
        return self.send(host, host_ip(topology.number(self.job.ps)), packet)

    def send(self, host: str, to: str, packet: Ina) -> list[Sent]:
        topology = self.setup.platform.topology
        port = next(
            p for p, (o, _, _) in topology.ports(topology.switch_of(host)).items() if o == host
        )
        frame = bytes(
            Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
            / IP(src=host_ip(topology.number(host)), dst=to)
            / UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
            / packet
        )
        self.switch.receive(port, frame, self.now)
        return [Sent(port, Ether(data)) for _, port, data in self.switch.run()]

    def counters(self) -> dict[str, int]:
        rows = dataplane.counters(self.setup.platform, self.switch)
        return {name: value for _, name, value in rows if value and not name.endswith("_ns")}


def star(memory: str = "plain", collision: str = "server", burst: int = 1000) -> Switch:
    return Switch(STAR % {"memory": memory, "collision": collision, "burst": burst}, "s1")


def only(leaving: list[Sent]) -> Sent:
    """The one packet that leaves."""
    assert len(leaving) == 1
    return leaving[0]


def test_a_switch_adds_what_names_it_and_forwards_the_rest():
    one = Switch(text_of(), "s1")
    (group,) = (group for group in one.job.groups if group.node == "s1")
    (fourth,) = {0, 1, 2, 3} - set(group.workers)
    passed = only(one.gradient(fourth))
    assert passed.port == 6  # to s2
    way = one.job.workers[fourth].assignments[0]
    assert (passed.node, passed.extra, passed.flags) == (2, way.tag, 0)
    assert passed.values == [10**fourth] * 64
    assert one.counters() == {}
    first, second, third = group.workers
    assert one.gradient(first) == one.gradient(second) == []
    total = only(one.gradient(third))
    assert total.port == 5  # to s3
    assert (total.node, total.extra) == (1, group.tag)
    assert total.bitmap == group.bitmap
    assert total.values == [sum(10**worker for worker in group.workers)] * 64
    assert one.counters() == {
        "allocations": 1,
        "additions": 1,
        "completions": 1,
        "ended_completed": 1,
    }


def test_a_raw_gradient_and_a_sum_leave_on_different_links_for_the_same_server():
    """Two raw ones, too: that is what tags are for."""
    one = Switch(text_of(planner="none"), "s1")
    ports = [one.gradient(worker)[0].port for worker in range(4)]
    assert sorted(ports) == [5, 5, 5, 6]


def test_packets_beyond_the_capacity_pass_unchanged():
    one = star(burst=2)
    assert one.gradient(0, 0) == one.gradient(1, 0) == []
    third = only(one.gradient(2, 0))
    assert third.flags == wire.OVER_RATE and third.bitmap == 1 << 2
    assert third.values == [100] * 64
    assert third.extra == one.job.groups[0].tag
    # A retransmission is not added, so it is not metered: it takes the sum along.
    flushed = only(one.gradient(2, 0, flags=wire.RESEND))
    assert flushed.bitmap == 0b111 and flushed.values == [111] * 64
    counted = one.counters()
    assert counted["over_rate"] == 1 and counted["flush_additions"] == 1


@pytest.mark.parametrize("pace_ns, marked", [(1000, False), (990, True)])
def test_a_sender_that_keeps_the_pace_is_never_marked(pace_ns, marked):
    one = star(burst=1)
    for number in range(600):
        one.gradient(number % 3, number // 3)
        one.now += pace_ns
    assert ("over_rate" in one.counters()) == marked


def test_the_capacity_is_shared_by_all_whose_fragments_name_the_switch():
    one = star(burst=1)
    one.gradient(0, 0)
    one.gradient(0, 1, node=NO_NODE)  # takes nothing of it
    one.now += 1000
    one.gradient(1, 0)
    assert "over_rate" not in one.counters()


def test_a_tag_that_means_nothing_here_is_not_added():
    """As of a plan that holds no longer: the packet names this switch, and no group of it."""
    one = star()
    for worker in range(3):
        for sent in one.gradient(worker, extra=999):
            assert (sent.bitmap, sent.extra) == (1 << worker, 999)
    assert one.counters() == {}


def test_a_collision_goes_to_the_server_or_back():
    safe = star()
    assert safe.gradient(0, 0) == []
    bypassed = only(safe.gradient(1, 1, index=0))
    assert bypassed.port == 4 and bypassed.flags == wire.COLLISION
    assert bypassed.values == [10] * 64
    dropping = star(collision="drop")
    assert dropping.gradient(0, 0) == []
    told = only(dropping.gradient(1, 1, index=0))
    assert told.port == 2  # back to its sender
    assert told.kind == wire.COLLIDED and told.fragment == 1 and not told.values
    ip = told.packet[IP]
    assert (ip.src, ip.dst) == ("10.255.0.1", "10.0.0.2")
    assert ip.len == 28 + len(bytes(told.ina)) == told.packet[UDP].len + 20
    assert dropping.counters()["collisions"] == 1


def test_a_contender_that_loses_is_told_too():
    """With ESA's memory: that its aggregator is taken is a collision, whoever has priority."""
    one = star("esa", collision="drop")
    assert one.gradient(0, 0, priority=200) == []
    told = only(one.gradient(1, 8, index=0, priority=10))
    assert (told.kind, told.fragment, told.port) == (wire.COLLIDED, 8, 2)


def test_an_evicted_sum_takes_the_way_of_its_group():
    one = star("esa")
    assert one.gradient(0, 0, priority=10) == []
    evicted = only(one.gradient(1, 8, index=0, priority=200))
    assert (evicted.fragment, evicted.flags) == (0, wire.PARTIAL)
    assert (evicted.node, evicted.extra, evicted.port) == (1, one.job.groups[0].tag, 4)


def test_each_group_has_its_own_tag():
    """At the server's switch the nearest scheme has two groups: W7 and W8 alone, and the remainder
    of W1 to W4 with them. What evicts a sum of one group leaves it that group's tag."""
    one = Switch(text_of(planner="nearest"), "s3")
    pair, all_six = (group for group in one.job.groups if group.node == "s3")
    assert pair.workers == (6, 7) and all_six.workers == (0, 1, 2, 3, 6, 7)
    tag_of = {each.group: each.tag for each in one.job.workers[6].assignments}
    first = {"node": 3, "extra": tag_of[pair.number], "priority": 10}
    assert one.gradient(6, 0, **first) == []
    second = {"node": 3, "extra": tag_of[all_six.number], "priority": 200, "index": 0}
    evicted = only(one.gradient(6, 1, **second))
    assert (evicted.fragment, evicted.extra) == (0, pair.tag)
    total = one.gradient(7, 1, **second)  # two are not all of this group
    assert total == []


def test_a_sum_that_turns_back_gets_another_tag():
    """Only s2 aggregates, and the server's link is narrow: W7's fragments go from s3 to s2, and
    their sum comes back through s3."""
    one = Switch(
        text_of(
            links="{between: [s3, h9], bandwidth: 1 Gbit/s}",
            switches="{switch: s1, aggregates: false}, {switch: s3, aggregates: false}",
        ),
        "s2",
    )
    (group,) = one.job.groups
    assert group.node == "s2" and group.path == ("s2", "s3", "h9")
    assert one.job.workers[6].assignments[0].path == ("h7", "s3", "s2")
    assert one.job.workers[6].assignments[0].tag != group.tag
    *others, last = sorted(group.workers, key=lambda worker: worker == 6)
    assert last == 6
    for worker in others:
        assert one.gradient(worker) == []
    assert only(one.gradient(last)).extra == group.tag


def test_a_reminder_pulls_a_sum_on_its_way():
    one = star()
    assert one.gradient(0, 0) == []
    reminder = Ina(kind=wire.REMINDER, node=1, fragment_number=0, sender=0x4000)
    pulled = only(one.send("h4", "10.255.0.1", reminder))
    assert (pulled.kind, pulled.flags) == (wire.GRADIENT, wire.PARTIAL | wire.REMINDED)
    assert (pulled.port, pulled.extra) == (4, one.job.groups[0].tag)
    nothing = only(one.send("h4", "10.255.0.1", reminder))
    assert (nothing.kind, nothing.port) == (wire.REMINDER_EMPTY, 4)


TWO_LEVELS = """
name: two-levels
topology: {kind: two_level, tors: 3, hosts: 2}
links: {bandwidth: 1 Gbit/s}
system: {name: grid, planner: two-level, memory: %s}
memory: {aggregators: 8}
jobs:
  - {model: alexnet, workers: 6, iterations: 1, scale: 0.0001}
"""


def test_a_complete_sum_names_the_switch_that_adds_it_to_others():
    for memory in ("esa", "atp", "plain"):
        text = TWO_LEVELS % memory
        job = setup_of(text).jobs[0].group.routed_plan
        below = next(group for group in job.groups if group.parent)
        above = next(group for group in job.groups if group.number == below.parent)
        one = Switch(text, below.node)
        there = one.setup.platform.topology.number(above.node)
        *others, last = below.workers
        for worker in others:
            assert one.gradient(worker) == []
        total = only(one.gradient(last))
        assert (total.node, total.extra) == (there, below.tag)
        assert (total.bitmap, total.flags) == (below.bitmap, 0)
        if memory == "atp":  # ATP holds it until its result comes, and sends it again till then
            again = only(one.gradient(others[0]))
            assert (again.node, again.extra, again.bitmap) == (there, below.tag, below.bitmap)
        # Part of a sum goes the same way and names no switch on it: only the server adds it.
        assert one.gradient(others[0], fragment=1) == []
        pulled = only(one.gradient(others[0], fragment=1, flags=wire.RESEND))
        assert pulled.node != there and pulled.extra == below.tag
        assert pulled.bitmap == 1 << others[0]
