"""The kinds of collectives: a table that everything asks which depends on the kind of a call.

A call is about one *array*. Ranks give all of it or a part, and get all of it or a part. If a kind
has *parts*, the array is divided into one for each rank. From that follows which kinds have a root,
which ways a call's values go along a tree, how its bytes are counted, and its result (`results`).

This module imports nothing heavy: commands and programs read it when they start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Share of a call's array that a rank gives or gets: all of it; its part; all at the root, where the
# other ranks have nothing; all but at the root, which has nothing.
WHOLE, OWN, ROOT, OTHERS = "whole", "own", "root", "others"


@dataclass(frozen=True)
class Collective:
    """A kind of call. nccl: NCCL's name, "" where it has none. chakra: numbers in Chakra traces, of
    which the first one is written; from 64 on our own. color: of figures, as in
    analysis/style/plot_style.py."""

    name: str
    nccl: str
    chakra: tuple[int, ...]
    gives: str
    gets: str
    color: str = "vermilion"
    sums: bool = False  # the arrays that ranks give are added up
    # What a rank gets is for it alone, so it travels in transfers between pairs of ranks
    # (traffic/transfers.py); False: in switches and servers, or along the trees of an algorithm.
    pairs: bool = False
    uneven: bool = False  # ranks may give arrays and parts of different sizes
    empty: bool = False  # there are no values
    call: str = ""  # method of a program's job (collective/client.py), where it is not the name

    @property
    def rooted(self) -> bool:
        return ROOT in (self.gives, self.gets)

    @property
    def parts(self) -> bool:
        return self.pairs or OWN in (self.gives, self.gets)

    @property
    def to_all(self) -> bool:
        """True if all ranks get the same. Along a tree, `sums` go up and what is `to_all` down."""
        return self.gets == WHOLE and not self.pairs

    def array_size(self, given: int, ranks: int) -> int:
        """Size of the array, by that of what a rank gives."""
        return given * ranks if self.gives == OWN else given

    def given_size(self, array: int, ranks: int) -> int:
        """Size of what a rank gives, by that of the array, rounded up."""
        return -(-array // ranks) if self.gives == OWN else array

    def results(self, given: Sequence[Sequence], root: int = 0) -> list[list]:
        """The values that each rank gets of those that each rank gives, by definition. Parts are
        equal. A rank that gives nothing to a rooted call may be [] in `given`."""
        ranks = range(len(given))

        def part(array: Sequence, rank: int) -> list:
            size = len(array) // len(given)
            return [*array[rank * size : (rank + 1) * size]]

        if self.pairs and self.gives == self.gets:
            return [[value for array in given for value in part(array, rank)] for rank in ranks]
        if self.sums:
            added = [
                each for rank, each in enumerate(given) if self.gives != OTHERS or rank != root
            ]
            array = [sum(values) for values in zip(*added, strict=True)]
        elif self.gives == ROOT:
            array = [*given[root]]
        else:
            array = [value for own in given for value in own]
        if self.gets == OWN:
            return [part(array, rank) for rank in ranks]
        return [array if self.gets == WHOLE or rank == root else [] for rank in ranks]


_KINDS = (
    Collective("all_reduce", "AllReduce", (0,), WHOLE, WHOLE, "blue", sums=True, call="allreduce"),
    Collective("reduce_scatter", "ReduceScatter", (7, 8), WHOLE, OWN, "green", sums=True),
    Collective("all_gather", "AllGather", (2,), OWN, WHOLE, "sky"),
    Collective("broadcast", "Broadcast", (5,), ROOT, WHOLE),
    Collective("reduce", "Reduce", (1,), WHOLE, ROOT, sums=True),
    # Tokens to the experts of a set of ranks, and their weighted answers back (docs/experts.md).
    Collective("dispatch", "", (64,), ROOT, WHOLE, "purple"),
    Collective("combine", "", (65,), OTHERS, ROOT, "purple", sums=True),
    Collective("barrier", "", (9,), WHOLE, WHOLE, sums=True, empty=True),
    Collective("all_to_all", "AlltoAll", (6,), WHOLE, WHOLE, "purple", pairs=True, uneven=True),
    Collective("gather", "Gather", (3,), OWN, ROOT, pairs=True),
    Collective("scatter", "Scatter", (4,), ROOT, OWN, pairs=True),
)
COLLECTIVES = {each.name: each for each in _KINDS}
# Those that a system or an algorithm of hosts carries.
CARRIED = {name: each for name, each in COLLECTIVES.items() if not each.pairs}
