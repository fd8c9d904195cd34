"""How topologies say that a number is out of range."""

from __future__ import annotations

from testbed.topology import TopologyError


def within(option: str, value: int, low: int, high: int) -> None:
    """Raises TopologyError unless `value` of the key `option` lies from low to high."""
    if not low <= value <= high:
        raise TopologyError(
            f"found {value}; allowed: a whole number from {low} to {high}", option=option
        )
