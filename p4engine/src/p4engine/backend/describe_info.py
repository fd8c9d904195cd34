"""`info`: what the Python side must know of a program, as plain data that goes into the cache."""

from __future__ import annotations

from typing import Any

from p4engine.backend.describe import (
    action_data,
    profile_number,
    profiles_of,
    value_set_widths,
)
from p4engine.frontend.types import Bits, Composite, Stack, Type, underlying, width_of
from p4engine.middle.instantiate import (
    ExternInstance,
    Instances,
    TableInstance,
    annotation,
    local_name,
)


def instance_info(instances: Instances) -> dict[str, Any]:
    """Names, numbers and widths of the program's objects, for the control plane."""
    x = instances.externs
    return {
        "tables": [_table(instances, t) for t in instances.tables],
        "profiles": [
            {
                "name": p.name,
                "id": i,
                "selector": p.kind == "action_selector",
                "size": p.arguments.get("size") or 0,
            }
            for i, p in enumerate(profiles_of(instances))
        ],
        "registers": [_register(r) for r in x.get("register", [])],
        "counters": [_counting(each) for each in x.get("counter", [])],
        "meters": [_counting(each) for each in x.get("meter", [])],
        "value_sets": [
            {
                "name": v.name,
                "id": v.number,
                "size": v.size,
                "widths": value_set_widths(v.decl.type),
            }
            for v in instances.value_sets
        ],
    }


def header_info(type_: Type) -> list[dict[str, Any]]:
    """The members of the struct of headers, with their fields."""
    under = underlying(type_)
    result = []
    for n, t in getattr(under, "fields", {}).items():
        inner = underlying(t)
        size = None
        if isinstance(inner, Stack):
            size, inner = inner.size, inner.element
        result.append(
            {
                "name": n,
                "type": str(inner),
                "kind": getattr(inner, "kind", "other"),
                "stack": size,
                "fields": field_info(inner),
            }
        )
    return result


def field_info(type_: Type) -> list[dict[str, Any]]:
    """The fields of a header or struct."""
    under = underlying(type_)
    if not isinstance(under, Composite):
        return []
    return [{"name": n, "type": str(t), "width": width_of(t)} for n, t in under.fields.items()]


def _table(instances: Instances, t: TableInstance) -> dict[str, Any]:
    return {
        "name": t.name,
        "id": t.number,
        "keys": [{"name": k.name, "kind": k.kind, "width": k.width} for k in t.keys],
        "actions": [
            {
                "name": a.name,
                "id": i,
                "params": [{"name": local_name(p), "width": width_of(p.type) or 1} for p in a.data],
                "default_only": annotation(a.ref, "defaultonly") is not None,
                "table_only": annotation(a.ref, "tableonly") is not None,
            }
            for i, a in enumerate(t.actions)
        ],
        "size": t.size,
        "default_action": action_data(instances, t, t.decl.info.default)[0],
        "const_default_action": t.decl.const_default,
        "const_entries": t.decl.const_entries,
        "entries": len(t.decl.info.entries),
        "profile": profile_number(instances, t),
        "direct_counter": t.counter.name if t.counter else None,
        "direct_meter": t.meter.name if t.meter else None,
        "line": t.decl.place.line,
    }


def _register(r: ExternInstance) -> dict[str, Any]:
    under = underlying(r.type.arguments[0])
    bits = under if isinstance(under, Bits) else Bits(1)
    return {
        "name": r.name,
        "id": r.number,
        "size": r.arguments.get("size") or 0,
        "width": bits.width,
        "signed": bits.signed,
    }


def _counting(each: ExternInstance) -> dict[str, Any]:
    """Of a counter or meter."""
    return {
        "name": each.name,
        "id": each.number,
        "size": each.arguments["size"],
        "type": each.arguments["type"].name,
    }
