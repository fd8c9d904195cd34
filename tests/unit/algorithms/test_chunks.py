"""The chunks of all algorithms: whole trees, and the bytes and steps that are known of them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from testbed.algorithms.bounds import busbw_factor, cost
from testbed.algorithms.by_name import ALGORITHMS, ROOTED, SUMS, USES, carrier, chunks_of
from testbed.algorithms.chunk import NOBODY, Group

SIZES = (*range(1, 18), 31, 32, 33, 64)


def alone(size: int) -> Group:
    return Group(tuple(range(size)))


def in_servers(size: int, of: int = 4, channels: int = 1) -> Group:
    return Group(tuple(rank // of for rank in range(size)), channels)


def reached(children: tuple[tuple[int, ...], ...], root: int) -> list[int]:
    found = [root]
    for rank in found:
        found += children[rank]
    return sorted(found)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_chunk_is_two_trees_over_all_ranks(name, use):
    for size in SIZES:
        for group in (alone(size), in_servers(size), in_servers(size, 3, 3)):
            chunks = chunks_of(name, use, group)
            for number, chunk in enumerate(chunks):
                assert chunk.up.count(NOBODY) == chunk.down.count(NOBODY) == 1
                assert chunk.down[chunk.root] == NOBODY
                assert reached(chunk.below, chunk.root) == list(range(size))
                assert reached(chunk.after, chunk.root) == list(range(size))
                if use != SUMS:
                    assert chunk.root == number // (len(chunks) // size)


@pytest.mark.parametrize("name", ["ring", "halving_doubling", "direct", "hierarchical"])
def test_a_rank_sends_and_gets_its_share_and_no_more(name):
    for size in SIZES:
        share = Fraction(size - 1, size)
        for collective, times in (("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1)):
            found = cost(name, collective, alone(size))
            for rank in range(size):
                assert found.sent(rank) == found.received(rank) == times * share


def test_two_trees_send_at_most_twice_the_values():
    for size in SIZES:
        found = cost("double_tree", "all_reduce", alone(size))
        assert max(found.sent(rank) for rank in range(size)) <= 2
        assert max(found.received(rank) for rank in range(size)) <= 2
        for root in (0, size - 1):
            down = cost("double_tree", "broadcast", alone(size), root)
            assert max(down.sent(rank) for rank in range(size)) <= 1
            assert down.received(root) == 0
            up = cost("double_tree", "reduce", alone(size), root)
            assert max(up.received(rank) for rank in range(size)) <= 1


def test_in_two_trees_no_rank_is_an_inner_node_twice():
    for size in (4, 6, 8, 12, 32):
        one, two = chunks_of("double_tree", SUMS, alone(size))
        assert not any(one.below[rank] and two.below[rank] for rank in range(size))


def test_steps():
    for size in SIZES[1:]:
        rounds = math.ceil(math.log2(size))
        assert cost("ring", "all_reduce", alone(size)).steps == 2 * (size - 1)
        assert cost("ring", "all_gather", alone(size)).steps == size - 1
        assert cost("direct", "all_reduce", alone(size)).steps == 2
        assert cost("halving_doubling", "all_reduce", alone(size)).steps <= 2 * rounds
        assert cost("halving_doubling", "all_reduce", alone(1 << rounds)).steps == 2 * rounds
        assert cost("double_tree", "all_reduce", alone(size)).steps <= 2 * (rounds + 1)


def test_ranks_of_a_power_of_two_exchange_with_neighbours_first():
    chunk = chunks_of("halving_doubling", SUMS, alone(8))[5]
    assert chunk.up == (1, 5, 3, 1, 5, NOBODY, 7, 5)


def test_a_circle_of_seven():
    """To rank 0: from distances 4 to 6 by 4, 2 and 3 by 2, 1 by 1."""
    assert chunks_of("halving_doubling", SUMS, alone(7))[0].up == (NOBODY, 0, 0, 1, 0, 1, 2)


def crossing(name: str, group: Group) -> dict[int, Fraction]:
    """The share of the values that each rank sends to another server."""
    found = dict.fromkeys(range(group.size), Fraction(0))
    for (source, target), share in cost(name, "all_reduce", group).shares.items():
        if group.servers[source] != group.servers[target]:
            found[source] += share
    return found


def test_what_is_hierarchical_crosses_servers_as_little_as_it_can():
    """Four servers of four: each card carries a quarter of 2 (m - 1) / m."""
    group = in_servers(16)
    assert set(crossing("hierarchical", group).values()) == {Fraction(2 * 3, 4 * 4)}
    assert sum(crossing("halving_doubling", group).values()) == 4 * Fraction(2 * 3, 4)


def test_channels_of_a_ring_leave_a_server_by_all_its_cards():
    found = crossing("ring", in_servers(16, channels=4))
    assert len(set(found.values())) == 1
    assert len(set(crossing("ring", in_servers(16)).values())) == 2


def test_what_an_algorithm_does_not_carry_another_one_does():
    assert carrier("double_tree", "parts").name == "halving_doubling"
    assert carrier("halving_doubling", ROOTED).name == "double_tree"
    assert carrier("ring", ROOTED).name == "ring"


def test_factors_of_the_bus_bandwidth_are_those_of_nccl_tests():
    assert busbw_factor("all_reduce", 8) == 1.75
    of_parts = ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
    assert {busbw_factor(each, 8) for each in of_parts} == {0.875}
    assert busbw_factor("broadcast", 8) == busbw_factor("reduce", 8) == 1
