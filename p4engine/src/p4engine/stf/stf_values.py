"""Names and values of STF statements against a program's tables and keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from p4engine.control.command_values import fit
from p4engine.program_info import Key, Table
from p4engine.stf.stf_parser import StfError, Value
from p4engine.values.matches import (
    ExactMatch,
    LpmMatch,
    Match,
    OptionalMatch,
    RangeMatch,
    TernaryMatch,
)
from p4engine.values.names import UnknownName, resolve
from p4engine.values.numbers import ControlError

T = TypeVar("T")
_DIGIT_BITS = {"0x": 4, "0b": 1, "0o": 3}


def find_name(
    candidates: Iterable[tuple[str, T]],
    wanted: str,
    what: str,
    owner: str = "the program",
    any_ending: bool = False,
) -> T:
    """Candidate as by `switch.names.resolve`; an unknown name ends a test."""
    try:
        return resolve(candidates, wanted, what, owner, any_ending)
    except UnknownName as error:
        raise StfError(str(error)) from None


def _plain(name: str) -> str:
    """A key's name with the one spelling for a header's validity."""
    for ending in (".$valid$", ".$valid", ".isValid()"):
        if name.endswith(ending):
            return name[: -len(ending)] + ".$valid$"
    return name


def find_key(table: Table, wanted: str) -> int:
    """The key of the table that `wanted` means."""
    wish = _plain(wanted)
    parts = wish.split("$")
    if len(parts) == 2 and parts[1][:1].isdigit():  # a$1.b for a[1].b
        digits = len(parts[1]) - len(parts[1].lstrip("0123456789"))
        wish = f"{parts[0]}[{parts[1][:digits]}]{parts[1][digits:]}"
    named = [(_plain(key.name), i) for i, key in enumerate(table.match_keys)]
    if wish == "valid" or wish.endswith(".valid"):
        valid = wish[: -len("valid")] + "$valid$"
        if not any(name == wish or name.endswith(f".{wish}") for name, _ in named):
            wish = valid
    return find_name(named, wish, "key", f"table {table.name}")


def _digits(text: str) -> tuple[str, int]:
    """(prefix, bits of a digit) of a number's text; 0 bits for decimal ones."""
    prefix = text[:2].lower()
    return (prefix, _DIGIT_BITS[prefix]) if prefix in _DIGIT_BITS else ("", 0)


def _zeros(text: str, prefix: str, replaced: str) -> int:
    digits = text[len(prefix) :]
    if prefix:
        base = {"0x": 16, "0b": 2, "0o": 8}[prefix]
        return int(digits.replace("*", replaced), base)
    return int(digits.replace("*", replaced))


def _mask(text: str, prefix: str, bits: int) -> int:
    """Ones for every digit that is written, zeros for every `*`."""
    made = 0
    for digit in text[len(prefix) :]:
        made = made << bits | (0 if digit == "*" else (1 << bits) - 1)
    return made


def match_value(key: Key, value: Value, table: str) -> Match:
    """An STF value for a key."""
    width, kind = key.width, key.kind
    what = f"table {table}, key {key.name}"
    text, ones = value.text, (1 << width) - 1
    prefix, bits = _digits(text)
    plain = fit(_zeros(text, prefix, "0") if prefix else text, width, what)
    if kind == "lpm":
        if value.join == "/":
            return LpmMatch(plain, int(value.second, 0))
        if value.join == "&&&":
            return LpmMatch(plain, bin(int(value.second, 0)).count("1"))
        if not prefix:
            return LpmMatch(plain, width)
        return LpmMatch(plain, (len(text) - len(prefix) - text.count("*")) * bits)
    if kind in ("ternary", "optional"):
        if value.join == "&&&":
            mask = fit(value.second, width, what)
        elif value.join == "/":
            length = fit(value.second, 32, what)
            mask = ones & ~(ones >> min(length, width))
        else:
            mask = fit(_mask(text, prefix, bits), width, what) if prefix else ones
        if kind == "optional":
            return OptionalMatch(plain if mask else None)
        return TernaryMatch(plain & mask, mask)
    if kind == "range":
        if value.join:
            return RangeMatch(plain, fit(value.second, width, what))
        highest = "7" if prefix == "0o" else "1" if prefix == "0b" else "f"
        high = fit(_zeros(text, prefix, highest), width, what) if prefix else plain
        return RangeMatch(plain, high)
    if "*" in text:
        raise ControlError(f"{what}: an exact key takes no wildcard ({text})")
    return ExactMatch(plain)
