"""Values as they are written in commands: numbers, addresses, prefixes, masks, ranges."""

from __future__ import annotations

from typing import Any

from p4engine.switch.pipeline_values import ControlError, number

ORDERED = ("ternary", "range", "optional")


class CommandError(ControlError):
    """A command that cannot be understood or carried out."""


def fit(text: Any, width: int, what: str) -> int:
    """A number in any spelling as BMv2 takes it: up to whole bytes; extra bits in the first byte
    are cut off."""
    value = number(text, (width + 7) // 8 * 8, what)
    return value & ((1 << width) - 1)


def match_value(key: dict, text: str, what: str) -> Any:
    """One key's match in the command line's spelling, as `Switch.table_add` takes it."""
    width, kind = key["width"], key["kind"]
    what = f"{what}, key {key['name']}"
    if kind == "lpm":
        value, slash, length = text.partition("/")
        return fit(value, width, what), whole(length, what) if slash else width
    if kind in ("ternary", "optional"):
        value, mark, mask = text.partition("&&&")
        if not mark:
            return fit(value, width, what)
        bits = fit(mask, width, what)
        if kind == "ternary":
            return fit(value, width, what) & bits, bits
        return fit(value, width, what) if bits else None
    if kind == "range":
        low, arrow, high = text.partition("->")
        return fit(low, width, what), fit(high if arrow else low, width, what)
    return fit(text, width, what)


def whole(text: str, what: str) -> int:
    """A whole number; `what` it is goes into the error."""
    try:
        return int(text, 0) if not text.isdigit() else int(text)
    except ValueError:
        raise CommandError(f"{what}: {text!r} is not a whole number") from None


def needs_priority(table: dict) -> bool:
    """Do entries of this table need a priority?"""
    return any(k["kind"] in ORDERED for k in table["keys"])


def match_keys(table: dict) -> list[dict]:
    """The keys that an entry gives values for."""
    return [k for k in table["keys"] if k["kind"] != "selector"]
