"""Double binary tree (Sanders, Speck, Träff, 2009): two trees, each with half of the values. A rank
is an inner node of one of them, and a leaf of the other.

So a rank sends at most 2 S of an all_reduce, and a sum is whole after about 2 log2 n steps. A
reduce or broadcast has the trees over the other ranks; their roots are next to the call's.
"""

from __future__ import annotations

from testbed.algorithms.chunk import NOBODY, Algorithm, Chunk, Group


def sums(group: Group) -> list[Chunk]:
    """Two, whoever the root."""
    return [Chunk(tree, tree) for tree in _trees(group.size)]


def rooted(group: Group) -> list[Chunk]:
    """Two for each root."""
    size = group.size
    found = []
    for root in range(size):
        for tree in _trees(size - 1):
            # Rank root + 1 + k of the group is rank k of the tree.
            up = [NOBODY] * size
            for rank, parent in enumerate(tree):
                above = root if parent == NOBODY else (root + 1 + parent) % size
                up[(root + 1 + rank) % size] = above
            found.append(Chunk(tuple(up), tuple(up)))
    return found


def _trees(size: int) -> list[tuple[int, ...]]:
    """The parents of each rank in both. The second one is the first one's mirror image, or, with an
    odd number of ranks, the same one moved on by a rank."""
    first = [_parent(rank, size) for rank in range(size)]
    if size % 2 == 0:
        second = [NOBODY if up == NOBODY else size - 1 - up for up in reversed(first)]
    else:
        moved = [first[rank - 1] for rank in range(size)]
        second = [NOBODY if up == NOBODY else (up + 1) % size for up in moved]
    return [tuple(first), tuple(second)]


def _parent(rank: int, size: int) -> int:
    """The parent in a tree in which odd ranks are leaves and a rank's height is the number of
    zeros at the end of its binary form; rank 0 is on top."""
    if rank == 0:
        return NOBODY
    bit = rank & -rank
    above = rank & ~bit | bit << 1
    return above if above < size else rank & ~bit


DOUBLE_TREE = Algorithm("double_tree", "Double tree", sums, None, rooted)
