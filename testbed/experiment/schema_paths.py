"""The key `paths` of an experiment file: how packets choose among equal paths."""

from __future__ import annotations

from typing import Annotated

from p4fabric.base.config.fields import SECOND, Choice, Quantity, Section, Whole
from p4fabric.base.config.units import TIME
from pydantic import Field

FIRST, ECMP, FLOWLET, SPRAY = "first", "ecmp", "flowlet", "spray"
PINNED, PER_ROOT, UNPINNED = "pinned", "per_root", "unpinned"


class Paths(Section):
    """The choice among equal paths."""

    choice: Annotated[str, Choice((FIRST, ECMP, FLOWLET, SPRAY))] = Field(
        default=ECMP,
        description="Path of a packet that goes by its address. `first`: that of the receiver's"
        " local rank, as without `paths`. `ecmp`: by a hash of the five-tuple. `flowlet`: the same"
        " until the flow pauses for a `gap`. `spray`: each packet has a path of its own.",
    )
    seed: Annotated[int | None, Whole(0, 2 * 10**9, word="auto")] = Field(
        default=None,
        description="Seed of the switches' hashes; auto: that of the repetition.",
    )
    gap_ns: Annotated[int, Quantity(TIME, 1000, SECOND)] = Field(
        default=100_000,
        alias="gap",
        description="Pause after which a flow may take another path; `flowlet` only.",
    )
    weights: Annotated[str, Choice(("equal", "rate"))] = Field(
        default="equal",
        description="Shares of paths. `rate`: in proportion to what their links carry.",
    )
    sums: Annotated[str, Choice((PINNED, PER_ROOT, UNPINNED))] = Field(
        default=PINNED,
        description="Paths of what switches add up. `pinned`: all of a job meets in one tree, as"
        " without `paths`. `per_root`: a tree on each of the equal paths, each with its share of"
        " the fragments. `unpinned`: by `choice`, so only some sums meet, and the server completes"
        " the others. The last two are for systems with a shared pool (esa, atp, a2tp); `tree` has"
        " `trees`, `grid` a plan.",
    )

    @property
    def of_packets(self) -> bool:
        """True if what goes by its address has a choice."""
        return self.choice != FIRST
