"""Tokens' ways to experts: which ranks hold the experts that each token of a rank goes to.

A router chooses k different experts for each token, each with the chance of its weight: all alike,
or by Zipf's law, the i-th expert with weight i^-skew (which expert is the i-th differs from layer
to layer), or as often as a file of counts says. Rank r of n holds E / n neighbouring experts. A
token goes once to each rank that holds one of its experts, whatever their number there, and not
over the network to its own rank.

With a capacity factor c an expert takes ceil(c x tokens x k / E) of a rank's tokens in a call, as
in GShard, in the order of tokens. It drops the others: they go without its answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from pathlib import Path

from p4fabric.base.errors import UserError

from testbed.traffic.arrivals import is_whole, read_mix
from testbed.traffic.draws import Stream

ROUTES = 0xE2B1  # distinguishes the streams from others of the same seed
UNIT = 10**9  # the largest weight

COLUMNS = ("layer", "expert", "count")

Targets = tuple[int, ...]  # places of other ranks in the group, ascending
Counts = tuple[tuple[int, ...], ...]


def read_counts(path: Path, layers: int, experts: int, top_k: int) -> Counts:
    """Counts of choices of each expert, by layer or of all: a CSV file with columns expert, count
    and, where layers differ, layer; all numbers from 0. Raises UserError."""
    lines = read_mix(path, "counts")
    of_layers = "layer" in lines[0].cells
    found = [[0] * experts for _ in range(layers if of_layers else 1)]
    allowed = {"layer": layers - 1, "expert": experts - 1, "count": UNIT}
    for line in lines:
        where = f"{path}, line {line.number}"
        for name in COLUMNS if of_layers else COLUMNS[1:]:
            cell = line.cells.get(name, "")
            if not is_whole(cell, 0, allowed[name]):
                raise UserError(
                    f"{where}: {name}: found {cell[:40]!r}; write a whole number, 0 to"
                    f" {allowed[name]}"
                )
        if unknown := line.cells.keys() - {*COLUMNS}:
            raise UserError(
                f"{where}: unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}"
            )
        found[int(line.cells.get("layer", 0))][int(line.cells["expert"])] += int(
            line.cells["count"]
        )
    for layer, counts in enumerate(found):
        if sum(map(bool, counts)) < top_k:
            which = f"layer {layer} has" if of_layers else "there are"
            raise UserError(
                f"{path}: {which} counts above 0 for {sum(map(bool, counts))} experts; a token goes"
                f" to {top_k}. Give at least as many"
            )
    return tuple(map(tuple, found))


@dataclass(frozen=True)
class ExpertRouting:
    """experts: E, of which `top_k` answer a token, on `ranks` ranks. skew: exponent of Zipf's law,
    0: all alike. capacity: factor c, 0: no limit. counts: in place of Zipf's law, weights of the
    experts of each layer, or of all layers."""

    experts: int
    top_k: int
    ranks: int
    skew: float = 0.0
    seed: int = 0
    capacity: float = 0.0
    counts: Counts = ()

    def sets_of(self, source: int, tokens: int, *which: int) -> Counter[Targets]:
        """Numbers of tokens of the rank at place `source`, by the other ranks that they go to.
        which: numbers that tell this call from others, such as layer and microbatch; the first is
        the layer's."""
        return _sets(self, source, tokens, which)[0]

    def dropped(self, source: int, tokens: int, *which: int) -> int:
        """Answers that these tokens go without, as experts are full."""
        return _sets(self, source, tokens, which)[1]

    def most(self, tokens: int) -> int:
        """Tokens of a rank's call that an expert takes."""
        if not self.capacity:
            return tokens
        return ceil(Fraction(repr(self.capacity)) * tokens * self.top_k / self.experts)

    def weights(self, layer: int) -> list[int]:
        """Of each expert."""
        return [*_weights(self, layer)]


@lru_cache(maxsize=4096)
def _weights(routing: ExpertRouting, layer: int) -> list[int]:
    if routing.counts:
        return [*routing.counts[layer if len(routing.counts) > 1 else 0]]
    context = Context(prec=30)
    exponent = Decimal(repr(-routing.skew))
    by_place = [
        max(1, int(UNIT * context.power(Decimal(place + 1), exponent)))
        for place in range(routing.experts)
    ]
    shuffled = [*range(routing.experts)]
    stream = Stream(routing.seed, ROUTES, layer)
    for last in range(routing.experts - 1, 0, -1):
        other = stream.below(last + 1)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return [by_place[place] for place in shuffled]


@lru_cache(maxsize=16_384)  # calls of owners, which all ranks of a group ask for
def _sets(
    routing: ExpertRouting, source: int, tokens: int, which: tuple[int, ...]
) -> tuple[Counter[Targets], int]:
    held = routing.experts // routing.ranks
    weights = routing.weights(which[0])
    stream = Stream(routing.seed, ROUTES, source, *which)
    found: Counter[Targets] = Counter()
    free, dropped = [routing.most(tokens)] * routing.experts, 0
    for _ in range(tokens):
        left, chosen = [*weights], set()
        for _ in range(routing.top_k):
            expert = stream.weighted(left)
            left[expert] = 0
            if free[expert]:
                free[expert] -= 1
                chosen.add(expert // held)
            else:
                dropped += 1
        found[tuple(sorted(chosen - {source}))] += 1
    return found, dropped
