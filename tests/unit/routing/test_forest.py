"""The manager of static trees: who gets which tree, which slots are whose, and what a failure
changes."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from testbed.routing.forest import Applicant, Forest, Terms, plan, planned_again, without
from testbed.topos import SHIPPED

LEAF_SPINE = SHIPPED["leaf_spine"](leaves=3, spines=2, hosts=4)  # s1 to s3, then s4 and s5
FAT_TREE = SHIPPED["fat_tree"](k=4)
STAR = SHIPPED["star"](hosts=8)


def job(number: int, *hosts: int, later: tuple[int, ...] = ()) -> Applicant:
    members = {number: tuple(f"h{host}" for host in hosts)}
    return Applicant(number, f"job{number}", members, later)


def check(topology, forest: Forest, terms: Terms) -> None:
    """Every tree has all of its workers at its root, a place for each slot, and shares none."""
    used: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for number, trees in forest.trees.items():
        workers = forest.workers[number]
        for tree in trees:
            shape = tree.shape
            assert shape.below[shape.target] == tuple(range(len(workers)))
            assert set(tree.bases) == set(shape.switches)
            assert tree.slots >= 1
            for switch, base in tree.bases.items():
                assert base >= 0 and base + tree.slots <= terms.slots
                used[switch].append((base, base + tree.slots, forest.owners[number]))
    for parts in used.values():
        parts.sort()
        assert all(before[1] <= after[0] for before, after in zip(parts, parts[1:], strict=False))
        if terms.exclusive:
            owners = defaultdict(set)
            for base, end, owner in parts:
                assert base // terms.part == (end - 1) // terms.part
                owners[base // terms.part].add(owner)
            assert all(len(each) == 1 for each in owners.values())


def test_quotas_spread_trees_over_the_spines_and_share_slots():
    terms = Terms(slots=64, exclusive=False)
    forest = plan(LEAF_SPINE, [job(0, 1, 2, 5), job(1, 3, 6, 9)], terms)
    check(LEAF_SPINE, forest, terms)
    for trees in forest.trees.values():
        assert {tree.shape.target for tree in trees} == {"s4", "s5"}
        assert {tree.slots for tree in trees} == {16}  # four trees pass the leaf s1


def test_a_job_below_one_switch_has_one_tree_there():
    terms = Terms(slots=64, exclusive=False)
    (tree,) = plan(LEAF_SPINE, [job(0, 1, 2)], terms).trees[0]
    assert (tree.shape.target, tree.slots, tree.bases) == ("s1", 64, {"s1": 0})


def test_an_exclusive_job_takes_its_switches_and_the_next_one_learns_who_has_them():
    terms = Terms(slots=64, exclusive=True)
    forest = plan(LEAF_SPINE, [job(0, 1, 5), job(1, 2, 9), job(2, 9, 10)], terms)
    check(LEAF_SPINE, forest, terms)
    assert forest.refused == {1: "s1 is held by job0"}
    assert [tree.slots for tree in forest.trees[0]] == [64]
    assert forest.trees[2][0].shape.target == "s3"


def test_exclusive_jobs_on_other_leaves_take_the_other_spine():
    wide = SHIPPED["leaf_spine"](leaves=4, spines=2, hosts=2)
    terms = Terms(slots=64, exclusive=True)
    forest = plan(wide, [job(0, 1, 3), job(1, 5, 7), job(2, 2, 4)], terms)
    assert {forest.trees[n][0].shape.target for n in (0, 1)} == {"s5", "s6"}
    assert set(forest.refused) == {2}


@pytest.mark.parametrize(
    ("terms", "parts", "why"),
    [
        (Terms(64, True, holders=2), [(0, 32), (32, 32)], "is held by job0 and job1"),
        (Terms(64, False, quota=30), [(0, 30), (30, 30)], "has 4 slots left, and its quota is 30"),
        (Terms(2, False), [(0, 1), (1, 1)], "has fewer slots (2) than trees"),
    ],
)
def test_the_last_job_of_three_finds_no_room_at_their_switch(terms, parts, why):
    forest = plan(STAR, [job(n, 2 * n + 1, 2 * n + 2) for n in range(3)], terms)
    check(STAR, forest, terms)
    trees = [forest.trees[number][0] for number in (0, 1)]
    assert [(tree.bases["s1"], tree.slots) for tree in trees] == parts
    assert forest.refused == {2: f"s1 {why}"}


def test_a_window_leaves_slots_to_nobody():
    terms = Terms(slots=64, exclusive=False, window=10)
    trees = plan(LEAF_SPINE, [job(0, 1, 5)], terms).trees[0]
    assert [tree.slots for tree in trees] == [5, 5]


def test_trees_of_a_fat_tree_have_three_levels_and_different_roots():
    terms = Terms(slots=64, exclusive=False)
    trees = plan(FAT_TREE, [job(0, *range(1, 17))], terms).trees[0]
    assert len({tree.shape.target for tree in trees}) == 4
    # 8 edge switches, one of each pod's two others, and a root.
    assert all(len(tree.bases) == 8 + 4 + 1 for tree in trees)
    check(FAT_TREE, plan(FAT_TREE, [job(0, *range(1, 17))], terms), terms)


def test_groups_that_come_later_have_slots_at_the_switches_of_their_job():
    terms = Terms(slots=64, exclusive=True)
    forest = plan(LEAF_SPINE, [job(0, 1, 5, later=(7, 8))], terms)
    check(LEAF_SPINE, forest, terms)
    assert {len(forest.trees[number]) for number in (0, 7, 8)} == {1}
    assert {tree.slots for trees in forest.trees.values() for tree in trees} == {21}


def test_jobs_come_and_go():
    terms = Terms(slots=64, exclusive=True)
    forest = plan(STAR, [job(0, 1, 2)], terms)
    forest = plan(STAR, [job(1, 3, 4)], terms, forest)
    assert forest.refused == {1: "s1 is held by job0"}
    forest = without(without(forest, 1), 0)
    assert not forest.trees and not forest.refused and not forest.owners
    forest = plan(STAR, [job(2, 3, 4)], terms, forest)
    assert forest.trees[2][0].bases == {"s1": 0}


def link(topology, a: str, b: str) -> int:
    return next(n for n, ends in enumerate(topology.links) if set(ends) == {a, b})


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_tree_that_lost_a_link_gets_another_root_and_number(exclusive):
    terms = Terms(slots=64, exclusive=exclusive, trees=1)
    before = plan(LEAF_SPINE, [job(0, 1, 5)], terms)
    assert before.trees[0][0].shape.target == "s4"
    down = LEAF_SPINE.failing([link(LEAF_SPINE, "s1", "s4")])
    after = planned_again(down, before, [0], terms)
    check(down, after, terms)
    (tree,) = after.trees[0]
    assert (tree.number, tree.shape.target, tree.slots) == (1, "s5", before.trees[0][0].slots)


def test_a_tree_that_stands_stays_and_so_does_that_of_a_job_that_is_over():
    terms = Terms(slots=64, exclusive=False, trees=1)
    before = plan(LEAF_SPINE, [job(0, 1, 5), job(1, 6, 9)], terms)
    assert [before.trees[n][0].shape.target for n in (0, 1)] == ["s4", "s5"]
    down = LEAF_SPINE.failing([link(LEAF_SPINE, "s3", "s5")])
    assert planned_again(down, before, [0], terms).trees == before.trees
    after = planned_again(down, before, [0, 1], terms)
    assert after.trees[0] == before.trees[0] and after.trees[1][0].shape.target == "s4"


def test_a_switch_without_room_only_forwards():
    wide = SHIPPED["leaf_spine"](leaves=4, spines=2, hosts=2)
    terms = Terms(slots=64, exclusive=True)
    before = plan(wide, [job(0, 1, 3), job(1, 5, 7)], terms)
    mine, other = (before.trees[n][0].shape.target for n in (0, 1))
    down = wide.failing([link(wide, "s1", mine)])
    after = planned_again(down, before, [0, 1], terms)
    check(down, after, terms)
    (tree,) = after.trees[0]
    assert other in tree.shape.below and other not in tree.bases  # the other job has it
    assert set(tree.bases) == {"s1", "s2"} and tree.shape.target in tree.bases


@pytest.mark.parametrize("seed", range(30))
def test_any_jobs_and_failures_leave_trees_that_share_nothing(seed):
    draw = random.Random(seed)
    topology = draw.choice([LEAF_SPINE, FAT_TREE])
    hosts = list(range(1, len(topology.hosts) + 1))
    terms = Terms(
        slots=draw.choice([8, 64, 500]),
        exclusive=draw.random() < 0.5,
        holders=draw.choice([1, 2, 3]),
        trees=draw.choice([0, 1, 3]),
    )
    jobs = [job(n, *draw.sample(hosts, draw.randint(2, 6))) for n in range(4)]
    forest = plan(topology, jobs, terms)
    check(topology, forest, terms)
    assert set(forest.owners.values()) | set(forest.refused) == set(range(4))
    inner = [
        n
        for n, (a, b) in enumerate(topology.links)
        if not topology.is_host(a) and not topology.is_host(b)
    ]
    for _ in range(3):
        down = topology.failing(draw.sample(inner, draw.randint(1, 2)))
        before, forest = forest, planned_again(down, forest, range(4), terms)
        check(topology, forest, terms)
        for number, trees in forest.trees.items():
            assert [tree.slots for tree in trees] == [tree.slots for tree in before.trees[number]]
            for tree in trees:
                # Cut off entirely, or all of its links are up.
                stands = all(p in down.ports(s) for s, (p, _) in tree.shape.parent.items())
                assert stands or tree in before.trees[number]
