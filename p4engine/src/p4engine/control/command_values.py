"""Values as they are written in commands: numbers, addresses, prefixes, masks, ranges."""

from __future__ import annotations

from typing import Any

from p4engine.program_info import Key
from p4engine.values.matches import (
    ExactMatch,
    LpmMatch,
    Match,
    OptionalMatch,
    RangeMatch,
    TernaryMatch,
)
from p4engine.values.numbers import ControlError, number


class CommandError(ControlError):
    """A command that cannot be understood or carried out."""


def fit(text: Any, width: int, what: str) -> int:
    """A number in any spelling as BMv2 takes it: up to whole bytes; extra bits in the first byte
    are cut off."""
    value = number(text, (width + 7) // 8 * 8, what)
    return value & ((1 << width) - 1)


def match_value(key: Key, text: str, what: str) -> Match:
    """One key's match in the command line's spelling."""
    width, kind = key.width, key.kind
    what = f"{what}, key {key.name}"
    if kind == "lpm":
        value, slash, length = text.partition("/")
        return LpmMatch(fit(value, width, what), whole(length, what) if slash else width)
    if kind in ("ternary", "optional"):
        value, mark, mask = text.partition("&&&")
        bits = fit(mask, width, what) if mark else (1 << width) - 1
        plain = fit(value, width, what)
        if kind == "ternary":
            return TernaryMatch(plain & bits, bits)
        return OptionalMatch(plain if bits or not mark else None)
    if kind == "range":
        low, arrow, high = text.partition("->")
        return RangeMatch(fit(low, width, what), fit(high if arrow else low, width, what))
    return ExactMatch(fit(text, width, what))


def match_text(key: Key, value: Any) -> str:
    """One key's match, from plain values, in the command line's spelling."""
    if key.kind == "lpm":
        return f"{value[0]:#x}/{value[1]}"
    if key.kind == "ternary":
        return f"{value[0]:#x}&&&{value[1]:#x}"
    if key.kind == "range":
        return f"{value[0]:#x}->{value[1]:#x}"
    return "0x0&&&0x0" if value is None else f"{value:#x}"


def whole(text: str, what: str) -> int:
    """A whole number; `what` it is goes into the error."""
    try:
        return int(text, 0) if not text.isdigit() else int(text)
    except ValueError:
        raise CommandError(f"{what}: {text!r} is not a whole number") from None
