"""Programs of ranks: what is wrong with one is named with its rank, node and remedy. Which programs
are refused, and circles of nodes that wait for each other, are laws (test_graph_laws.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.traffic.rank_graph import Node, Program, check
from testbed.traffic.trace import TraceError

GROUPS = {"world": (0, 1), "back": (1, 0)}


def compute(*after: int) -> Node:
    return Node("compute", after, duration_ns=1000)


def call(kind: str = "all_reduce", *after: int, group: str = "world", **more: object) -> Node:
    return Node(kind, after, group=group, **{"bytes": 64, **more})  # type: ignore[arg-type]


def transfer(kind: str, peer: int, *after: int, **more: object) -> Node:
    return Node(kind, after, peer=peer, **{"bytes": 8, **more})  # type: ignore[arg-type]


def program(*ranks: list[Node], groups: dict[str, tuple[int, ...]] = GROUPS) -> Program:
    numbered = [tuple(replace(n, id=10 + k) for k, n in enumerate(nodes)) for nodes in ranks]
    return Program(groups, tuple(numbered), tuple(f"run.{rank}.et" for rank in range(len(ranks))))


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (
            ([compute(1), compute(0)], []),
            "run.0.et: rank 0, node 10 (compute), which waits for rank 0, node 11, which waits for"
            " rank 0, node 10: so none of them ever starts; take out a dependency",
        ),
        (
            ([call(), call("barrier")], [call("barrier"), call()]),
            "run.1.et: rank 1, node 10 (barrier in group world): is call 1 of the group, with kind"
            " barrier; run.0.et: rank 0, node 10 (all_reduce in group world) is the same call, with"
            " kind all_reduce. All ranks of a group make the same calls in the same order: correct",
        ),
        (([call()], [call(bytes=32)]), "with 32 bytes; run.0.et: rank 0, node 10"),
        (
            ([call("broadcast", peer=0)], [call("broadcast", peer=1)]),
            "with root 1; run.0.et: rank 0, node 10",
        ),
        (
            ([call(), call()], [call()]),
            "run.0.et: rank 0, node 11 (all_reduce in group world): run.1.et: rank 1 lacks this"
            " call, it has 1 of the group's 2",
        ),
        (([call(group="tp")], []), "there is no group tp; groups: world, back. Name one"),
        (([call("all_gather", 7)], [call("all_gather")]), "depends on place 7 of 1; name nodes of"),
        (([call("broadcast")], [call("broadcast")]), "its root, rank -1, is not in the group"),
        (([call("sum")], [call("sum")]), "unknown kind; known: compute, send, recv, all_reduce"),
        (
            ([call("all_to_all", parts=(64,))], [call("all_to_all")]),
            "has 1 parts of together 64 bytes; the group has 2 ranks, and the node 64 bytes",
        ),
        (
            ([transfer("send", 1)], []),
            "run.0.et: rank 0, node 10 (send to rank 1), tag 0: there is no receive for it on rank"
            " 1; add it, or take this one out",
        ),
        (
            ([transfer("send", 1)], [transfer("recv", 0), transfer("recv", 0)]),
            "run.1.et: rank 1, node 11 (recv from rank 0), tag 0: there is no send for it on rank"
            " 0; add it",
        ),
        (
            ([transfer("send", 1)], [transfer("recv", 0, bytes=9)]),
            "run.1.et: rank 1, node 10 (recv from rank 0): expects 9 bytes, and run.0.et: rank 0,"
            " node 10 (send to rank 1) gives 8; make them equal",
        ),
        (([transfer("recv", 2)], []), "there is no rank 2; ranks: 0 to 1"),
    ],
)
def test_what_cannot_run_is_told(ranks, message):
    with pytest.raises(TraceError) as caught:
        check(program(*ranks))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            (0, 2),
            "group g: there is no rank 2; the program has ranks 0 to 1. Correct the group, or",
        ),
        ((0, 1, 0), "group g: has rank 0 2 times; name it once"),
        ((), "group g: has no ranks; take it out"),
    ],
)
def test_wrong_groups_are_told(members, message):
    with pytest.raises(TraceError) as caught:
        check(program([], [], groups={"g": members}))
    assert message in str(caught.value)


def test_a_rank_outside_a_group_cannot_call_it():
    with pytest.raises(TraceError, match="the group has no rank 1, only rank 0; correct the group"):
        check(program([call()], [call()], groups={"world": (0,)}))
