"""Costs of an algorithm, from its chunks: shares from rank to rank, and the number of steps.

With links of rate B and a latency of A from one rank to another, a call of S bytes takes, in the
alpha-beta model, steps A + bytes / B, with the bytes of the busiest link. Whatever is pipelined, it
takes at least steps A, and at least bytes / B.

    n ranks, all_reduce       bytes of a rank's link    steps
    ring                      2 (n - 1) / n S           2 (n - 1)
    halving_doubling, direct  2 (n - 1) / n S           2 ceil(log2 n), 2
    double_tree               2 S                       about 2 log2 n
    sums in switches          S                         1

and half of the bytes and steps for a reduce_scatter or all_gather.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from testbed.algorithms.by_name import ROOTED, USE_OF, chunks_of
from testbed.algorithms.chunk import NOBODY, Chunk, Group, Ranks
from testbed.collective_kinds import COLLECTIVES


@dataclass(frozen=True)
class Cost:
    """Costs of a call. shares: of all its values, by (source, target). steps: from one rank to
    another, one after the other."""

    shares: dict[tuple[int, int], Fraction]
    steps: int

    def sent(self, rank: int) -> Fraction:
        """The share of the values that a rank sends."""
        return sum((part for (a, _), part in self.shares.items() if a == rank), Fraction(0))

    def received(self, rank: int) -> Fraction:
        return sum((part for (_, b), part in self.shares.items() if b == rank), Fraction(0))


@lru_cache(maxsize=256)
def cost(algorithm: str, collective: str, group: Group, root: int = 0) -> Cost:
    """The cost of a call (registry.USE_OF has the collectives). root: of a reduce or broadcast."""
    use = USE_OF[collective]
    chunks = chunks_of(algorithm, use, group)
    if use == ROOTED:
        count = len(chunks) // group.size
        chunks = chunks[root * count : (root + 1) * count]
    part = Fraction(1, len(chunks))
    shares: Counter[tuple[int, int]] = Counter()
    steps = 0
    for chunk in chunks:
        pairs, depth = _pairs(chunk, collective)
        for pair in pairs:
            shares[pair] += 1
        steps = max(steps, depth)
    return Cost({pair: times * part for pair, times in shares.items()}, steps)


@lru_cache(maxsize=1024)
def longest_way(
    algorithm: str, collective: str, group: Group, inside: int, between: int, root: int = 0
) -> int:
    """Costs of the steps of a call that must follow each other, if one costs `inside` in a server
    and `between` from one to another: the most of all chunks."""
    use, kind = USE_OF[collective], COLLECTIVES[collective]
    chunks = chunks_of(algorithm, use, group)
    if use == ROOTED:
        count = len(chunks) // group.size
        chunks = chunks[root * count : (root + 1) * count]

    def way(parents: Ranks) -> int:
        found = {NOBODY: 0}

        def cost_of(rank: int) -> int:
            chain = []
            while rank not in found and parents[rank] != NOBODY:
                chain.append(rank)
                rank = parents[rank]
            total = found.setdefault(rank, 0)
            for each in reversed(chain):
                same = group.servers[each] == group.servers[parents[each]]
                total += inside if same else between
                found[each] = total
            return total

        return max(map(cost_of, range(group.size)))

    return max(
        (way(each.up) if kind.sums else 0) + (way(each.down) if kind.to_all else 0)
        for each in chunks
    )


def _pairs(chunk: Chunk, collective: str) -> tuple[list[tuple[int, int]], int]:
    """(source, target) of each packet of a fragment, and how many follow each other."""
    found: list[tuple[int, int]] = []
    steps, kind = 0, COLLECTIVES[collective]
    if kind.sums:
        found += [(rank, up) for rank, up in enumerate(chunk.up) if up != NOBODY]
        steps += _depth(chunk.up)
    if kind.to_all:
        found += [(up, rank) for rank, up in enumerate(chunk.down) if up != NOBODY]
        steps += _depth(chunk.down)
    return found, steps


def _depth(parents: Ranks) -> int:
    """Edges of the longest way to the root."""
    depths: dict[int, int] = {NOBODY: -1}

    def depth(rank: int) -> int:
        way = []
        while rank not in depths:
            way.append(rank)
            rank = parents[rank]
        for each in reversed(way):
            depths[each] = depths[rank] + 1
            rank = each
        return depths[rank]

    return max(map(depth, range(len(parents))))


def busbw_factor(collective: str, ranks: int) -> float:
    """busbw / algbw as nccl-tests define it: the share of the bytes that a link of a rank must
    carry if hosts add up. A root keeps its own part; without parts it gives or gets everything."""
    kind = COLLECTIVES[collective]
    if kind.rooted and not kind.parts:
        return 1.0
    return (1 if kind.parts else 2) * (ranks - 1) / ranks
