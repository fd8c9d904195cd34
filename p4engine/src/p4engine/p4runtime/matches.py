"""Matches, actions and priorities of table entries: messages to what the engine takes, and back.

P4Runtime leaves out keys that match anything and wants every value in one spelling; the engine
takes one value for each key. Its lower priority number wins, P4Runtime's higher one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from p4engine.p4runtime.catalog import Action, Catalog, Field, Table
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import invalid
from p4engine.p4runtime.values import encoded, number

# The sum of an entry's two priorities: what is 1 here is next to the largest number there.
PRIORITIES = 2**31 - 1
ANY = {"lpm": (0, 0), "ternary": (0, 0), "optional": None}


def decode_match(table: Table, fields: Iterable[Any]) -> list[Any]:
    """FieldMatch messages to one value per key, in the engine's order."""
    given: dict[int, Any] = {}
    known = {key.id for key in table.keys}
    for field in fields:
        if field.field_id not in known:
            invalid(f"table {table.name} has no key {field.field_id}")
        if field.field_id in given:
            invalid(f"table {table.name}: key {field.field_id} is given twice")
        given[field.field_id] = field
    return [_value(table, key, given.get(key.id)) for key in table.keys]


def _value(table: Table, key: Field, field: Any) -> Any:
    what = f"table {table.name}, key {key.name}"
    if field is None:
        if key.kind == "exact":
            invalid(f"{what}: the value of an exact key is missing")
        return (0, (1 << key.width) - 1) if key.kind == "range" else ANY[key.kind]
    return decode_field(key, field, what)


def decode_field(key: Field, field: Any, what: str) -> Any:
    """One FieldMatch to the engine's value; `what` begins an error's text."""
    kind = field.WhichOneof("field_match_type")
    if kind != key.kind:
        invalid(f"{what}: the key is {key.kind}, the match {kind or 'empty'}")
    match = getattr(field, kind)
    if kind in ("exact", "optional"):
        return number(match.value, key.width, what)
    if kind == "lpm":
        if not 0 < match.prefix_len <= key.width:
            invalid(f"{what}: the prefix length {match.prefix_len} is not 1 to {key.width}")
        value = number(match.value, key.width, what)
        if value & ((1 << (key.width - match.prefix_len)) - 1):
            invalid(f"{what}: bits behind the prefix are set")
        return value, match.prefix_len
    if kind == "ternary":
        value, mask = number(match.value, key.width, what), number(match.mask, key.width, what)
        if not mask:
            invalid(f"{what}: a key that matches anything is left out")
        if value & ~mask:
            invalid(f"{what}: bits outside of the mask are set")
        return value, mask
    low, high = number(match.low, key.width, what), number(match.high, key.width, what)
    if low > high:
        invalid(f"{what}: the range {low} to {high} is empty")
    if (low, high) == (0, (1 << key.width) - 1):
        invalid(f"{what}: a key that matches anything is left out")
    return low, high


def encode_match(keys: Sequence[Field], values: Sequence[Any], target: Any) -> None:
    """The engine's values, one per key, into a repeated field of FieldMatch."""
    for key, value in zip(keys, values, strict=True):
        everything = (0, (1 << key.width) - 1) if key.kind == "range" else ANY.get(key.kind)
        if key.kind != "exact" and (value == everything or value is None):
            continue
        if key.kind in ("lpm", "ternary") and value[1] == 0:
            continue
        field = target.add(field_id=key.id)
        match = getattr(field, key.kind)
        if key.kind in ("exact", "optional"):
            match.value = encoded(value)
        elif key.kind == "lpm":
            match.value, match.prefix_len = encoded(value[0]), value[1]
        elif key.kind == "ternary":
            match.value, match.mask = encoded(value[0]), encoded(value[1])
        else:
            match.low, match.high = encoded(value[0]), encoded(value[1])


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
