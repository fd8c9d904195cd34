"""The order of a program's transfers. Their sizes and numbers are laws (test_graph_laws.py)."""

from __future__ import annotations

from testbed.traffic.rank_graph import Program
from testbed.traffic.transfers import transfers_of
from tests.support.ranks import Ranks


def rows(moved):
    columns = (moved.source, moved.target, moved.sends, moved.receives, moved.values)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def of(made: Ranks):
    return transfers_of(Program(made.groups, tuple(map(tuple, made.nodes))))


def test_parts_go_to_the_ranks_behind_the_own_one_first():
    made = Ranks(all=(2, 0, 1))
    for rank in range(3):
        made.add(rank, "compute")
        made.add(rank, "all_to_all", group="all", bytes=36)
    assert rows(of(made)) == [
        (0, 1, 1, 1, 3),
        (0, 2, 1, 1, 3),
        (1, 2, 1, 1, 3),
        (1, 0, 1, 1, 3),
        (2, 0, 1, 1, 3),
        (2, 1, 1, 1, 3),
    ]


def test_sends_meet_the_receives_of_their_tag_and_some_stay_within_a_rank():
    made = Ranks(all=(0, 1))
    made.add(0, "send", peer=1, tag=7, bytes=4)
    made.add(0, "send", peer=1, tag=8, bytes=40)
    made.add(0, "send", peer=0, bytes=4)
    made.add(0, "recv", peer=0, bytes=4)
    made.add(1, "recv", peer=0, tag=8, bytes=40)
    made.add(1, "recv", peer=0, tag=7, bytes=4)
    moved = of(made)
    assert rows(moved.given_by(0)) == [(0, 1, 0, 1, 1), (0, 1, 1, 0, 10)]
    assert rows(moved.received_by(1)) == [(0, 1, 1, 0, 10), (0, 1, 0, 1, 1)]
    assert moved.within(0) == [(2, 3)] and moved.within(1) == []
    assert moved.partners_of(0) == (1,) and moved.partners_of(1) == (0,)
