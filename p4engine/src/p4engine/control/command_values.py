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
from p4engine.values.numbers import ControlError, ip_text, mac_text, number


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
    """One key's match, from plain values, in the command line's spelling. Keys of 48 bits are
    written as Ethernet addresses, prefixes of 32 bits as IPv4 ones."""
    if key.kind == "lpm":
        start = ip_text(value[0]) if key.width == 32 else _key_text(key, value[0])
        return f"{start}/{value[1]}"
    if key.kind == "ternary":
        return f"{_key_text(key, value[0])}&&&{_key_text(key, value[1])}"
    if key.kind == "range":
        return f"{value[0]:#x}->{value[1]:#x}"
    return "0x0&&&0x0" if value is None else _key_text(key, value)


def _key_text(key: Key, value: int) -> str:
    return mac_text(value) if key.width == 48 else f"{value:#x}"


def param_text(width: int, value: int) -> str:
    """A value of an action's parameter of `width` bits, as `table_add` takes it."""
    return mac_text(value) if width == 48 else str(value)


def whole(text: str, what: str) -> int:
    """A whole number; `what` it is goes into the error."""
    try:
        return int(text, 0) if not text.isdigit() else int(text)
    except ValueError:
        raise CommandError(f"{what}: {text!r} is not a whole number") from None
