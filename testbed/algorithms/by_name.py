"""The list of algorithms, and what carries a collective that one does not."""

from __future__ import annotations

from testbed.algorithms.chunk import Algorithm, Chunks, Group
from testbed.algorithms.direct import DIRECT
from testbed.algorithms.double_tree import DOUBLE_TREE
from testbed.algorithms.halving_doubling import HALVING_DOUBLING
from testbed.algorithms.hierarchical import HIERARCHICAL
from testbed.algorithms.ring import RING
from testbed.collective_kinds import CARRIED

ALGORITHMS: dict[str, Algorithm] = {
    each.name: each for each in (RING, HALVING_DOUBLING, DOUBLE_TREE, HIERARCHICAL, DIRECT)
}

# Kinds of use: what a call's values are for.
SUMS, PARTS, ROOTED = "sums", "parts", "rooted"
USES = (SUMS, PARTS, ROOTED)
USE_OF = {
    name: ROOTED if kind.rooted else PARTS if kind.parts else SUMS for name, kind in CARRIED.items()
}
_INSTEAD = {PARTS: HALVING_DOUBLING, ROOTED: DOUBLE_TREE}


def carrier(name: str, use: str) -> Algorithm:
    """The algorithm that carries calls of a use, where `name` is asked for."""
    own = ALGORITHMS[name]
    return own if getattr(own, use) is not None else _INSTEAD[use]


def chunks_of(name: str, use: str, group: Group) -> Chunks:
    """The chunks of these calls: those of all roots together, or root after root."""
    return tuple(getattr(carrier(name, use), use)(group))
