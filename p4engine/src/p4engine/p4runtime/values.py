"""Byte strings of P4Runtime: numbers without leading zeros, at least one byte."""

from __future__ import annotations

from p4engine.p4runtime.status import Code, Refused, invalid


def number(data: bytes, width: int, what: str) -> int:
    """The number that `data` spells; leading zeros are accepted.

    Raises Refused: INVALID_ARGUMENT for no bytes at all, OUT_OF_RANGE above `width` bits.
    """
    if not data:
        invalid(f"{what}: the value is an empty string of bytes")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise Refused(Code.OUT_OF_RANGE, f"{what}: {value} does not fit into {width} bits")
    return value


def encoded(value: int) -> bytes:
    """The shortest string of bytes for a number that is not negative."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
