"""P4Info of a program: what a P4Runtime controller must know of its tables and objects.

Numbers are those that p4c gives: a byte for the kind of the
object, then 24 bits of the one-at-a-time hash of its full name (the next free one if two names
meet, names in order), or what @id says. Compared with p4c's own output while this was written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from p4engine.frontend.types import Bits, Composite, EnumType, NewType, Tuple, underlying, width_of
from p4engine.middle.digests import find_digests
from p4engine.middle.instantiate import Instances, annotation, known_number, local_name
from p4engine.p4runtime.proto import p4info_pb2

PREFIX = {
    "action": 0x01,
    "table": 0x02,
    "value_set": 0x03,
    "controller_header": 0x04,
    "action_profile": 0x11,
    "counter": 0x12,
    "direct_counter": 0x13,
    "meter": 0x14,
    "direct_meter": 0x15,
    "register": 0x16,
    "digest": 0x17,
}
OWN = {"name", "id", "hidden", "tableonly", "defaultonly", "table_name"}
OF_PROFILES = {"max_group_size", "selector_size_semantics", "max_member_weight"}
METER_TYPES = ("two_rate_three_color", "single_rate_three_color", "single_rate_two_color")
DEFAULT_SIZE = 1024


def name_hash(name: str) -> int:
    """Bob Jenkins' one-at-a-time hash of the name's UTF-8 bytes, 32 bits."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def assign_ids(kind: str, names: Mapping[str, int | None]) -> dict[str, int]:
    """name -> number of the objects of one kind; `names` says what @id asks for."""
    prefix = PREFIX[kind] << 24
    result = {n: prefix | i & 0xFFFFFF for n, i in names.items() if i is not None}
    taken = set(result.values())
    for name in sorted(n for n in names if n not in result):
        value = name_hash(name)
        while (made := prefix | value & 0xFFFFFF) in taken:
            value += 1
        taken.add(made)
        result[name] = made
    return result


def aliases(names: Iterable[str]) -> dict[str, str]:
    """name -> the shortest end of it, at a dot, that no other name ends with."""
    counts: dict[str, int] = {}
    for name in names:
        parts = name.split(".")
        for i in range(len(parts)):
            end = ".".join(parts[i:])
            counts[end] = counts.get(end, 0) + 1
    result = {}
    for name in names:
        parts = name.split(".")
        ends = [".".join(parts[i:]) for i in reversed(range(len(parts)))]
        result[name] = next((e for e in ends if counts[e] == 1), name)
    return result


def _wanted(decl: Any) -> int | None:
    """The number in @id(..)."""
    return _number(annotation(decl, "id")) if decl is not None else None


def _number(found: Any) -> int | None:
    """The number in an annotation; None: there is none."""
    from p4engine.frontend.lexer import parse_number

    number = parse_number(found.body[0]) if found is not None and found.body else None
    return number[0] if number else None


def _annotations(decl: Any, keep: frozenset[str] = frozenset()) -> list[str]:
    texts = []
    for a in decl.annotations if decl is not None else []:
        if a.name not in OWN | OF_PROFILES or a.name in keep:
            body = "".join(t + (" " if t == "," else "") for t in a.body).strip()
            texts.append(f"@{a.name}({body})" if body else f"@{a.name}")
    return texts


