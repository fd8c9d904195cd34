"""Scaling integers in proportion without losing any: the arithmetic of `Trace.scaled`.

A model that is scaled to a hundredth must not lose its small tensors (each still costs a packet
and a slot), and its total must be what the experiment says. Integer arithmetic throughout, so a
scaled trace is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Split the integer `total` in proportion to `weights` (integers >= 0, not all 0).

    Each boundary between two shares is rounded to the nearest integer, which carries the rounding
    error along: the shares add up to `total`, and any run of them is off by less than one.
    """
    whole = sum(weights)
    shares, before, reached = [], 0, 0
    for weight in weights:
        reached += weight
        boundary = (2 * total * reached + whole) // (2 * whole)
        shares.append(boundary - before)
        before = boundary
    return shares


def scale_values(values: Sequence[int], scale: float) -> list[int]:
    """Values per layer after scaling: see `Trace.scaled`."""
    total = max(len(values), round(scale * sum(values)))
    pinned = [False] * len(values)  # layers whose share is below one value get exactly one
    while True:
        left = total - sum(pinned)
        whole = sum(v for v, pin in zip(values, pinned, strict=True) if not pin)
        below = [not pin and v * left < whole for v, pin in zip(values, pinned, strict=True)]
        if not any(below):
            break
        # What a pinned layer gets beyond its share, the others lose: look again.
        pinned = [pin or small for pin, small in zip(pinned, below, strict=True)]
        if all(pinned):
            return [1] * len(values)
    rest = iter(share_out(left, [v for v, pin in zip(values, pinned, strict=True) if not pin]))
    return [1 if pin else next(rest) for pin in pinned]


def scale_times(times_ns: Sequence[int], scale: float) -> list[int]:
    """Times per layer after scaling, in ns: see `Trace.scaled`."""
    total = sum(times_ns)
    return share_out(round(scale * total), times_ns) if total else [0] * len(times_ns)
