"""Choice of the algorithm with the least time for a call, in the alpha-beta model (bounds.py).

What the experiment's system does is one of the candidates. The model knows nothing of what else is
on the links, nor of sums that a switch has no memory for.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.algorithms.bounds import busbw_factor, cost
from testbed.algorithms.chunk import Group
from testbed.collective_kinds import COLLECTIVES

CANDIDATES = ("ring", "halving_doubling", "double_tree")
LARGEST = 1 << 30  # bytes
SYSTEM = ""  # what the experiment's system does


@dataclass(frozen=True)
class Network:
    """A network as the model sees it. latency_ns: from one rank to another; rate_bps: of a rank's
    link, 0: unlimited. steps: of the experiment's system from the ranks to the sum and back; 0: it
    is an algorithm of hosts itself. servers: parameter servers that add up; 0: switches do."""

    latency_ns: int
    rate_bps: int
    steps: int = 0
    servers: int = 0

    def time_ns(self, algorithm: str, collective: str, size: int, ranks: int) -> float:
        """The model's time of a call with `size` bytes of all ranks' parts together."""
        if algorithm == SYSTEM:
            steps, share = self.steps, ranks / self.servers if self.servers else 1.0
            kind = COLLECTIVES[collective]
            if kind.parts and not kind.sums and not self.servers:
                share = busbw_factor(collective, ranks)
        else:
            found = cost(algorithm, collective, Group(tuple(range(ranks))))
            busiest = max(max(found.sent(r), found.received(r)) for r in (0, ranks // 2, ranks - 1))
            steps, share = found.steps, float(busiest)
        spent = 8e9 * size * share / self.rate_bps if self.rate_bps else 0.0
        return steps * self.latency_ns + spent

    def fastest(self, collective: str, size: int, ranks: int) -> str:
        """The algorithm with the least time; the system, or the first one, of several."""
        candidates = ((SYSTEM,) if self.steps else ()) + CANDIDATES
        return min(candidates, key=lambda each: self.time_ns(each, collective, size, ranks))

    def thresholds(self, collective: str, ranks: int) -> list[tuple[int, str]]:
        """From which sizes on which algorithm is the fastest one, in powers of two."""
        found: list[tuple[int, str]] = []
        size = 4
        while size <= LARGEST:
            best = self.fastest(collective, size, ranks)
            if not found or found[-1][1] != best:
                found.append((size, best))
            size *= 2
        return found
