"""Hierarchical: a server's ranks add up inside it, each for its part, then the ranks of all servers
with the same part in a ring, and back.

Of S bytes each server sends 2 (m - 1) / m S over its network cards, with m servers, whose cards
share it, and each rank about 2 S inside. Without several ranks in a server it is a ring.
"""

from __future__ import annotations

from testbed.algorithms.chunk import Algorithm, Chunk, Group
from testbed.algorithms.ring import ring_of


def chunks(group: Group) -> list[Chunk]:
    """One for each root. Those of one place in their servers are the ring."""
    servers = group.by_server
    place = {rank: ranks.index(rank) for ranks in servers for rank in ranks}
    found = []
    for root in range(group.size):
        heads = [root if root in ranks else ranks[place[root] % len(ranks)] for ranks in servers]
        across = ring_of(heads, root, group.size)
        up, down = list(across.up), list(across.down)
        for head, ranks in zip(heads, servers, strict=True):
            for rank in ranks:
                if rank != head:
                    up[rank] = down[rank] = head
        found.append(Chunk(tuple(up), tuple(down)))
    return found


HIERARCHICAL = Algorithm("hierarchical", "Hierarchical", chunks, chunks)
