"""Hosts that take turns do the same as all events in their order, to the last bit."""

from __future__ import annotations

import pytest

from tests.support.event_orders import (
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


def source(system: str, topology: str = STAR, delay: str = "1 us", links: str = "") -> str:
    memory = memory_line(system, 48)
    return TEXT.format(system=system, topology=topology, delay=delay, links=links, memory=memory)


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
