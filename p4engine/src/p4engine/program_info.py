"""A compiled program as Python knows it: its objects with names, numbers and widths.

The backend makes a `ProgramInfo`, the cache keeps it as JSON, and everything that drives a switch
(control plane, commands, tests, traces, P4Runtime) reads it. `to_json` and `from_json` are the one
codec: each dataclass is an object whose members are its fields, in their order.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

ORDERED_KINDS = ("ternary", "range", "optional")  # of keys whose table's entries need a priority
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table. kind: exact, lpm, ternary, range, optional or selector."""

    name: str
    kind: str
    width: int


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an action that an entry gives a value for."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a table; `id` is its place among the table's."""

    name: str
    id: int
    params: tuple[Param, ...]
    default_only: bool
    table_only: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table. size: most entries, None: any number; entries: of the program text; profile: number
    of its action profile; direct_counter, direct_meter: their names; ages: entries have idle
    timeouts; line: in the program text."""

    name: str
    id: int
    keys: tuple[Key, ...]
    actions: tuple[Action, ...]
    size: int | None
    default_action: int
    const_default_action: bool
    const_entries: bool
    entries: int
    profile: int | None
    direct_counter: str | None
    direct_meter: str | None
    ages: bool
    line: int

    # Asked for each entry, so they are computed once: the keys that an entry gives values for (all
    # but those of a selector), and whether it needs a priority.
    match_keys: tuple[Key, ...] = field(init=False, repr=False, compare=False)
    ordered: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        match_keys = tuple(key for key in self.keys if key.kind != "selector")
        object.__setattr__(self, "match_keys", match_keys)
        ordered = any(key.kind in ORDERED_KINDS for key in match_keys)
        object.__setattr__(self, "ordered", ordered)


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """An action profile, or an action selector."""

    name: str
    id: int
    selector: bool
    size: int


@dataclass(frozen=True, slots=True)
class Register:
    """A register with `size` elements of `width` bits, which are `initial` at the beginning."""

    name: str
    id: int
    size: int
    width: int
    signed: bool
    initial: int = 0


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter that is no table's. type: packets, bytes or packets_and_bytes."""

    name: str
    id: int
    size: int
    type: str


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter that is no table's. type: packets or bytes."""

    name: str
    id: int
    size: int
    type: str


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser's value set; widths: of the fields of a member."""

    name: str
    id: int
    size: int
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DigestField:
    """A field of a digest."""

    width: int


@dataclass(frozen=True, slots=True)
class Digest:
    """A call of digest()."""

    id: int
    name: str
    fields: tuple[DigestField, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header or of the metadata. type: as in P4; width: None if it has none."""

    name: str
    type: str
    width: int | None


@dataclass(frozen=True, slots=True)
class Header:
    """A member of the struct of headers. kind: header, union, struct or other; stack: its size."""

    name: str
    type: str
    kind: str
    stack: int | None
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """The places that a traced build reports: a description of each place in the program
    (emit_trace.py)."""

    sites: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """All objects of a program. program: its file's name; field_lists: their numbers;
    architecture: its name."""

    program: str
    tables: tuple[Table, ...]
    profiles: tuple[ActionProfile, ...]
    registers: tuple[Register, ...]
    counters: tuple[Counter, ...]
    meters: tuple[Meter, ...]
    value_sets: tuple[ValueSet, ...]
    digests: tuple[Digest, ...]
    errors: tuple[str, ...]
    headers: tuple[Header, ...]
    metadata: tuple[Field, ...]
    field_lists: tuple[int, ...]
    architecture: str = "v1model"
    trace: Trace | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; `trace` only for a traced build."""
        made: dict[str, Any] = _plain(self)
        if self.trace is None:
            del made["trace"]
        return made

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ProgramInfo:
        """Read the result of `to_json`. Raises KeyError or TypeError for anything else."""
        return _object(cls, data)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.init}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


@functools.cache
def _members(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """(name, type, has a default) of each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return tuple(
        (each.name, hints[each.name], each.default is None) for each in fields(kind) if each.init
    )


def _object(kind: Callable[..., T], data: dict[str, Any]) -> T:
    """A dataclass, `kind`, from plain data."""
    values = {
        name: _value(hint, data[name])
        for name, hint, optional in _members(kind)
        if not optional or name in data
    }
    return kind(**values)


def _value(hint: Any, data: Any) -> Any:
    if isinstance(hint, types.UnionType):  # X | None
        if data is None:
            return None
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, each) for each in data)
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, data)
    return data
