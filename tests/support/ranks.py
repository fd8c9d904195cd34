"""Programs of ranks under construction, and experiments that replay them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from testbed.collective_kinds import COLLECTIVES
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


def drawn(seed: int, size: int | None = None, typed: bool = True) -> Ranks:
    """Operations in one order for all ranks, each of which may depend on any earlier ones of its
    rank: so no rank can wait for another one forever. `size`: of ranks, drawn if None. typed: calls
    have types."""
    draw, types = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    size = size or int(draw.integers(2, 7))
    groups = {"all": tuple(range(size))}
    for number in range(int(draw.integers(0, 4))):
        chosen = draw.permutation(size)[: draw.integers(1, size + 1)]
        groups[f"g{number}"] = tuple(int(rank) for rank in chosen)
    made = Ranks(**groups)

    def after(rank: int) -> tuple[int, ...]:
        nodes = len(made.nodes[rank])
        count = min(nodes, int(draw.integers(1, 4)))
        return tuple(int(each) for each in draw.choice(nodes, count, replace=False))

    for rank in range(size):
        made.add(rank, "compute", duration_ns=int(draw.integers(0, 100_000)))
    for number in range(int(draw.integers(5, 30))):
        length = int(draw.choice([0, 1, 4, 255, 4096, 30_000]))
        what = draw.random()
        if what < 0.25:
            for rank in range(size):
                made.add(rank, "compute", after(rank), duration_ns=int(draw.integers(0, 200_000)))
        elif what < 0.5:
            source, target = (int(each) for each in draw.integers(0, size, 2))
            fields = {"tag": number % 3, "bytes": length}
            more = {"tag": number % 3 + 3, "bytes": length + 4}  # it is received before the other
            made.add(source, "send", after(source), peer=target, **fields)
            if number % 2:
                made.add(source, "send", after(source), peer=target, **more)
                made.add(target, "recv", after(target), peer=source, **more)
            made.add(target, "recv", after(target), peer=source, **fields)
        else:
            group = str(draw.choice(list(groups)))
            kind, ranks = str(draw.choice([*COLLECTIVES])), groups[group]
            root = int(draw.choice(ranks)) if COLLECTIVES[kind].rooted else -1
            has_type = typed and not COLLECTIVES[kind].empty
            dtype = str(types.choice(["", "float32", "bfloat16"])) if has_type else ""
            for rank in ranks:
                fields = {"bytes": 0 if kind == "barrier" else length}
                if kind == "all_to_all" and number % 2:
                    parts = tuple(length * ((rank + other) % 3) for other in ranks)
                    fields = {"parts": parts, "bytes": sum(parts)}
                made.add(rank, kind, after(rank), group=group, peer=root, dtype=dtype, **fields)
    return made
