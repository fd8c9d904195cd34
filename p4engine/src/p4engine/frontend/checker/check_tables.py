"""Tables: keys, actions, properties and entries; and what a label of a select shares with an
entry's key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from p4engine.frontend import ast
from p4engine.frontend.checker.check_types import TypeChecker
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    Composite,
    EnumType,
    ExternType,
    SetOf,
    Special,
    Type,
    underlying,
    width_of,
)


@dataclass
class KeyInfo:
    """One key of a table; `width` in bits."""

    value: Any
    kind: str
    width: int
    name: str


@dataclass
class TableInfo:
    """What the checker found out about a table."""

    keys: list = field(default_factory=list)
    actions: list = field(default_factory=list)  # ActionRef with decl and binding
    entries: list = field(default_factory=list)
    size: int = 0
    applied: bool = False
    default: Any = None  # ActionRef that runs at a miss until the control plane sets another
    by_decl: dict = field(default_factory=dict)


class TableChecker(TypeChecker):
    """Checks tables; leaves a TableInfo in each."""

    def _d_Table(self, d: ast.Table) -> None:
        info = d.info = TableInfo()
        for key in d.keys:
            got = self.value(key.value)
            if key.match_kind not in self.match_kinds:
                self.error(
                    key.place,
                    f"'{key.match_kind}' is not a match kind"
                    f"{self.near(key.match_kind, self.match_kinds)}",
                )
            width = width_of(got)
            if got == UNKNOWN:
                continue
            if got == INT:
                self.error(key.value.place, "a key needs a width")
                continue
            under = underlying(got)
            if width is None or not (isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)):
                self.error(key.value.place, f"a value of {got} cannot be a key")
                continue
            name = next((a.body for a in key.annotations if a.name == "name"), None)
            label = name[0].strip('"') if name else spell(key.value)
            info.keys.append(KeyInfo(key.value, key.match_kind, width, label))
        names = set()
        for ref in d.actions:
            self._action_ref(ref, None)
            if ref.name in names:
                self.error(ref.place, f"action {ref.name} is listed twice")
            names.add(ref.name)
            if ref.decl is not None:
                info.actions.append(ref)
                info.by_decl[id(ref.decl)] = ref
        if not d.actions and d.default is None:
            self.error(d.place, f"table {d.name} has no actions")
        if d.default is not None:
            self._table_action(d, d.default, "default_action")
        else:
            d.default = self._no_action(d)
        info.default = d.default
        if "implementation" in d.properties and d.default.name != "NoAction":
            self.diagnostics.warning(
                d.default.place,
                "a table with an action profile has no default action in the program, as on BMv2;"
                " set it at run time",
            )
            info.default = self._no_action(d)
        for prop in d.properties.values():
            self._property(d, prop)
        for entry in d.entries or []:
            self._entry(d, entry)
        self.declare(d)

    def _no_action(self, d: ast.Table) -> ast.ActionRef:
        """NoAction as the default; it joins the table's actions if it is not among them."""
        made = ast.ActionRef(d.place, "NoAction", True, [], [])
        made.decl, made.binding = self.globals.find("NoAction"), []
        listed = next((a for a in d.info.actions if a.name == "NoAction"), None)
        if listed is not None:
            made.decl = listed.decl
        elif made.decl is not None and id(made.decl) not in d.info.by_decl:
            made.annotations = [ast.Annotation(d.place, "defaultonly", [])]
            d.info.actions.append(made)
            d.info.by_decl[id(made.decl)] = made
        return made

    def _property(self, d: ast.Table, prop: ast.Property) -> None:
        value = prop.value
        if prop.name in ("size", "support_timeout", "largest_priority_wins", "priority_delta"):
            const = self.constant(value, None, f"the property {prop.name}")
            if prop.name == "size" and isinstance(const, int):
                d.info.size = max(0, const)
        elif prop.name in ("counters", "meters", "implementation"):
            got = self.expr(value)
            if got != UNKNOWN and not isinstance(got, ExternType):
                self.error(value.place, f"{prop.name} needs an extern object, not {got}")
        elif prop.name not in (
            "psa_idle_timeout",
            "add_on_miss",
            "default_idle_timeout_for_data_plane",
        ):
            self.diagnostics.warning(prop.place, f"the table property '{prop.name}' is unknown")
            self.expr(value)

    def _action_ref(self, ref: ast.ActionRef, table: ast.Table | None) -> None:
        """An element of a table's action list: find the action and bind what is given."""
        decl = self.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        if not isinstance(decl, ast.Action):
            self.error(ref.place, f"'{ref.name}' is not an action")
            return
        ref.decl = decl
        directed = [p for p in decl.parameters if p.direction]
        arguments = ref.arguments or []
        if len(arguments) > len(decl.parameters):
            self.error(ref.place, f"action {decl.name} has only {len(decl.parameters)} parameters")
            return
        if len(arguments) < len(directed):
            self.error(
                ref.place,
                f"parameter '{directed[len(arguments)].name}' of {decl.name} needs a value",
            )
            return
        bound = list(zip(decl.parameters, [a.value for a in arguments], strict=False))
        if not self.fit_arguments(bound, {}, []):
            return
        ref.binding = bound + [(p, None) for p in decl.parameters[len(arguments) :]]

    def _table_action(self, d: ast.Table, ref: ast.ActionRef, what: str) -> None:
        """The action of an entry or the default: its data must be known at compile time."""
        decl = self.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        listed = d.info.by_decl.get(id(decl))
        if listed is None:
            if not isinstance(decl, ast.Action):
                self.error(ref.place, f"'{ref.name}' is not an action")
                return
            self.error(
                ref.place,
                f"{what}: action '{ref.name}' is not in the actions of table {d.name}"
                f"{self.near(ref.name, [a.name for a in d.info.actions])}",
            )
            return
        ref.decl = decl
        if listed.binding is None:
            return
        data = [p for p, v in listed.binding if v is None]
        arguments = list(ref.arguments or [])
        if len(arguments) == len(decl.parameters) != len(data):
            bound_count = len(decl.parameters) - len(data)
            for a in arguments[:bound_count]:
                if a.value is not None:
                    self.expr(a.value)
            arguments = arguments[bound_count:]
        bound = self.bind(ref.place, data, arguments, f"action {decl.name}")
        if bound is None or not self.fit_arguments(bound, {}, []):
            return
        for p, v in bound:
            if v is None or (v.const is None and not self._is_constructor_parameter(v)):
                self.error((v or ref).place, f"{what}: '{p.name}' must be known at compile time")
                return
        ref.binding = bound

    def _entry(self, d: ast.Table, entry: ast.Entry) -> None:
        keys = d.info.keys
        if len(entry.keys) != len(keys):
            if len(entry.keys) == 1 and isinstance(entry.keys[0], ast.DontCare):
                entry.keys = [ast.DontCare(entry.place) for _ in keys]
            else:
                if len(keys) == len(d.keys):
                    self.error(
                        entry.place, f"{len(entry.keys)} keys given, the table has {len(keys)}"
                    )
                return
        for key, value in zip(keys, entry.keys, strict=True):
            self.keyset(value, key.value.type, key.kind)
        if entry.priority is not None:
            self.constant(entry.priority, None, "a priority")
        self._table_action(d, entry.action, "entry")
        d.info.entries.append(entry)

    def keyset(self, value: ast.Expr, want: Type, kind: str) -> None:
        """An element of an entry's keys or of a select label against the type it is compared
        with."""
        got = self.expr(value)
        if got == DONT_CARE:
            if kind in ("exact", "selector") and kind == "exact":
                self.error(value.place, "an exact key needs a value")
            return
        if got == UNKNOWN:
            return
        if isinstance(value, ast.Mask | ast.Range):
            parts = (
                (value.value, value.mask)
                if isinstance(value, ast.Mask)
                else (value.low, value.high)
            )
            for part in parts:
                self.coerce(part, want if part.type == INT else underlying_for(want, part.type))
                if part.const is None and part.type != UNKNOWN:
                    self.error(part.place, "this must be known at compile time")
            if kind == "exact":
                self.error(value.place, "an exact key needs a single value")
            elif isinstance(value, ast.Range) and kind not in ("range", ""):
                self.error(value.place, f"a range cannot be matched by a key of kind {kind}")
            elif isinstance(value, ast.Mask) and kind in ("range", "optional"):
                self.error(value.place, f"a mask cannot be matched by a key of kind {kind}")
            elif kind == "lpm" and isinstance(parts[1].const, int):
                width = width_of(want) or 0
                inverse = ~parts[1].const & ((1 << width) - 1)
                if inverse & (inverse + 1):
                    self.error(value.place, "the mask of an lpm key must be a prefix")
            elif (
                isinstance(value, ast.Range)
                and None not in (parts[0].const, parts[1].const)
                and parts[0].const > parts[1].const
            ):
                self.error(value.place, "the range is empty")
            return
        if isinstance(got, SetOf):
            if kind:
                self.error(value.place, "a value_set cannot be a key")
            elif not self.same(got.element, want) and got.element != want:
                under = got.element
                fields = tuple(under.fields.values()) if isinstance(under, Composite) else ()
                if fields != (want,):
                    self.error(value.place, f"this value_set holds {got.element}, not {want}")
            return
        if isinstance(got, Special):
            self.error(value.place, f"{got} cannot stand here")
            return
        if self.coerce(value, want, "the key needs") and value.const is None:
            self.error(value.place, "this must be known at compile time")


def underlying_for(want: Type, have: Type) -> Type:
    """Masks of an enum may be written in its base type."""
    return underlying(want) if isinstance(have, Bits) else want


def spell(e: ast.Expr) -> str:
    """An expression in P4 spelling, for the names of keys."""
    if isinstance(e, ast.Name):
        return e.name
    if isinstance(e, ast.Member):
        return f"{spell(e.base)}.{e.name}"
    if isinstance(e, ast.Index):
        return f"{spell(e.base)}[{spell(e.index)}]"
    if isinstance(e, ast.Slice):
        return f"{spell(e.base)}[{spell(e.high)}:{spell(e.low)}]"
    if isinstance(e, ast.Call):
        return f"{spell(e.function)}()"
    if isinstance(e, ast.Number):
        return str(e.value)
    if isinstance(e, ast.Cast):
        return spell(e.operand)
    if isinstance(e, ast.Binary):
        return f"{spell(e.left)} {e.op} {spell(e.right)}"
    if isinstance(e, ast.Unary):
        return f"{e.op}{spell(e.operand)}"
    return "key"
