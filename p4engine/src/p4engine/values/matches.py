"""A table entry's match, one `Match` per key, and how it is written in Python, JSON and words of C.

Commands, tests, network files and P4Runtime have spellings of their own; they are turned to and
from these types where they come in (control/command_values.py, stf/stf_values.py,
p4runtime/matches.py). In Python, JSON and YAML a key's match may also be written as plain values:
exact and optional take a number (optional: None for any); lpm takes (value, prefix length) or
"10.0.0.0/8"; ternary takes (value, mask), a number for all bits, or None for any; range takes
(low, high) or a number. Selector keys are no part of a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from p4engine.program_info import Action, Key, Table
from p4engine.values.numbers import (
    SMALL,
    ControlError,
    from_words,
    number,
    small,
    to_words,
    word_count,
)


class Kind(Protocol):
    """A key: a `Key`, or anything like it."""

    @property
    def kind(self) -> str: ...

    @property
    def width(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """Equal to `value`."""

    value: int

    def plain(self) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class LpmMatch:
    """The first `length` bits are those of `value`."""

    value: int
    length: int

    def plain(self) -> tuple[int, int]:
        return self.value, self.length


@dataclass(frozen=True, slots=True)
class TernaryMatch:
    """The bits in `mask` are those of `value`, whose others are 0."""

    value: int
    mask: int

    def plain(self) -> tuple[int, int]:
        return self.value, self.mask


@dataclass(frozen=True, slots=True)
class RangeMatch:
    """Range from `low` to `high`, both included."""

    low: int
    high: int

    def plain(self) -> tuple[int, int]:
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class OptionalMatch:
    """Equal to `value`, or anything for None."""

    value: int | None

    def plain(self) -> int | None:
        return self.value


Match = ExactMatch | LpmMatch | TernaryMatch | RangeMatch | OptionalMatch
KINDS: dict[str, type[Match]] = {
    "exact": ExactMatch,
    "lpm": LpmMatch,
    "ternary": TernaryMatch,
    "range": RangeMatch,
    "optional": OptionalMatch,
}
MATCHES = (ExactMatch, LpmMatch, TernaryMatch, RangeMatch, OptionalMatch)


def anything(key: Kind) -> Match:
    """A match for every key; 0 for an exact key, which has no such match."""
    if key.kind == "lpm":
        return LpmMatch(0, 0)
    if key.kind == "ternary":
        return TernaryMatch(0, 0)
    if key.kind == "range":
        return RangeMatch(0, (1 << key.width) - 1)
    return OptionalMatch(None) if key.kind == "optional" else ExactMatch(0)


def is_anything(key: Kind, match: Match) -> bool:
    """True if it matches every key."""
    if isinstance(match, LpmMatch):
        return match.length == 0
    if isinstance(match, TernaryMatch):
        return match.mask == 0
    return not isinstance(match, ExactMatch) and match == anything(key)


# ---- plain values ----


def from_plain(key: Kind, value: Any, what: str) -> Match:
    """A match from plain values (see above), or itself; `what` begins an error's text."""
    width, kind = key.width, key.kind
    if isinstance(value, MATCHES):
        if type(value) is not KINDS.get(kind):
            raise ControlError(f"{what}: {value!r} is no match for a key of kind {kind}")
        value = value.plain()
    ones = (1 << width) - 1
    pair = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
    if pair and len(value) != 2:
        raise ControlError(f"{what}: expected a pair, not {value!r}")
    if kind == "optional":
        return OptionalMatch(None if value is None else number(value, width, what))
    if kind not in ("lpm", "ternary", "range"):
        if pair or value is None:
            raise ControlError(f"{what}: an exact key takes one value, not {value!r}")
        return ExactMatch(number(value, width, what))
    if value is None:
        return anything(key)
    separator = {"lpm": "/", "ternary": "&&&", "range": "->"}[kind]
    if isinstance(value, str) and separator in value:
        value, pair = value.rsplit(separator, 1), True
    if kind == "lpm":
        base, length = value if pair else (value, width)
        size = number(length, 32, what)
        if size > width:
            raise ControlError(f"{what}: the prefix length is at most {width}, not {size}")
        return LpmMatch(number(base, width, what), size)
    if kind == "ternary":
        base, mask = value if pair else (value, ones)
        bits = number(mask, width, what)
        return TernaryMatch(number(base, width, what) & bits, bits)
    low, high = value if pair else (value, value)
    return RangeMatch(number(low, width, what), number(high, width, what))


