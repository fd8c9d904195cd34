"""The teacher's part of lab 13: the puzzle's answer."""

from __future__ import annotations


def packets(puzzle: tuple[int, int, int]) -> int:
    """Packets with values that the PS gets of the puzzle's fragment, (workers, evicted, collided):
    the evicted sum, each gradient that collided, and what a reminder brings of the others."""
    workers, evicted, collided = puzzle
    return 1 + collided + (workers > evicted + collided)
