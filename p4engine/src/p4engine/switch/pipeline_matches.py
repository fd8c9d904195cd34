"""Matches and parameters of table entries, to words and back.

Match values, one per key: exact and optional take a number (optional: None for any); lpm takes
(value, prefix length) or "10.0.0.0/8"; ternary takes (value, mask), a number for all bits, or None
for any; range takes (low, high) or a number. Selector keys are no part of a match. `table`, `key`
and `action` are what info says of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from p4engine.switch.pipeline_values import (
    SMALL,
    ControlError,
    from_words,
    number,
    to_words,
    word_count,
)


def match_words(table: dict, match: Sequence[Any]) -> list[int]:
    """A whole match as p4rt.h codes it; raises ControlError with the key that is wrong."""
    keys = [k for k in table["keys"] if k["kind"] != "selector"]
    if isinstance(match, str | bytes) or not isinstance(match, Sequence):
        raise ControlError(f"table {table['name']}: the match must be a list, one value per key")
    if len(match) != len(keys):
        raise ControlError(f"table {table['name']} has {len(keys)} keys, {len(match)} values given")
    words: list[int] = []
    for key, value in zip(keys, match, strict=True):
        plain = _plain_words(key["kind"], key["width"], value)  # most entries of large tables
        words += plain or key_words(key, value, f"table {table['name']}, key {key['name']}")
    return words


def _plain_words(kind: str, width: int, value: Any) -> tuple[int, ...] | None:
    """The words of a match that is written in whole numbers of one word each, None for others."""
    limit = SMALL[width]
    if kind == "exact":
        return (value,) if type(value) is int and 0 <= value < limit else None
    if kind == "optional" or type(value) not in (tuple, list) or len(value) != 2:
        return None
    first, second = value
    if type(first) is not int or type(second) is not int or not 0 <= first < limit:
        return None
    if kind == "lpm":
        return (first, second) if 0 <= second <= width else None
    if not 0 <= second < limit:
        return None
    return (first & second, second) if kind == "ternary" else (first, second)


def key_words(key: dict, value: Any, what: str) -> list[int]:
    """One key's match; `what` begins an error's text."""
    width, kind = key["width"], key["kind"]
    ones = (1 << width) - 1
    pair = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    if pair and len(value) != 2:
        raise ControlError(f"{what}: expected a pair, not {value!r}")
    if kind == "lpm":
        if isinstance(value, str) and "/" in value:
            value, pair = value.rsplit("/", 1), True
        if value is None:
            value, pair = (0, 0), True
        base, length = value if pair else (value, width)
        size = number(length, 32, what)
        if size > width:
            raise ControlError(f"{what}: the prefix length is at most {width}, not {size}")
        return [*to_words(number(base, width, what), width), size]
    if kind == "ternary":
        if isinstance(value, str) and "&&&" in value:
            value, pair = value.split("&&&"), True
        if value is None:
            value, pair = (0, 0), True
        base, mask = value if pair else (value, ones)
        bits = number(mask, width, what)
        return [*to_words(number(base, width, what) & bits, width), *to_words(bits, width)]
    if kind == "range":
        if isinstance(value, str) and "->" in value:
            value, pair = value.split("->"), True
        if value is None:
            value, pair = (0, ones), True
        low, high = value if pair else (value, value)
        return [
            *to_words(number(low, width, what), width),
            *to_words(number(high, width, what), width),
        ]
    if kind == "optional":
        used = value is not None
        return [*to_words(number(value, width, what) if used else 0, width), int(used)]
    if pair or value is None:
        raise ControlError(f"{what}: an exact key takes one value, not {value!r}")
    return to_words(number(value, width, what), width)


def param_words(action: dict, params: Sequence[Any]) -> list[int]:
    """An action\'s parameters, in order or by name."""
    expected = action["params"]
    if isinstance(params, dict):
        unknown = set(params) - {p["name"] for p in expected}
        if unknown:
            raise ControlError(f"action {action['name']} has no parameter {min(unknown)!r}")
        missing = [p["name"] for p in expected if p["name"] not in params]
        if missing:
            raise ControlError(f"action {action['name']} needs a value for {missing[0]!r}")
        params = [params[p["name"]] for p in expected]
    if len(params) != len(expected):
        names = ", ".join(p["name"] for p in expected) or "nothing"
        raise ControlError(
            f"action {action['name']} takes {len(expected)} parameters ({names}),"
            f" {len(params)} given"
        )
    words: list[int] = []
    for p, value in zip(expected, params, strict=True):
        if type(value) is int and 0 <= value < SMALL[p["width"]]:
            words.append(value)
            continue
        what = f"action {action['name']}, parameter {p['name']}"
        words += to_words(number(value, p["width"], what), p["width"])
    return words


def priority_of(table: dict, priority: int | None) -> int:
    """The priority to hand over; an error where entries need one and none is given."""
    ordered = any(k["kind"] in ("ternary", "range", "optional") for k in table["keys"])
    if ordered and priority is None:
        raise ControlError(f"table {table['name']}: its entries need a priority (lower wins)")
    value = 0 if priority is None else int(priority)
    if not -(2**31) <= value < 2**31:
        raise ControlError(f"table {table['name']}: the priority {value} is too large")
    return value


def match_values(keys: list[dict], words: list[int]) -> list[Any]:
    """What `match_words` was given: one number, pair or None per key."""
    result: list[Any] = []
    at = 0
    for k in keys:
        n = word_count(k["width"])
        value = from_words(words[at : at + n], k["width"])
        at += n
        if k["kind"] == "lpm":
            result.append((value, words[at]))
            at += 1
        elif k["kind"] in ("ternary", "range"):
            result.append((value, from_words(words[at : at + n], k["width"])))
            at += n
        elif k["kind"] == "optional":
            result.append(value if words[at] else None)
            at += 1
        else:
            result.append(value)
    return result
