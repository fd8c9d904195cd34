"""Recursive halving and doubling: 2 (n - 1) / n of an all_reduce sent per rank, in 2 log2 n steps.

With a power of two of ranks, rank r exchanges with r xor 1, r xor 2, r xor 4, ..., each time half
of what is left, and back. Any other number takes the same shape on a circle (Träff, "Optimal,
non-pipelined reduce-scatter and allreduce algorithms", 2024): the distance d from a rank to the
root becomes d - s with s = ceil(n / 2), ceil(n / 4), ..., 1, in ceil(log2 n) steps and with the
same bytes. As trees, both are binomial.
"""

from __future__ import annotations

from testbed.algorithms.chunk import NOBODY, Algorithm, Chunk, Group


def chunks(group: Group) -> list[Chunk]:
    """One for each root."""
    size = group.size
    trees = [_tree(size, root) for root in range(size)]
    return [Chunk(tree, tree) for tree in trees]


def _tree(size: int, root: int) -> tuple[int, ...]:
    if size & (size - 1) == 0:
        # The lowest bit that differs is the first to be made equal.
        away = [rank ^ root for rank in range(size)]
        return tuple(rank ^ (bits & -bits) if bits else NOBODY for rank, bits in enumerate(away))
    found = []
    for rank in range(size):
        distance, skip = (rank - root) % size, size
        while skip > distance > 0:
            skip = -(-skip // 2)
        found.append((rank - skip) % size if distance else NOBODY)
    return tuple(found)


HALVING_DOUBLING = Algorithm("halving_doubling", "Halving-doubling", chunks, chunks)
