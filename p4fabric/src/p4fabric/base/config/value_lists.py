"""Several values of one key, as a file writes them: a list, or a range of numbers that grows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from p4fabric.base.config.units import DIMENSIONS, PERCENT, FieldError, describe, parse

ALLOWED = (
    "a list of values, or a growing range of numbers: "
    "{from: 10, to: 50, step: 10} or {from: 16, to: 256, times: 2}"
)


def values_of(given: object, most: int) -> list[Any]:
    """The values of a list, or of a range `{from, to, step}` or `{from, to, times}`, of which one
    more than `most` are made at the most. Raises FieldError."""
    if isinstance(given, list) and given:
        return given
    if (
        isinstance(given, dict)
        and all(
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in given.values()
        )
        and set(given) in ({"from", "to", "step"}, {"from", "to", "times"})
    ):
        first, last = given["from"], given["to"]
        step, times = given.get("step", 0), given.get("times", 1)
        grows = step > 0 or (times > 1 and first > 0)
        if grows and first <= last:
            return list(itertools.islice(_range(first, last, step, times), most + 1))
    raise FieldError(describe(given), ALLOWED)


def _range(first: float, last: float, step: float, times: float) -> Iterator[float]:
    # From the start each time, so that no rounding adds up.
    for count in itertools.count():
        value = first + count * step if step else first * times**count
        if value > last:
            return
        yield value


def number_of(value: object) -> float | None:
    """A value as a number in its base unit: 64, `1 %` (0.01), `10 Mbit/s`; of a list of mappings,
    such as links, how many there are; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return float(len(value))
    if isinstance(value, int | float):
        return float(value)
    for dimension in DIMENSIONS if isinstance(value, str) else ():
        try:
            amount = parse(value, dimension, 0, 10**30)
        except FieldError:
            continue
        return float(amount / 100 if dimension is PERCENT else amount)
    return None
