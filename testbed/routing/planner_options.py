"""Options of planners, besides the network and the jobs."""

from __future__ import annotations

from dataclasses import dataclass

PATHS = 16  # paths between two nodes that are considered
COUNTED, IGNORED = "counted", "ignored"
RESULTS = (COUNTED, IGNORED)
ROUNDINGS = 20


@dataclass(frozen=True)
class Options:
    """Options of every planner; each planner uses those that concern it.

    `seed`: of random choices. `paths`: how many paths between two nodes are considered; None: 16.
    `results`: whether a plan leaves room for
    the results ("counted": its rates hold with them) or not ("ignored"). `roundings`: how many
    roundings `grid` draws. `exact`: `grid` solves its integer program instead of rounding."""

    seed: int = 1
    paths: int | None = None
    results: str = COUNTED
    roundings: int = ROUNDINGS
    exact: bool = False

    @property
    def counted(self) -> bool:
        """True if rates hold with results."""
        return self.results == COUNTED

    @property
    def path_limit(self) -> int:
        """The number of paths between two nodes that are considered."""
        return PATHS if self.paths is None else self.paths