class _Builder:
    """Collects the objects of one program, numbers them, writes the message."""

    def __init__(self, instances: Instances):
        self.instances = instances
        x = instances.externs
        self.tables = [t for t in instances.tables if annotation(t.decl, "hidden") is None]
        self.actions: dict[str, Any] = {}
        for t in self.tables:
            for a in t.actions:
                self.actions.setdefault(a.name, a)
        for a in instances.called_actions():
            self.actions.setdefault(a.name, a)
        self.objects: dict[str, list[Any]] = {
            "counter": x.get("counter", []),
            "meter": x.get("meter", []),
            "register": x.get("register", []),
            "direct_counter": [t.counter for t in self.tables if t.counter],
            "direct_meter": [t.meter for t in self.tables if t.meter],
            "action_profile": [*x.get("action_profile", []), *x.get("action_selector", [])],
            "value_set": instances.value_sets,
        }
        self.digests: dict[str, Any] = {}
        self.controller: dict[str, Any] = {}
        for c in instances.checker.composites:
            found = annotation(c.decl, "controller_header") if c.decl is not None else None
            if found is not None and found.body:
                self.controller["".join(found.body).strip('"')] = c
        self.info = p4info_pb2.P4Info()

    def number(self, digests: dict[str, Any]) -> None:
        self.digests = digests
        kinds: dict[str, dict[str, int | None]] = {
            "table": {t.name: _wanted(t.decl) for t in self.tables},
            "action": {n: _wanted(a.decl) for n, a in self.actions.items()},
            "digest": dict.fromkeys(digests),
            "controller_header": dict.fromkeys(self.controller),
        }
        for kind, objects in self.objects.items():
            kinds[kind] = {o.name: _wanted(getattr(o, "decl", None)) for o in objects}
        self.ids = {kind: assign_ids(kind, names) for kind, names in kinds.items()}
        self.alias = aliases([n for names in kinds.values() for n in names])

    def preamble(self, target: Any, kind: str, name: str, decl: Any = None) -> None:
        target.preamble.id = self.ids[kind][name]
        target.preamble.name = name
        target.preamble.alias = self.alias[name]
        target.preamble.annotations.extend(_annotations(decl))

    def named_type(self, target: Any, type_: Any) -> None:
        if isinstance(type_, NewType):
            target.type_name.name = type_.name
            original = self.info.type_info.new_types[type_.name].original_type
            original.bitstring.bit.bitwidth = width_of(type_) or 0
        elif isinstance(type_, EnumType) and type_.base is not None:
            made = self.info.type_info.serializable_enums[type_.name]
            if not made.members:
                width = type_.base.width
                made.underlying_type.bitwidth = width
                for name, number in type_.members.items():
                    value = number & ((1 << width) - 1)
                    made.members.add(name=name, value=value.to_bytes((width + 7) // 8, "big"))

    def build(self, digests: dict[str, Any]) -> Any:
        self.number(digests)
        self.info.pkg_info.arch = self.instances.architecture.name
        for t in self.tables:
            self.table(t)
        for name, action in self.actions.items():
            decl = action.decl
            made = self.info.actions.add()
            self.preamble(made, "action", name, decl)
            for i, p in enumerate(action.data, 1):
                param = made.params.add(id=_wanted(p) or i, name=local_name(p))
                param.bitwidth = width_of(p.type) or 0
                param.annotations.extend(_annotations(p))
                self.named_type(param, p.type)
        self.externs()
        self.types()
        return self.info

    def table(self, t: Any) -> None:
        made = self.info.tables.add()
        self.preamble(made, "table", t.name, t.decl)
        keys = zip(t.decl.keys, t.keys, strict=True)
        position = 0
        for node, key in keys:
            if key.kind == "selector":
                continue
            position += 1
            name = key.name.replace(".isValid()", ".$valid$")
            match = made.match_fields.add(id=_wanted(node) or position, name=name)
            match.bitwidth = key.width
            match.match_type = getattr(p4info_pb2.MatchField, key.kind.upper())
            match.annotations.extend(_annotations(node))
            self.named_type(match, key.value.type)
        for a in t.actions:
            ref = made.action_refs.add(id=self.ids["action"][a.name])
            for word, scope in (("tableonly", "TABLE_ONLY"), ("defaultonly", "DEFAULT_ONLY")):
                if annotation(a, word) is not None:
                    ref.scope = getattr(p4info_pb2.ActionRef, scope)
            ref.annotations.extend(_annotations(a, frozenset({"tableonly", "defaultonly"})))
        default = next((a for a in t.actions if a.decl is t.decl.default.decl), None)
        if default is not None:
            number = self.ids["action"][default.name]
            if t.decl.const_default:
                made.const_default_action_id = number
            made.initial_default_action.action_id = number
            given = {p.name: v for p, v in t.decl.default.binding or []}
            for i, p in enumerate(default.data, 1):
                width = width_of(p.type) or 1
                value = given.get(p.name)
                const = self.instances.value(value, t.block.values) if value is not None else 0
                bits = known_number(const) & ((1 << width) - 1)
                made.initial_default_action.arguments.add(
                    param_id=_wanted(p) or i,
                    value=bits.to_bytes((width + 7) // 8, "big"),
                )
        if t.profile is not None:
            made.implementation_id = self.ids["action_profile"][t.profile.name]
        for kind, extern in (("direct_counter", t.counter), ("direct_meter", t.meter)):
            if extern is not None:
                made.direct_resource_ids.append(self.ids[kind][extern.name])
        made.size = t.size or DEFAULT_SIZE
        if t.ages:
            made.idle_timeout_behavior = p4info_pb2.Table.IdleTimeoutBehavior.NOTIFY_CONTROL
        made.is_const_table = t.decl.const_entries
        made.has_initial_entries = bool(t.decl.info.entries)

    def externs(self) -> None:
        units = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
        direct = {
            "direct_counter": {t.counter.name: t.name for t in self.tables if t.counter},
            "direct_meter": {t.meter.name: t.name for t in self.tables if t.meter},
        }
        for profile in self.objects["action_profile"]:
            made = self.info.action_profiles.add()
            self.preamble(made, "action_profile", profile.name, profile.decl)
            users = [t.name for t in self.tables if t.profile is profile]
            made.table_ids.extend(self.ids["table"][n] for n in users)
            made.with_selector = profile.kind == "action_selector"
            made.size = profile.size
            if made.with_selector and profile.decl is not None:
                self.sizes(made, profile.decl)
        for kind in ("counter", "direct_counter", "meter", "direct_meter"):
            for extern in self.objects[kind]:
                made = getattr(self.info, f"{kind}s").add()
                self.preamble(made, kind, extern.name, extern.decl)
                for word in METER_TYPES if "meter" in kind and extern.decl is not None else ():
                    if annotation(extern.decl, word) is not None:
                        made.spec.type = getattr(p4info_pb2.MeterSpec, word.upper())
                made.spec.unit = type(made.spec).Unit.Value(units[extern.unit.name.lower()])
                if kind in direct:
                    made.direct_table_id = self.ids["table"][direct[kind][extern.name]]
                else:
                    made.size = extern.size
        for extern in self.objects["register"]:
            register = self.info.registers.add()
            self.preamble(register, "register", extern.name, extern.decl)
            self.type_spec(register.type_spec, extern.type.arguments[0])
            register.size = extern.size
        for value_set in self.objects["value_set"]:
            values = self.info.value_sets.add()
            self.preamble(values, "value_set", value_set.name, value_set.decl)
            element = value_set.element
            under = underlying(element)
            fields = under.fields.items() if isinstance(under, Composite) else [("", element)]
            for i, (name, t) in enumerate(fields, 1):
                match = values.match.add(id=i, name=name, bitwidth=width_of(t) or 0)
                written = under.decl.fields if isinstance(under, Composite) else []
                mark = next((annotation(f, "match") for f in written if f.name == name), None)
                kind = mark.body[0].upper() if mark is not None and mark.body else "EXACT"
                unknown = p4info_pb2.MatchField.UNSPECIFIED
                match.match_type = getattr(p4info_pb2.MatchField, kind, unknown)
            values.size = value_set.size
        for name, type_ in self.digests.items():
            digest = self.info.digests.add()
            self.preamble(digest, "digest", name)
            self.type_spec(digest.type_spec, type_)

    def sizes(self, made: Any, decl: Any) -> None:
        """The sizes of a selector's groups, from annotations."""
        largest = _number(annotation(decl, "max_group_size"))
        made.max_group_size = largest or 0
        how = annotation(decl, "selector_size_semantics")
        word = "".join(how.body).strip('"').lower() if how is not None else ""
        if word == "sum_of_weights":
            made.sum_of_weights.SetInParent()
        elif word == "sum_of_members":
            weight = _number(annotation(decl, "max_member_weight"))
            made.sum_of_members.max_member_weight = weight or 0
            made.sum_of_members.SetInParent()

    def type_spec(self, spec: Any, type_: Any) -> None:
        under = underlying(type_)
        if isinstance(under, Composite):
            spec.struct.name = under.name
            known = self.info.type_info.structs[under.name]
            if not known.members:
                for name, t in under.fields.items():
                    self.type_spec(known.members.add(name=name).type_spec, t)
        elif isinstance(under, Tuple):
            for t in under.elements:
                self.type_spec(spec.tuple.members.add(), t)
        elif isinstance(under, Bits):
            what = spec.bitstring.int if under.signed else spec.bitstring.bit
            what.bitwidth = under.width
        elif hasattr(under, "elements"):
            for t in under.elements:
                self.type_spec(spec.tuple.members.add(), t)
        else:
            spec.bool.SetInParent()

    def types(self) -> None:
        for name, header in self.controller.items():
            made = self.info.controller_packet_metadata.add()
            self.preamble(made, "controller_header", name, header.decl)
            for i, (field, t) in enumerate(header.fields.items(), 1):
                metadata = made.metadata.add(id=i, name=field, bitwidth=width_of(t) or 0)
                self.named_type(metadata, t)


def p4info(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    *,
    confined_to: Path | None = None,
) -> Any:
    """The p4.config.v1.P4Info message of a program; arguments as of `compile_program`.

    Raises P4Error.
    """
    from p4engine.middle.load import load

    instances, _ = load(path, defines, include_dirs, confined_to)
    return _Builder(instances).build({d.name: d.type for d in find_digests(instances)})
