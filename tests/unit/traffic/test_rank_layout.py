"""Megatron-LM's order of ranks, and graphs of stages."""

from __future__ import annotations

import itertools

import pytest

from testbed.traffic.rank_graph import Node, check
from testbed.traffic.rank_layout import DIMENSIONS, Layout, Template, smaller, staged
from testbed.traffic.trace import TraceError

LAYOUT = Layout(tp=2, cp=3, ep=2, dp=2, pp=2)


def by_product(same: tuple[str, ...]) -> set[tuple[int, ...]]:
    """The groups of ranks that have the same places in some dimensions, by counting through all
    places, the fastest dimension first."""
    sizes = [LAYOUT.size(each) for each in DIMENSIONS]
    found: dict[tuple, list[int]] = {}
    places = itertools.product(*(range(size) for size in reversed(sizes)))
    for rank, place in enumerate(tuple(reversed(each)) for each in places):
        key = tuple(place[DIMENSIONS.index(each)] for each in same)
        found.setdefault(key, []).append(rank)
    return {tuple(ranks) for ranks in found.values()}


@pytest.mark.parametrize(
    "kind, same",
    [
        ("tp", ("cp", "ep", "dp", "pp")),
        ("cp", ("tp", "ep", "dp", "pp")),
        ("ep", ("tp", "cp", "dp", "pp")),
        ("dp", ("tp", "pp")),
        ("dp_ep", ("tp", "ep", "pp")),
    ],
)
def test_groups_are_ranks_that_differ_in_their_dimensions(kind, same):
    groups = LAYOUT.groups([kind])
    assert set(groups.values()) == by_product(same)
    assert list(groups) == [f"{kind}.{number}" for number in range(len(groups))]
    for name, ranks in groups.items():
        assert {LAYOUT.name_of(rank, kind) for rank in ranks} == {name}
        assert {LAYOUT.group_of(rank, kind) for rank in ranks} == {ranks}


def test_the_ends_are_the_first_and_the_last_stage():
    assert Layout(tp=2, pp=3).groups(["ends"]) == {"ends.0": (0, 4), "ends.1": (1, 5)}
    assert Layout(tp=2).groups(["ends"]) == {"ends.0": (0,), "ends.1": (1,)}


def test_tensor_parallel_ranks_are_neighbours_and_stages_the_farthest():
    layout = Layout(tp=8, dp=4, pp=2)
    assert layout.ranks == 64
    assert layout.group_of(9, "tp") == tuple(range(8, 16))
    assert layout.group_of(9, "dp") == (1, 9, 17, 25)
    assert layout.neighbour(9, "pp", 1) == 41 and layout.neighbour(41, "pp", 1) == 9


def test_ranks_of_a_stage_do_the_same_in_their_own_groups():
    first, last = Template(), Template()
    step = first.add("compute", duration_ns=5)
    call = first.add("all_reduce", (step,), "tp", bytes=8)
    first.transfer("send", (call,), ("pp", 1), 16, tag=3)
    last.transfer("recv", (), ("pp", -1), 16, tag=3)
    program = staged(Layout(tp=2, pp=2), [first, last], {})
    check(program)
    assert program.groups == {"tp.0": (0, 1), "tp.1": (2, 3)}
    one, two = program.ranks[0], program.ranks[1]
    assert one == (
        Node("compute", duration_ns=5),
        Node("all_reduce", (0,), group="tp.0", bytes=8, id=1),
        Node("send", (1,), bytes=16, peer=2, tag=3, id=2),
    )
    # What is equal is one object.
    assert one[0] is two[0] and one[1] is two[1] and two[2].peer == 3
    assert program.ranks[2] == (Node("recv", bytes=16, peer=0, tag=3),)
    assert len(program.ranks) == 4 and len(program.ranks[1:3]) == 2
    with pytest.raises(IndexError):
        program.ranks[4]


def test_a_smaller_program_has_what_is_wrong_with_the_whole():
    """Four stages of 512 ranks, checked with 16."""
    first, middle, last = Template(), Template(), Template()
    for template in (first, middle):
        template.transfer("send", (), ("pp", 1), 16, tag=3)
    for template in (middle, last):
        template.transfer("recv", (), ("pp", -1), 16, tag=3)
    layout = Layout(tp=8, ep=4, dp=16, pp=4)
    sound = smaller(staged(layout, [first, middle, middle, last], {}))
    assert len(sound.ranks) == 2 * 2 * 2 * 4
    check(sound)
    with pytest.raises(TraceError, match="there is no send for it on rank"):
        check(smaller(staged(layout, [first, last, last, last], {})))
