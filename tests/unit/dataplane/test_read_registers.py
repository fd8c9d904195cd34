"""Aggregators in use, and links, as switches are asked about them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed.dataplane.link_shaping import shape_links
from testbed.dataplane.read_registers import occupancy, occupancy_calls
from testbed.experiment import load_text
from testbed.schemes import pool, set_up

TEXT = """
runtime: virtual
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
links: {bandwidth: 1 Gbit/s, delay: 10 us, queue: 16 packets}
system: esa
memory: {aggregators: 8}
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
"""


def platform(switch):
    scheme = SimpleNamespace(statistics=lambda _: pool.STATISTICS, may_hold=lambda _: False)
    system = SimpleNamespace(memory=True)
    jobs = {"job_count": 3, "numbers": 5, "owners": [0, 1, 2, 1, 1]}  # two groups of job 1
    return SimpleNamespace(switch=switch, system=system, scheme=scheme, **jobs)


def test_on_bmv2_each_aggregator_is_looked_at():
    """Counts that are read one after the other would not fit together there."""
    held = {"slot_job": [0, 1, 4, 2, 5], "slot_state": [1, 2, 1, 0, 1]}
    client = SimpleNamespace(batch=lambda calls: [held[name] for _, name in calls])
    assert occupancy(platform("bmv2"), client) == [(0, 1, 0), (1, 1, 1), (2, 0, 0)]


@pytest.mark.parametrize(
    "switch, call", [("bmv2", "register_read"), ("embedded", "register_words")]
)
def test_registers_are_words_where_a_switch_has_them(switch, call):
    assert {each[0] for each in occupancy_calls(platform(switch))} == {call}


def test_the_way_through_a_switch_adds_to_the_delay_of_what_leaves():
    setup, calls = set_up(load_text(TEXT)), []
    client = SimpleNamespace(batch=calls.extend)
    shape_links(setup.platform, "s1", client, latency_ns=300)
    delays = {(call[1], call[2]): call[6] for call in calls if call[0] == "port_shape"}
    assert {direction for _, direction in delays} == {"egress", "ingress"}
    for (_, direction), delay_ns in delays.items():
        assert delay_ns == (10_300 if direction == "egress" else 10_000)
