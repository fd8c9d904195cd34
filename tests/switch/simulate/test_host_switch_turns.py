"""Hosts that take turns do the same as all events in their order, to the last bit."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed.simulate import host_switch_turns
from tests.support.event_orders import (
    assert_equal,
    ended,
    everything,
    go_on_until,
    in_order,
    started,
)
from tests.support.experiments import memory_line

TEXT = """
name: turns
runtime: virtual
topology: {topology}
links: {{bandwidth: 10 Gbit/s, delay: {delay}, ecn_threshold: 20 packets{links}}}
system: {system}
{memory}
values_per_packet: 16
jobs:
  - {{model: resnet18, workers: 4, iterations: 2, scale: 0.001}}
  - {{model: vgg16, workers: 4, iterations: 2, scale: 0.0001, start: 30 us}}
faults:
  - {{at: 40 us, fault: pause, job: resnet18-0, worker: 2, for: 10 ms}}
"""
STAR = "{kind: star, hosts: 10}"
TWO_LEVEL = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"
TROUBLE = ", loss: 0.5 %, duplicate: 0.5 %, jitter: 300 ns, delay_spread: 40 %"
REORDER = ", reorder: 1 %, reorder_delay: 3 us"
CASES = [
    ("esa", STAR, "1 us", ""),
    ("switchml", TWO_LEVEL, "2 us", TROUBLE),
    ("atp", TWO_LEVEL, "1 us", TROUBLE),
    ("{name: grid, memory: esa}", STAR, "1 us", REORDER),
    ("esa", TWO_LEVEL, "20 us", TROUBLE),
    ("ps", STAR, "1 us", TROUBLE),
    ("ring", TWO_LEVEL, "1 us", ""),
]


def source(system: str, topology: str = STAR, delay: str = "1 us", links: str = "") -> str:
    memory = memory_line(system, 48)
    return TEXT.format(system=system, topology=topology, delay=delay, links=links, memory=memory)


@pytest.mark.parametrize(("system", "topology", "delay", "links"), first_of(CASES, 4))
def test_turns_change_nothing(system, topology, delay, links):
    text = source(system, topology, delay, links)
    by_turns = started(text)
    assert by_turns.nodes.world.state[0].to_switch_ns > 0
    end_ns = ended(by_turns)
    one_by_one = in_order(text)
    assert ended(one_by_one) <= end_ns
    go_on_until(one_by_one, end_ns)
    assert one_by_one.events > 5_000
    assert_equal(everything(by_turns), everything(one_by_one))


def test_pieces_of_a_run_change_nothing():
    text = source("esa", links=TROUBLE)
    whole = started(text)
    end_ns = ended(whole)
    pieces = started(text)
    assert ended(pieces, step_ns=1337) == end_ns
    assert_equal(everything(whole), everything(pieces))
    few = started(text)
    assert ended(few, events=500) == end_ns
    assert_equal(everything(whole), everything(few))


def test_the_length_of_a_slice_changes_nothing(monkeypatch):
    text = source("atp", links=TROUBLE)
    whole = started(text)
    end_ns = ended(whole)
    monkeypatch.setattr(host_switch_turns, "SLICE_FRAMES", 2)
    short = started(text)
    assert short.nodes.world.state[0].slice_ns < whole.nodes.world.state[0].slice_ns
    assert ended(short) == end_ns
    assert_equal(everything(whole), everything(short))


def test_turns_are_as_long_as_the_shortest_ways_of_hosts():
    """Each direction counts for itself."""
    each = (
        ", each: [{between: [h1, s1], forward: {delay: 2 us}},"
        " {between: [s1, h2], forward: {delay: 3 us}}]"
    )
    made = started(source("esa", STAR, "5 us", each))
    world, virtual = made.nodes.world, made.nodes.setup.platform.virtual
    handling_ns = min(int(world.hosts[number].delay_ns) for number, _ in made.nodes.present)
    assert world.state[0].to_switch_ns == 2000
    assert world.state[0].to_host_ns == 3000 + virtual.switch_latency_ns + handling_ns


@pytest.mark.parametrize(
    "change",
    [
        ("delay: 1 us", "delay: 0 us"),
        ("jobs:", "background: [{kind: udp, from: h9, to: h10, rate: 100 Mbit/s}]\njobs:"),
    ],
    ids=["links without delay", "background traffic"],
)
def test_where_nothing_is_known_ahead_events_are_in_order(change):
    text = source("esa").replace(*change)
    assert started(text).nodes.world.state[0].to_switch_ns == 0
