"""Random programs of ranks: computing, collectives of random groups, and sends between ranks."""

from __future__ import annotations

import numpy as np

from testbed.traffic.rank_graph import ROOTED
from tests.support.ranks import Ranks

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier", *ROOTED)


def drawn(seed: int, size: int | None = None) -> Ranks:
    """Operations in one order for all ranks, each of which may depend on any earlier ones of its
    rank: so no rank can wait for another one forever. `size`: of ranks, drawn if None."""
    draw = np.random.default_rng(seed)
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
            made.add(source, "send", after(source), peer=target, **fields)
            made.add(target, "recv", after(target), peer=source, **fields)
        else:
            group = str(draw.choice(list(groups)))
            kind, ranks = str(draw.choice(KINDS)), groups[group]
            root = int(draw.choice(ranks)) if kind in ROOTED else -1
            for rank in ranks:
                fields = {"bytes": 0 if kind == "barrier" else length}
                if kind == "all_to_all" and number % 2:
                    parts = tuple(length * ((rank + other) % 3) for other in ranks)
                    fields = {"parts": parts, "bytes": sum(parts)}
                made.add(rank, kind, after(rank), group=group, peer=root, **fields)
    return made
