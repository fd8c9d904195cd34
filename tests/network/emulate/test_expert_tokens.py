"""Tokens whose packets name their ranks on Mininet: every value, under losses."""

from __future__ import annotations

from tests.support.ranks import Ranks
from tests.support.runs import succeeded

EXPERIMENT = """
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 3}
links: {bandwidth: 100 Mbit/s, delay: 10 us, loss: 1 %%}
system: %s
memory: {aggregators: 256}
jobs:
  - {model: {file: %s, experts: {calls: packets}}, workers: 4, iterations: 2, scale: 1}
"""


def test_owners_in_turn_are_exact_under_losses(tmp_path):
    made = Ranks(one=(0, 1, 2, 3), two=(3, 1))
    for group, owner in (("one", 0), ("two", 3)):
        for kind in ("dispatch", "combine"):
            for rank in made.groups[group]:
                made.add(rank, kind, group=group, peer=owner, bytes=40_000, dtype="int32")
    made.write(tmp_path / "tokens.et")
    for system in ("tree", "esa"):
        read = succeeded(EXPERIMENT % (system, tmp_path / "tokens.et"), tmp_path / system)
        assert read.jobs.exact.all()
        assert read.jobs.values_checked.tolist() == [2 * 10_000 * (3 + 1 + 1 + 1)]
