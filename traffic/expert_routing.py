"""Tokens' ways to experts: which ranks hold the experts that each token of a rank goes to.

A router chooses k different experts for each token, each with the chance of its weight: all alike,
or by Zipf's law, the i-th expert with weight i^-skew (which expert is the i-th differs from layer
to layer). Rank r of n holds E / n neighbouring experts. A token goes once to each rank that holds
one of its experts, whatever their number there, and not over the network to its own rank.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

from testbed.traffic.draws import Stream

ROUTES = 0xE2B1  # distinguishes the streams from others of the same seed
UNIT = 10**9  # the largest weight

Targets = tuple[int, ...]  # places of other ranks in the group, ascending


@dataclass(frozen=True)
class ExpertRouting:
    """experts: E, of which `top_k` answer a token, on `ranks` ranks. skew: exponent of Zipf's law,
    0: all alike."""

    experts: int
    top_k: int
    ranks: int
    skew: float = 0.0
    seed: int = 0

    def sets_of(self, source: int, tokens: int, *which: int) -> Counter[Targets]:
        """Numbers of tokens of the rank at place `source`, by the other ranks that they go to.
        which: numbers that tell this call from others, such as layer and microbatch; the first is
        the layer's."""
        return _sets(self, source, tokens, which)

    def weights(self, layer: int) -> list[int]:
        """Of each expert."""
        context = Context(prec=30)
        exponent = Decimal(repr(-self.skew))
        by_place = [
            max(1, int(UNIT * context.power(Decimal(place + 1), exponent)))
            for place in range(self.experts)
        ]
        shuffled = [*range(self.experts)]
        stream = Stream(self.seed, ROUTES, layer)
        for last in range(self.experts - 1, 0, -1):
            other = stream.below(last + 1)
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return [by_place[place] for place in shuffled]


@lru_cache(maxsize=4096)
def _sets(
    routing: ExpertRouting, source: int, tokens: int, which: tuple[int, ...]
) -> Counter[Targets]:
    held = routing.experts // routing.ranks
    weights = routing.weights(which[0])
    stream = Stream(routing.seed, ROUTES, source, *which)
    found: Counter[Targets] = Counter()
    for _ in range(tokens):
        left, chosen = [*weights], set()
        for _ in range(routing.top_k):
            expert = stream.weighted(left)
            left[expert] = 0
            chosen.add(expert // held)
        found[tuple(sorted(chosen - {source}))] += 1
    return found
