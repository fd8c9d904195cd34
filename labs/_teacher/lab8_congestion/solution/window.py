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
        self.until = -1  # results up to this fragment belong to a window that has been halved

    def allowed(self) -> int:
        """Fragments that may be in flight now; at least 1."""
        return max(1, int(self.size + 1e-9))

    def sent(self, fragment: int) -> None:
        """Fragment number `fragment` has just been sent; numbers only grow."""
        self.last = fragment

    def result(self, fragment: int, ecn: bool) -> None:
        """The result of `fragment` has come; `ecn`: it has met a long queue."""
        if ecn:
            if fragment > self.until:
                self.size = max(1.0, self.size / 2)
                self.until = self.last
        else:
            self.size = min(float(self.largest), self.size + 1 / self.size)
