"""Sums of all workers of a group that a switch completes, counted over all groups and all trees."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed.experiment import load_text
from testbed.schemes import set_up
from tests.support.experiments import memory_line
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: leaf_spine, leaves: 4, spines: 2, hosts: 4}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: %s
%s
jobs:
  - {name: job, model: %s, workers: 8, iterations: 2}
"""
GROUPS = {"all": tuple(range(8)), "near": (0, 1), "far": (2, 3, 6), "other": (4, 5, 7)}
SYSTEMS = ("switchml", "{name: tree, mode: quotas, trees: 2}", "{name: esa, release: on_result}")


def program(path) -> str:
    """Groups whose workers meet at a leaf, and others whose workers meet at a spine."""
    made = Ranks(**GROUPS)
    for rank in range(8):
        for group, members in GROUPS.items():
            if rank in members:
                made.add(rank, "all_reduce", group=group, bytes=6_000)
    return str(made.write(path / "run.et"))


@pytest.mark.parametrize("system", first_of(list(SYSTEMS), 2))
def test_all_fragments_are_completed_in_switches(system, tmp_path):
    name = next(each for each in ("switchml", "tree", "esa") if each in system)
    text = EXPERIMENT % (system, memory_line(name, 1024), program(tmp_path))
    tables = run_virtual(load_text(text))
    (job,) = tables["jobs"]
    counted = [row["value"] for row in tables["switch_counters"] if row["counter"] == "sums"]
    assert sum(counted) == job["fragments"] * job["iterations"] > 0


@pytest.mark.parametrize("system", ["switchml", "esa", "grid", "{name: tree, trees: 2}"])
def test_a_sum_is_whole_where_all_workers_meet(system, tmp_path):
    """Of the ways of a group's sums, as the set-up knows them."""
    name = next(each for each in ("switchml", "tree", "esa", "grid") if each in system)
    setup = set_up(load_text(EXPERIMENT % (system, memory_line(name, 1024), program(tmp_path))))
    for job in (*setup.jobs.values(), *setup.groups.values()):
        group = job.group
        assert all(0 <= share <= 1 for share in group.whole_sums.values())
        whole = {switch for switch, share in group.whole_sums.items() if share}
        for tree in group.shapes:
            everyone = {s for s in tree.switches if len(tree.below[s]) == len(group.workers)}
            assert whole & set(tree.switches) <= everyone
            if tree.target in tree.switches:
                assert group.whole_sums[tree.target] == 1
