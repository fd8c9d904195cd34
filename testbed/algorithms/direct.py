"""Direct: ranks are servers for parts. All give a server its part, and it gives each the sum.

It is what parameter servers on the workers' hosts do (BytePS's placement), and an all_to_all of
parts: with a server on each host 2 (n - 1) / n of an all_reduce in 2 steps, from and to everybody
at once. With fewer servers they are on the first ranks' hosts.
"""

from __future__ import annotations

from testbed.algorithms.chunk import NOBODY, Algorithm, Chunk, Group


def sums(group: Group) -> list[Chunk]:
    """One for each server."""
    return [star(group.size, root) for root in range(min(group.roots or group.size, group.size))]


def parts(group: Group) -> list[Chunk]:
    """One for each rank."""
    return [star(group.size, root) for root in range(group.size)]


def star(size: int, root: int) -> Chunk:
    tree = tuple(NOBODY if rank == root else root for rank in range(size))
    return Chunk(tree, tree)


DIRECT = Algorithm("direct", "Direct", sums, parts)
