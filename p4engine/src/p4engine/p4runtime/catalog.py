"""P4Info beside the engine's own description of a program: which number means which object.

P4Info numbers objects, the engine names them; this is the only place where the two meet. What a
request may name is in here, so that everything else works with names that exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from p4engine.p4runtime.proto import p4info_pb2
from p4engine.p4runtime.status import Code, Refused
from p4engine.program_info import ORDERED_KINDS, ProgramInfo
from p4engine.program_info import Table as EngineTable


@dataclass(frozen=True)
class Field:
    """A key, a parameter or a field of a packet's metadata; `kind` is a key's match kind."""

    id: int
    name: str
    width: int
    kind: str = ""


@dataclass(frozen=True)
class Action:
    """An action with its parameters in the engine's order."""

    id: int
    name: str
    params: tuple[Field, ...]


@dataclass(frozen=True)
class Table:
    """A table; `scopes` holds the actions that it may run, by number."""

    id: int
    name: str
    keys: tuple[Field, ...]
    scopes: Mapping[int, str]
    profile: int
    const_entries: bool
    const_default: bool
    ages: bool
    direct_counter: int
    direct_meter: int

    @property
    def ordered(self) -> bool:
        """Entries need a priority."""
        return any(key.kind in ORDERED_KINDS for key in self.keys)


@dataclass(frozen=True)
class Profile:
    """An action profile; `tables` are those that use it. Limits are 0 where there is none.

    size: members; largest_group: of a group's size, which is the number of its members where
    `by_members`, else the sum of their weights; heaviest_member: a member's weight.
    """

    id: int
    name: str
    selector: bool
    tables: tuple[int, ...]
    size: int
    largest_group: int
    by_members: bool
    heaviest_member: int

    def group_size(self, weights: Sequence[int]) -> int:
        """The size of a group whose members have these weights."""
        return len(weights) if self.by_members else sum(weights)


@dataclass(frozen=True)
class Array:
    """Something that is addressed by an index: counter, meter, register."""

    id: int
    name: str
    size: int
    width: int = 0
    kind: str = ""  # of a register: bit, int, bool or struct; of a meter: its type
    parts: tuple[int, ...] = ()  # of a register of structs: the widths of the fields


@dataclass(frozen=True)
class ValueSet:
    """A parser's value set."""

    id: int
    name: str
    size: int
    fields: tuple[Field, ...]


def _bits(spec: Any) -> int:
    """The width of a field of a struct."""
    bits = spec.bitstring
    return int(bits.int.bitwidth if bits.HasField("int") else bits.bit.bitwidth)


class Catalog:
    """All objects of a program by their P4Info numbers.

    Args:
        info: the P4Info message; known: `compiled.info` of the same program.
    """

    def __init__(self, info: Any, known: ProgramInfo) -> None:
        self.info = info
        engine = {t.name: t for t in known.tables}
        self.actions = {a.preamble.id: _action(a) for a in info.actions}
        self.tables = {t.preamble.id: _table(t, engine[t.preamble.name]) for t in info.tables}
        self.profiles = {
            p.preamble.id: Profile(
                p.preamble.id,
                p.preamble.name,
                p.with_selector,
                tuple(p.table_ids),
                p.size,
                p.max_group_size,
                p.HasField("sum_of_members"),
                p.sum_of_members.max_member_weight,
            )
            for p in info.action_profiles
        }
        self.counters = _arrays(info.counters)
        meter_type = p4info_pb2.MeterSpec.Type.Name
        self.meters = {
            m.preamble.id: Array(
                m.preamble.id, m.preamble.name, m.size, kind=meter_type(m.spec.type)
            )
            for m in info.meters
        }
        self.meter_types = {
            m.preamble.id: meter_type(m.spec.type) for m in (*info.meters, *info.direct_meters)
        }
        self.direct_counters = {c.preamble.id: c.direct_table_id for c in info.direct_counters}
        self.direct_meters = {m.preamble.id: m.direct_table_id for m in info.direct_meters}
        widths = {r.name: r for r in known.registers}
        self.registers = {}
        for r in info.registers:
            name, own = r.preamble.name, widths[r.preamble.name]
            kind = r.type_spec.WhichOneof("type_spec")
            parts: tuple[int, ...] = ()
            if kind == "struct":
                struct = info.type_info.structs[r.type_spec.struct.name]
                parts = tuple(_bits(member.type_spec) for member in struct.members)
            elif kind != "bool":
                kind = "int" if own.signed else "bit"
            number = r.preamble.id
            self.registers[number] = Array(number, name, own.size, own.width, kind, parts)
        self.value_sets = {v.preamble.id: _value_set(v) for v in info.value_sets}
        self.digests = {d.preamble.id: d for d in info.digests}
        self.packet_in = _metadata(info, "packet_in")
        self.packet_out = _metadata(info, "packet_out")
        self.action_ids = {a.name: a.id for a in self.actions.values()}

    def find(self, kind: str, number: int) -> Any:
        """The object with a number; `kind` is an attribute of this class.

        Raises Refused, NOT_FOUND for a number of another kind of object, too.
        """
        found = getattr(self, kind).get(number)
        if found is None:
            singular = kind[:-1].replace("_", " ")
            raise Refused(Code.NOT_FOUND, f"the program has no {singular} {number:#010x}")
        return found

    def action_of(self, table: Table, number: int, default: bool = False) -> Action:
        """An action of a table, if it may be used there."""
        scope = table.scopes.get(number)
        if scope is None:
            raise Refused(Code.INVALID_ARGUMENT, f"table {table.name} has no action {number:#010x}")
        action = self.actions[number]
        if scope == ("TABLE_ONLY" if default else "DEFAULT_ONLY"):
            where = "the default action" if default else "an entry"
            raise Refused(
                Code.PERMISSION_DENIED, f"action {action.name} cannot be {where} of {table.name}"
            )
        return action


def _action(message: Any) -> Action:
    params = tuple(Field(p.id, p.name, p.bitwidth or 1) for p in message.params)
    return Action(message.preamble.id, message.preamble.name, params)


def _table(message: Any, engine: EngineTable) -> Table:
    kinds = [key.kind for key in engine.match_keys]
    keys = tuple(
        Field(m.id, m.name, m.bitwidth or 1, kind)
        for m, kind in zip(message.match_fields, kinds, strict=True)
    )
    scope = p4info_pb2.ActionRef.Scope.Name
    resources = {number >> 24: number for number in message.direct_resource_ids}
    return Table(
        message.preamble.id,
        message.preamble.name,
        keys,
        {ref.id: scope(ref.scope) for ref in message.action_refs},
        message.implementation_id,
        message.is_const_table,
        bool(message.const_default_action_id) or engine.const_default_action,
        bool(message.idle_timeout_behavior),
        resources.get(0x13, 0),
        resources.get(0x15, 0),
    )


def _arrays(messages: Any) -> dict[int, Array]:
    return {m.preamble.id: Array(m.preamble.id, m.preamble.name, m.size) for m in messages}


def _value_set(message: Any) -> ValueSet:
    kinds = p4info_pb2.MatchField.MatchType.Name
    fields = tuple(
        Field(m.id, m.name, m.bitwidth or 1, kinds(m.match_type).lower()) for m in message.match
    )
    return ValueSet(message.preamble.id, message.preamble.name, message.size, fields)


def _metadata(info: Any, name: str) -> tuple[Field, ...] | None:
    """The fields of the header that goes with packets from or to a controller; None: no header."""
    for header in info.controller_packet_metadata:
        if header.preamble.name == name:
            return tuple(Field(m.id, m.name, m.bitwidth) for m in header.metadata)
    return None
