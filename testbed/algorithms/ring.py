"""Ring: a chunk's sum goes from each rank to the next one, and round once more when it is whole.

Each rank sends 2 (n - 1) / n of an all_reduce, in 2 (n - 1) steps. With several *channels* the ring
has several orders: channel c leaves each server at its c-th rank, and enters at the one after it,
so that each network card carries its share.
"""

from __future__ import annotations

from testbed.algorithms.chunk import NOBODY, Algorithm, Chunk, Group


def chunks(group: Group) -> list[Chunk]:
    """For each root, one for each channel."""
    orders = [_order(group, channel) for channel in range(group.channels)]
    return [ring_of(order, root, group.size) for root in range(group.size) for order in orders]


def _order(group: Group, channel: int) -> list[int]:
    """The ranks as the ring passes them, server after server."""
    found: list[int] = []
    for ranks in group.by_server:
        start = (channel + 1) % len(ranks)
        found += [*ranks[start:], *ranks[:start]]
    return found


def ring_of(order: list[int], root: int, size: int) -> Chunk:
    """The chunk that goes round some of the ranks, in this order, to one of them and from it."""
    up, down = [NOBODY] * size, [NOBODY] * size
    for rank, following in zip(order, [*order[1:], order[0]], strict=True):
        if rank != root:
            up[rank] = following
        if following != root:
            down[following] = rank
    return Chunk(tuple(up), tuple(down))


RING = Algorithm("ring", "Ring", chunks, chunks, chunks)
