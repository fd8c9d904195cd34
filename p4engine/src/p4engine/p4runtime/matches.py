"""Matches, actions and priorities of table entries: messages to what the engine takes, and back.

P4Runtime leaves out keys that match anything and wants every value in one spelling; the engine
takes one value for each key. Its lower priority number wins, P4Runtime's higher one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from p4engine.p4runtime.catalog import Action, Catalog, Field, Table
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, invalid
from p4engine.values.matches import (
    ExactMatch,
    LpmMatch,
    Match,
    OptionalMatch,
    RangeMatch,
    TernaryMatch,
    anything,
    is_anything,
)


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


# The sum of an entry's two priorities: what is 1 here is next to the largest number there.
PRIORITIES = 2**31 - 1


def decode_match(table: Table, fields: Iterable[Any]) -> list[Match]:
    """FieldMatch messages to one match per key, in the engine's order."""
    given: dict[int, Any] = {}
    known = {key.id for key in table.keys}
    for field in fields:
        if field.field_id not in known:
            invalid(f"table {table.name} has no key {field.field_id}")
        if field.field_id in given:
            invalid(f"table {table.name}: key {field.field_id} is given twice")
        given[field.field_id] = field
    return [_value(table, key, given.get(key.id)) for key in table.keys]


def _value(table: Table, key: Field, field: Any) -> Match:
    what = f"table {table.name}, key {key.name}"
    if field is not None:
        return decode_field(key, field, what)
    if key.kind == "exact":
        invalid(f"{what}: the value of an exact key is missing")
    return anything(key)


def decode_field(key: Field, field: Any, what: str) -> Match:
    """One FieldMatch; `what` begins an error's text."""
    kind = field.WhichOneof("field_match_type")
    if kind != key.kind:
        invalid(f"{what}: the key is {key.kind}, the match {kind or 'empty'}")
    match = getattr(field, kind)
    if kind == "exact":
        return ExactMatch(number(match.value, key.width, what))
    if kind == "optional":
        return OptionalMatch(number(match.value, key.width, what))
    if kind == "lpm":
        if not 0 < match.prefix_len <= key.width:
            invalid(f"{what}: the prefix length {match.prefix_len} is not 1 to {key.width}")
        value = number(match.value, key.width, what)
        if value & ((1 << (key.width - match.prefix_len)) - 1):
            invalid(f"{what}: bits behind the prefix are set")
        return LpmMatch(value, match.prefix_len)
    if kind == "ternary":
        value, mask = number(match.value, key.width, what), number(match.mask, key.width, what)
        if not mask:
            invalid(f"{what}: a key that matches anything is left out")
        if value & ~mask:
            invalid(f"{what}: bits outside of the mask are set")
        return TernaryMatch(value, mask)
    made = RangeMatch(number(match.low, key.width, what), number(match.high, key.width, what))
    if made.low > made.high:
        invalid(f"{what}: the range {made.low} to {made.high} is empty")
    if is_anything(key, made):
        invalid(f"{what}: a key that matches anything is left out")
    return made


def encode_match(keys: Sequence[Field], values: Sequence[Match], target: Any) -> None:
    """One match per key into a repeated field of FieldMatch."""
    for key, match in zip(keys, values, strict=True):
        if is_anything(key, match):
            continue
        field = getattr(target.add(field_id=key.id), key.kind)
        if isinstance(match, LpmMatch):
            field.value, field.prefix_len = encoded(match.value), match.length
        elif isinstance(match, TernaryMatch):
            field.value, field.mask = encoded(match.value), encoded(match.mask)
        elif isinstance(match, RangeMatch):
            field.low, field.high = encoded(match.low), encoded(match.high)
        elif match.value is not None:
            field.value = encoded(match.value)


def decode_priority(table: Table, priority: int) -> int:
    """P4Runtime's priority to the engine's."""
    if not table.ordered:
        if priority:
            invalid(f"table {table.name}: its entries have no priority, {priority} is given")
        return 0
    if priority <= 0:
        invalid(f"table {table.name}: an entry needs a priority above 0 (the higher wins)")
    return PRIORITIES - priority


def encode_priority(table: Table, priority: int) -> int:
    """The engine's priority to P4Runtime's."""
    return PRIORITIES - priority if table.ordered else 0


def decode_params(action: Action, message: Any) -> list[int]:
    """The parameters of an Action message, in the engine's order."""
    given: dict[int, bytes] = {}
    known = {p.id for p in action.params}
    for param in message.params:
        if param.param_id not in known or param.param_id in given:
            said = "is given twice" if param.param_id in given else "does not exist"
            invalid(f"action {action.name}: parameter {param.param_id} {said}")
        given[param.param_id] = param.value
    missing = [p.name for p in action.params if p.id not in given]
    if missing:
        invalid(f"action {action.name}: parameter {missing[0]} is missing")
    return [
        number(given[p.id], p.width, f"action {action.name}, parameter {p.name}")
        for p in action.params
    ]


def encode_action(catalog: Catalog, name: str, params: Sequence[int]) -> Any:
    """An Action message."""
    action = catalog.actions[catalog.action_ids[name]]
    made = p4runtime_pb2.Action(action_id=action.id)
    for field, value in zip(action.params, params, strict=True):
        made.params.add(param_id=field.id, value=encoded(value))
    return made
