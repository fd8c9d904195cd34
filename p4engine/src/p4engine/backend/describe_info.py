"""The description of a program for the Python side, as the dataclasses of program_info.py."""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.backend.describe import (
    action_data,
    initial_value,
    profile_number,
    profiles_of,
    value_set_widths,
)
from p4engine.frontend.types import Bits, Composite, Stack, Type, underlying, width_of
from p4engine.middle.digests import DigestCall
from p4engine.middle.instantiate import (
    ExternInstance,
    Instances,
    TableInstance,
    annotation,
    local_name,
)
from p4engine.program_info import (
    Action,
    ActionProfile,
    Counter,
    Digest,
    DigestField,
    Field,
    Header,
    Key,
    Meter,
    Param,
    Register,
    Table,
    ValueSet,
)


def tables(instances: Instances) -> tuple[Table, ...]:
    """All tables with their keys and actions."""
    return tuple(_table(instances, t) for t in instances.tables)


def profiles(instances: Instances) -> tuple[ActionProfile, ...]:
    """All action profiles and selectors."""
    return tuple(
        ActionProfile(p.name, i, p.kind == "action_selector", p.size)
        for i, p in enumerate(profiles_of(instances))
    )


def registers(instances: Instances) -> tuple[Register, ...]:
    return tuple(_register(r) for r in instances.externs.get("register", []))


def counters(instances: Instances) -> tuple[Counter, ...]:
    """Counters that belong to no table."""
    return tuple(
        Counter(c.name, c.number, c.size, c.unit.name.lower())
        for c in instances.externs.get("counter", [])
    )


def meters(instances: Instances) -> tuple[Meter, ...]:
    """Meters that belong to no table."""
    return tuple(
        Meter(m.name, m.number, m.size, m.unit.name.lower())
        for m in instances.externs.get("meter", [])
    )


def value_sets(instances: Instances) -> tuple[ValueSet, ...]:
    return tuple(
        ValueSet(v.name, v.number, v.size, tuple(value_set_widths(v.element)))
        for v in instances.value_sets
    )


def digests(calls: Sequence[DigestCall]) -> tuple[Digest, ...]:
    return tuple(Digest(d.number, d.name, tuple(map(DigestField, d.widths))) for d in calls)


def headers(types: Sequence[Type]) -> tuple[Header, ...]:
    """The members of the structs of headers, with their fields; a name of two of them once."""
    result = []
    members: dict[str, Type] = {}
    for type_ in types:
        under = underlying(type_)
        if isinstance(under, Composite):
            members = under.fields | members
    for n, t in members.items():
        inner = underlying(t)
        size = None
        if isinstance(inner, Stack):
            size, inner = inner.size, inner.element
        kind = inner.kind if isinstance(inner, Composite) else "other"
        result.append(Header(n, str(inner), kind, size, fields(inner)))
    return tuple(result)


def fields(*types: Type) -> tuple[Field, ...]:
    """The fields of headers or structs; a name of two of them once."""
    members: dict[str, Type] = {}
    for type_ in types:
        under = underlying(type_)
        if isinstance(under, Composite):
            members = under.fields | members
    return tuple(Field(n, str(t), width_of(t)) for n, t in members.items())


def _table(instances: Instances, t: TableInstance) -> Table:
    return Table(
        name=t.name,
        id=t.number,
        keys=tuple(Key(k.name, k.kind, k.width) for k in t.keys),
        actions=tuple(
            Action(
                name=a.name,
                id=i,
                params=tuple(Param(local_name(p), width_of(p.type) or 1) for p in a.data),
                default_only=annotation(a, "defaultonly") is not None,
                table_only=annotation(a, "tableonly") is not None,
            )
            for i, a in enumerate(t.actions)
        ),
        size=t.size,
        default_action=action_data(instances, t, t.default)[0],
        const_default_action=t.decl.const_default,
        const_entries=t.decl.const_entries,
        entries=len(t.decl.info.entries),
        profile=profile_number(instances, t),
        direct_counter=t.counter.name if t.counter else None,
        direct_meter=t.meter.name if t.meter else None,
        ages=t.ages,
        line=t.decl.place.line,
    )


def _register(r: ExternInstance) -> Register:
    under = underlying(r.type.arguments[0])
    bits = under if isinstance(under, Bits) else Bits(width_of(under) or 1)
    return Register(r.name, r.number, r.size, bits.width, bits.signed, initial_value(r))
