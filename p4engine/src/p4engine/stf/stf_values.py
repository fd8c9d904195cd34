"""Names and values of STF statements against a program's tables and keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p4engine.control.command_values import fit
from p4engine.stf.stf_parser import StfError, Value
from p4engine.switch.pipeline_values import ControlError

_DIGIT_BITS = {"0x": 4, "0b": 1, "0o": 3}


def resolve(names: Sequence[str], wanted: str, what: str) -> int:
    """Index of the name that `wanted` means: in full, behind a dot, or as any ending."""
    for close in (
        [i for i, n in enumerate(names) if n == wanted],
        [i for i, n in enumerate(names) if n.endswith("." + wanted)],
        [i for i, n in enumerate(names) if n.endswith(wanted)],
    ):
        if len(close) == 1:
            return close[0]
        if close:
            raise StfError(f"{what} {wanted!r} is ambiguous: {', '.join(names[i] for i in close)}")
    raise StfError(f"there is no {what} {wanted!r}; there is {', '.join(names) or 'none'}")


def _plain(name: str) -> str:
    """A key's name with the one spelling for a header's validity."""
    for ending in (".$valid$", ".$valid", ".isValid()"):
        if name.endswith(ending):
            return name[: -len(ending)] + ".$valid$"
    return name


def find_key(names: Sequence[str], wanted: str, table: str) -> int:
    """Index of the key that `wanted` means."""
    plain, wish = [_plain(n) for n in names], _plain(wanted)
    parts = wish.split("$")
    if len(parts) == 2 and parts[1][:1].isdigit():  # a$1.b for a[1].b
        digits = len(parts[1]) - len(parts[1].lstrip("0123456789"))
        wish = f"{parts[0]}[{parts[1][:digits]}]{parts[1][digits:]}"
    tries = [wish]
    if wish == "valid" or wish.endswith(".valid"):
        tries.append(wish[: -len("valid")] + "$valid$")
    for each in tries:
        for test in (lambda n, e=each: n == e, lambda n, e=each: n.endswith("." + e)):
            close = [i for i, n in enumerate(plain) if test(n)]
            if close:
                return close[0]
    raise StfError(f"table {table} has no key {wanted!r}; it has {', '.join(names) or 'none'}")


def anything(key: dict) -> Any:
    """The match of a key that an entry does not name."""
    return {
        "exact": 0,
        "lpm": (0, 0),
        "ternary": (0, 0),
        "range": (0, (1 << key["width"]) - 1),
        "optional": None,
    }[key["kind"]]


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


def match_value(key: dict, value: Value, table: str) -> Any:
    """An STF value as `Switch.table_add` takes it for this key."""
    width, kind = key["width"], key["kind"]
    what = f"table {table}, key {key['name']}"
    text, ones = value.text, (1 << width) - 1
    prefix, bits = _digits(text)
    plain = fit(_zeros(text, prefix, "0"), width, what) if prefix else None
    if plain is None:
        plain = fit(text, width, what)
    if kind == "lpm":
        if value.join == "/":
            return plain, int(value.second, 0)
        if value.join == "&&&":
            return plain, bin(int(value.second, 0)).count("1")
        if not prefix:
            return plain, width
        return plain, (len(text) - len(prefix) - text.count("*")) * bits
    if kind in ("ternary", "optional"):
        if value.join == "&&&":
            mask = fit(value.second, width, what)
        elif value.join == "/":
            length = fit(value.second, 32, what)
            mask = ones & ~(ones >> min(length, width))
        else:
            mask = fit(_mask(text, prefix, bits), width, what) if prefix else ones
        if kind == "optional":
            return plain if mask else None
        return plain & mask, mask
    if kind == "range":
        if value.join:
            return plain, fit(value.second, width, what)
        high = "7" if prefix == "0o" else "1" if prefix == "0b" else "f"
        return plain, fit(_zeros(text, prefix, high), width, what) if prefix else plain
    if "*" in text:
        raise ControlError(f"{what}: an exact key takes no wildcard ({text})")
    return plain
