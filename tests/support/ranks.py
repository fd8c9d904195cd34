"""Programs of ranks under construction, and experiments that replay them."""

from __future__ import annotations

from pathlib import Path

from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node, Program
from tests.support.experiments import memory_line

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: leaf_spine, leaves: %d, spines: 1, hosts: %d}
links: {bandwidth: 1 Gbit/s, delay: 1 us%s}
system: {name: %s}
%s
jobs:
  - {name: ranks, model: %s, workers: %d, iterations: %d}
"""


class Ranks:
    """A program under construction; each node depends on the rank's node before it, if nothing
    else is said."""

    def __init__(self, **groups: tuple[int, ...]) -> None:
        self.groups = groups
        self.nodes: list[list[Node]] = [[] for _ in range(1 + max(map(max, groups.values())))]

    def add(self, rank: int, kind: str, after: tuple[int, ...] | None = None, **fields) -> int:
        nodes = self.nodes[rank]
        if after is None:
            after = (len(nodes) - 1,) if nodes else ()
        nodes.append(Node(kind, after, id=len(nodes), **fields))
        return len(nodes) - 1

    def write(self, path: Path) -> Path:
        chakra.write(path, Program(self.groups, tuple(map(tuple, self.nodes))))
        return path


def every_transfer() -> Ranks:
    """All kinds of transfers, beside a sum and of several sizes, between four ranks."""
    made = Ranks(all=(0, 1, 2, 3), pair=(3, 1))
    for rank in range(4):
        made.add(rank, "compute", duration_ns=20_000 * (1 + rank))
        made.add(rank, "all_to_all", group="all", bytes=40_000, dtype="bfloat16")
        made.add(rank, "all_reduce", group="all", bytes=20_000)
        parts = tuple(1000 * (rank + other) for other in range(4))
        made.add(rank, "all_to_all", group="all", bytes=sum(parts), parts=parts)
        made.add(rank, "gather", group="all", bytes=9_001, peer=2)
        made.add(rank, "scatter", group="all", bytes=9_001, peer=1)
        last = made.add(rank, "compute", duration_ns=1000)
        made.add(rank, "send", (last,), peer=(rank + 1) % 4, tag=1, bytes=30_000)
        made.add(rank, "recv", (last,), peer=(rank - 1) % 4, tag=1, bytes=30_000)
        own = made.add(rank, "send", (last,), peer=rank, tag=2, bytes=100)
        made.add(rank, "recv", (last,), peer=rank, tag=2, bytes=100)
        made.add(rank, "barrier", (own,), group="all")
        if rank in (1, 3):
            made.add(rank, "all_to_all", group="pair", bytes=8)
    return made


def text(
    path: Path, system: str, ranks: int, leaves: int = 1, links: str = "", iterations: int = 1
) -> str:
    hosts = -(-(ranks + 1) // leaves)
    memory = memory_line(system, 512)
    return EXPERIMENT % (leaves, hosts, links, system, memory, path, ranks, iterations)
