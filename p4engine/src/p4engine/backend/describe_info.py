"""`info`: what the Python side must know of a program, as plain data that goes into the cache."""

from __future__ import annotations

from p4engine.backend.describe import Describer
from p4engine.backend.emit_parser import value_set_keys
from p4engine.frontend.types import Bits, Composite, Stack, Type, underlying, width_of
from p4engine.middle.instantiate import ExternInstance, annotation, local_name


class InfoDescriber(Describer):
    """info."""

    def info(self, name: str) -> dict:
        """Names, numbers and widths for the control plane."""
        x = self.instances.externs
        tables = []
        for t in self.instances.tables:
            tables.append(
                {
                    "name": t.name,
                    "id": t.number,
                    "keys": [{"name": k.name, "kind": k.kind, "width": k.width} for k in t.keys],
                    "actions": [
                        {
                            "name": a.name,
                            "id": i,
                            "params": [
                                {"name": local_name(p), "width": width_of(p.type) or 1}
                                for p in a.data
                            ],
                            "default_only": annotation(a.ref, "defaultonly") is not None,
                            "table_only": annotation(a.ref, "tableonly") is not None,
                        }
                        for i, a in enumerate(t.actions)
                    ],
                    "size": t.size,
                    "default_action": self._action_data(t, t.decl.info.default)[0],
                    "const_default_action": t.decl.const_default,
                    "const_entries": t.decl.const_entries,
                    "entries": len(t.decl.info.entries),
                    "profile": self.profile_numbers[id(t.profile)] if t.profile else None,
                    "direct_counter": t.counter.name if t.counter else None,
                    "direct_meter": t.meter.name if t.meter else None,
                    "line": t.decl.place.line,
                }
            )
        profiles = [*x.get("action_profile", []), *x.get("action_selector", [])]
        return {
            "program": name,
            "tables": tables,
            "profiles": [
                {
                    "name": p.name,
                    "id": i,
                    "selector": p.kind == "action_selector",
                    "size": p.arguments.get("size") or 0,
                }
                for i, p in enumerate(profiles)
            ],
            "registers": [
                {
                    "name": r.name,
                    "id": r.number,
                    "size": r.arguments.get("size") or 0,
                    "width": _bits(r.type.arguments[0]).width,
                    "signed": _bits(r.type.arguments[0]).signed,
                }
                for r in x.get("register", [])
            ],
            "counters": [_counting(each) for each in x.get("counter", [])],
            "meters": [_counting(each) for each in x.get("meter", [])],
            "value_sets": [
                {
                    "name": v.name,
                    "id": v.number,
                    "size": v.size,
                    "widths": value_set_keys(v.decl.type),
                }
                for v in self.instances.value_sets
            ],
            "digests": self.digests,
            "errors": list(self.checker.errors),
            "headers": _headers(self.headers),
            "metadata": _fields(self.metadata),
            "field_lists": sorted(self.field_lists()),
        }


def _bits(type_: Type) -> Bits:
    under = underlying(type_)
    return under if isinstance(under, Bits) else Bits(1)


def _counting(each: ExternInstance) -> dict:
    """Of a counter or meter."""
    return {
        "name": each.name,
        "id": each.number,
        "size": each.arguments["size"],
        "type": each.arguments["type"].name,
    }


def _fields(type_: Type) -> list[dict]:
    under = underlying(type_)
    if not isinstance(under, Composite):
        return []
    return [{"name": n, "type": str(t), "width": width_of(t)} for n, t in under.fields.items()]


def _headers(type_: Type) -> list[dict]:
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
                "fields": _fields(inner),
            }
        )
    return result
