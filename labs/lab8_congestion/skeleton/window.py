"""Lab 8: a worker's window, additive increase and multiplicative decrease (AIMD)."""

from __future__ import annotations


class Window:
    """Number of fragments that a worker may have in flight.

    Args:
        start, largest: fragments, at first and at most.
    """

    def __init__(self, start: int, largest: int) -> None:
        self.size = float(start)
        self.largest = largest

    def allowed(self) -> int:
        """Fragments that may be in flight now; at least 1."""
        return max(1, int(self.size + 1e-9))

    def sent(self, fragment: int) -> None:
        """Fragment number `fragment` has just been sent; numbers only grow."""

    def result(self, fragment: int, ecn: bool) -> None:
        """The result of `fragment` has come; `ecn`: it has met a long queue."""
        self.size = self.largest  # TODO (task 2): this does not share a network
