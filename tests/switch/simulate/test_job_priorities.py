"""Priorities that a job's key `priorities` gives, to calls and to all of its fragments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed.experiment import load_text
from testbed.setup.host_specs import _levels
from testbed.traffic.rank_calls import Call, Group
from testbed.traffic.rank_graph import GroupRoute, Node
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: both
runtime: virtual
topology: {kind: star, hosts: 8}
links: {bandwidth: 10 Gbit/s, delay: 20 us}
system: {name: esa, downgrading: no, window: 64}
memory: {aggregators: 40}
values_per_packet: 64
jobs:
"""
JOB = """\
  - {name: %s, model: resnet50, workers: 3, iterations: 1, scale: 0.005, compute_scale: 0,
     priorities: {all: %d}}
"""


def experiment(first, second):
    return EXPERIMENT + JOB % ("a", first) + JOB % ("b", second)


def test_the_more_urgent_job_keeps_more_aggregators():
    """Of two equal jobs. (A fragment that is evicted is a packet more for its server.)"""
    for high in (0, 1):
        levels = (250, 10) if high == 0 else (10, 250)
        jobs = run_virtual(load_text(experiment(*levels)))["jobs"]
        packets = [job["ps_packets"] for job in jobs]
        assert packets[high] < packets[1 - high] and all(job["exact"] for job in jobs)


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"tp.1": 9, "tp": 8, "all_gather": 7, "all": 6}, (9, 9)),
        ({"tp": 8, "all_gather": 7, "all": 6}, (8, 8)),
        ({"all_gather": 7, "all": 6}, (6, 7)),
        ({"tp.0": 9, "all_gather": 7}, (0, 7)),
        ({}, ()),
    ],
)
def test_names_of_groups_count_before_those_of_calls(given, expected):
    """Of an all_gather and the all_reduce after it, the last one first."""
    calls = tuple(Call(Node(kind, group="tp.1"), 4) for kind in ("all_gather", "all_reduce"))
    job = SimpleNamespace(
        job=SimpleNamespace(priorities=given),
        ranks=SimpleNamespace(calls=Group(GroupRoute("tp.1"), (0, 1), calls)),
    )
    assert _levels(job) == expected


@pytest.mark.parametrize(
    "system, given, said",
    [
        ("atp", "{all: 9}", "only fragments of system esa have them"),
        ("esa", "{tp: 9}", "only a program of ranks has; name all alone"),
        ("esa", "{all: 0}", "allowed: a whole number from 1 to 255"),
        ("esa", "[9]", "a mapping of names to priorities"),
    ],
)
def test_what_cannot_be_is_told(system, given, said):
    text = experiment(1, 1).replace("esa, downgrading: no, window: 64", system)
    with pytest.raises(Exception, match=said):
        load_text(text.replace("{all: 1}", given))