# ---- words, as runtime/p4rt.h has them ----


def match_words(table: Table, match: Sequence[Any]) -> list[int]:
    """A whole match, of plain values or `Match`es; raises ControlError with the key that is
    wrong."""
    keys = table.match_keys
    if isinstance(match, str | bytes) or not isinstance(match, Sequence):
        raise ControlError(f"table {table.name}: the match must be a list, one value per key")
    if len(match) != len(keys):
        raise ControlError(f"table {table.name} has {len(keys)} keys, {len(match)} values given")
    words: list[int] = []
    for key, value in zip(keys, match, strict=True):
        few = _small_words(key.kind, key.width, value)  # most entries of large tables
        words += few or key_words(key, value, f"table {table.name}, key {key.name}")
    return words


def _small_words(kind: str, width: int, value: Any) -> tuple[int, ...] | None:
    """The words of a match that is written in numbers of one word each, None for others."""
    limit = SMALL[width]
    if kind == "exact":
        one = small(value, limit)
        return None if one is None else (one,)
    if kind == "optional" or type(value) not in (tuple, list) or len(value) != 2:
        return None
    first, second = small(value[0], limit), small(value[1], width + 1 if kind == "lpm" else limit)
    if first is None or second is None:
        return None
    return (first & second, second) if kind == "ternary" else (first, second)


def key_words(key: Kind, value: Any, what: str) -> list[int]:
    """One key's match, plain or a `Match`; `what` begins an error's text."""
    match, width = from_plain(key, value, what), key.width
    if isinstance(match, LpmMatch):
        return [*to_words(match.value, width), match.length]
    if isinstance(match, TernaryMatch):
        return [*to_words(match.value, width), *to_words(match.mask, width)]
    if isinstance(match, RangeMatch):
        return [*to_words(match.low, width), *to_words(match.high, width)]
    if isinstance(match, OptionalMatch):
        return [*to_words(match.value or 0, width), int(match.value is not None)]
    return to_words(match.value, width)


def from_match_words(keys: Sequence[Key], words: Sequence[int]) -> list[Match]:
    """The inverse of `match_words`."""
    result: list[Match] = []
    at = 0

    def next_value(width: int) -> int:
        nonlocal at
        at += word_count(width)
        return from_words(words[at - word_count(width) : at], width)

    for key in keys:
        value = next_value(key.width)
        if key.kind == "lpm":
            result.append(LpmMatch(value, next_value(32)))
        elif key.kind == "ternary":
            result.append(TernaryMatch(value, next_value(key.width)))
        elif key.kind == "range":
            result.append(RangeMatch(value, next_value(key.width)))
        elif key.kind == "optional":
            result.append(OptionalMatch(value if next_value(1) else None))
        else:
            result.append(ExactMatch(value))
    return result


# ---- what else an entry has ----


def param_words(action: Action, params: Any) -> list[int]:
    """An action's parameters, in order or by name."""
    expected = action.params
    if isinstance(params, dict):
        unknown = set(params) - {p.name for p in expected}
        if unknown:
            raise ControlError(f"action {action.name} has no parameter {min(unknown)!r}")
        missing = [p.name for p in expected if p.name not in params]
        if missing:
            raise ControlError(f"action {action.name} needs a value for {missing[0]!r}")
        params = [params[p.name] for p in expected]
    if len(params) != len(expected):
        names = ", ".join(p.name for p in expected) or "nothing"
        raise ControlError(
            f"action {action.name} takes {len(expected)} parameters ({names}), {len(params)} given"
        )
    words: list[int] = []
    for p, value in zip(expected, params, strict=True):
        one = small(value, SMALL[p.width])
        if one is not None:
            words.append(one)
            continue
        what = f"action {action.name}, parameter {p.name}"
        words += to_words(number(value, p.width, what), p.width)
    return words


def priority_of(table: Table, priority: int | None) -> int:
    """The priority to hand over; an error where entries need one and none is given."""
    if table.ordered and priority is None:
        raise ControlError(f"table {table.name}: its entries need a priority (lower wins)")
    value = 0 if priority is None else int(priority)
    if not -(2**31) <= value < 2**31:
        raise ControlError(f"table {table.name}: the priority {value} is too large")
    return value
