"""Tables: keys, actions, properties and entries."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_arguments import ArgumentChecker
from p4engine.frontend.checker.check_constructors import known_at_instantiation
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_keysets import KeysetChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.parser.parse_annotations import string_value
from p4engine.frontend.spelling import same, spell
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    EnumType,
    ExternType,
    Varbit,
    has_header,
    underlying,
    width_of,
)


class TableChecker:
    """The rule for tables; leaves a TableInfo in each."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        arguments: ArgumentChecker,
        keysets: KeysetChecker,
    ) -> None:
        self.context, self.expressions = context, expressions
        self.arguments, self.keysets = arguments, keysets

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Table: self._table}

    def _table(self, d: ast.Table) -> None:
        for key in d.keys:
            self._key(d.info, key)
        names = set()
        for ref in d.actions:
            self._listed_action(ref)
            if ref.name in names:
                self.context.error(ref.place, f"action {ref.name} is listed twice")
            names.add(ref.name)
            if ref.decl is not None:
                d.info.actions.append(ref)
                d.info.by_decl[id(ref.decl)] = ref
        if d.default is not None:
            self._chosen_action(d, d.default, "default_action")
        else:
            d.default = self._no_action(d)
        d.info.default = d.default
        if "implementation" in d.properties and d.default.name != "NoAction":
            self.context.warning(
                d.default.place,
                "a table with an action profile has no default action in the program, as on BMv2;"
                " set it at run time",
            )
            d.info.default = self._no_action(d)
        for prop in d.properties.values():
            self._property(d.info, prop)
        if d.entries and not d.keys:
            self.context.error(d.place, f"table {d.name} has entries, but no key")
        else:
            for entry in d.entries or []:
                self._entry(d, entry)
            self._duplicates(d)
            self._priorities(d)
        self.context.declare(d)

    def _key(self, info: ast.TableInfo, key: ast.Key) -> None:
        got = self.expressions.value(key.value)
        kinds = self.context.match_kinds
        if key.match_kind not in kinds:
            self.context.error(
                key.place,
                f"'{key.match_kind}' is not a match kind{did_you_mean(key.match_kind, kinds)}",
            )
        if got == UNKNOWN:
            return
        if got == INT:
            self.context.error(key.value.place, "a key needs a width")
            return
        width, under = width_of(got), underlying(got)
        if width is None or not (isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)):
            self.context.error(key.value.place, f"a value of {got} cannot be a key")
            return
        given = next((a for a in key.annotations if a.name == "name"), None)
        name = string_value(given) if given is not None else spell(key.value)
        info.keys.append(ast.KeyInfo(key.value, key.match_kind, width, name))

    def _no_action(self, d: ast.Table) -> ast.ActionRef:
        """NoAction as the default; it joins the table's actions if it is not among them."""
        made = ast.ActionRef(d.place, "NoAction", True, [], [])
        listed = next((a for a in d.info.actions if a.name == "NoAction"), None)
        decl = listed.decl if listed is not None else self.context.globals.find("NoAction")
        made.binding = []
        if not isinstance(decl, ast.Action):
            return made
        made.decl = decl
        if listed is None and id(decl) not in d.info.by_decl:
            made.annotations = [ast.Annotation(d.place, "defaultonly", [])]
            d.info.actions.append(made)
            d.info.by_decl[id(decl)] = made
        return made

    def _property(self, info: ast.TableInfo, prop: ast.Property) -> None:
        value = prop.value
        if prop.name in ("size", "support_timeout", "largest_priority_wins", "priority_delta"):
            if prop.name == "size":
                self._size(info, value)
                return
            const = self.expressions.constant(value, None, f"the property {prop.name}")
            is_number = isinstance(const, int) and not isinstance(const, bool)
            if prop.name == "priority_delta" and const is not None:
                if not (isinstance(const, int) and is_number and const > 0):
                    self.context.error(value.place, "priority_delta must be a positive number")
            elif const is not None and not isinstance(const, bool):
                self.context.error(value.place, f"{prop.name} must be true or false")
        elif prop.name in ("counters", "meters", "implementation"):
            got = self.expressions.check(value)
            if got != UNKNOWN and not isinstance(got, ExternType):
                self.context.error(value.place, f"{prop.name} needs an extern object, not {got}")
        elif prop.name not in (
            "psa_idle_timeout",
            "add_on_miss",
            "default_idle_timeout_for_data_plane",
        ):
            self.context.warning(prop.place, f"the table property '{prop.name}' is unknown")
            self.expressions.check(value)

    def _size(self, info: ast.TableInfo, value: ast.Expr) -> None:
        """The number of entries; it may depend on the constructor's parameters."""
        got, const = self.expressions.value(value), value.const
        if got == UNKNOWN:
            return
        if not known_at_instantiation(value):
            self.context.error(value.place, "the size of a table must be known at compile time")
        elif not (got == INT or isinstance(got, Bits)) or (isinstance(const, int) and const < 0):
            self.context.error(value.place, "the size of a table must be a number")
        elif isinstance(const, int):
            info.size = const

    # ---- actions ----

    def _listed_action(self, ref: ast.ActionRef) -> None:
        """An element of a table's action list: find the action and bind what is given."""
        decl = self.context.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        if not isinstance(decl, ast.Action):
            self.context.error(ref.place, f"'{ref.name}' is not an action")
            return
        ref.decl = decl
        directed = [p for p in decl.parameters if p.direction]
        arguments = ref.arguments or []
        if len(arguments) > len(directed):
            bound_data = len(arguments) <= len(decl.parameters)
            self.context.error(
                ref.place,
                f"'{decl.parameters[len(directed)].name}' of {decl.name} is data of the entries and"
                " cannot be given here"
                if bound_data
                else f"action {decl.name} has only {len(decl.parameters)} parameters",
            )
            return
        if len(arguments) < len(directed):
            self.context.error(
                ref.place,
                f"parameter '{directed[len(arguments)].name}' of {decl.name} needs a value",
            )
            return
        bound = self.arguments.bind(ref.place, directed, arguments, f"action {decl.name}")
        if bound is None:
            return
        for p, value in bound:
            if value is None:  # there is no call whose result could be ignored
                self.context.error(
                    ref.place, f"'{p.name}' of {decl.name} needs a variable in a table's actions"
                )
                return
        with self.context.argument_of_action():
            good = self.arguments.fit(bound, {})
        if good:
            ref.binding = bound + [(p, None) for p in decl.parameters[len(arguments) :]]
        for p in decl.parameters[len(arguments) :]:
            has_size = width_of(p.type) is not None and not isinstance(p.type, Varbit)
            if p.type != UNKNOWN and (has_header(p.type) or not has_size):
                self.context.error(
                    p.place, f"a value of {p.type} cannot be the data of a table's entries"
                )

    def _chosen_action(self, d: ast.Table, ref: ast.ActionRef, what: str) -> None:
        """The action of an entry or the default: its data must be known at compile time."""
        decl = self.context.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        listed = d.info.by_decl.get(id(decl))
        if not isinstance(decl, ast.Action):
            self.context.error(ref.place, f"'{ref.name}' is not an action")
            return
        if listed is None:
            hint = did_you_mean(ref.name, [a.name for a in d.info.actions])
            self.context.error(
                ref.place,
                f"{what}: action '{ref.name}' is not in the actions of table {d.name}{hint}",
            )
            return
        ref.decl = decl
        barred = "tableonly" if ref is d.default else "defaultonly"
        if any(a.name == barred for a in listed.annotations):
            self.context.error(ref.place, f"{what}: action '{ref.name}' is @{barred} in this table")
        if listed.binding is None:
            return
        data = [p for p, v in listed.binding if v is None]
        arguments = list(ref.arguments or [])
        bound_count = len(decl.parameters) - len(data)
        given = arguments[:bound_count]
        listed_arguments = [a.value for a in listed.arguments or []]
        if not same([a.value for a in given], listed_arguments):
            self.context.error(
                ref.place,
                f"{what}: the arguments of {decl.name} must be those of the table's actions",
            )
            return
        arguments = arguments[bound_count:]
        bound = self.arguments.bind(ref.place, data, arguments, f"action {decl.name}")
        if bound is None or not self.arguments.fit(bound, {}):
            return
        for p, v in bound:
            if v is None or not known_at_instantiation(v):
                self.context.error(
                    (v or ref).place, f"{what}: '{p.name}' must be known at compile time"
                )
                return
        ref.binding = bound

    def _entry(self, d: ast.Table, entry: ast.Entry) -> None:
        keys = d.info.keys
        if len(entry.keys) != len(keys):
            if len(entry.keys) == 1 and isinstance(entry.keys[0], ast.DontCare):
                entry.keys = [ast.DontCare(entry.place) for _ in keys]
            else:
                if len(keys) == len(d.keys):
                    self.context.error(
                        entry.place, f"{len(entry.keys)} keys given, the table has {len(keys)}"
                    )
                return
        for key, value in zip(keys, entry.keys, strict=True):
            self.keysets.check(value, key.value.type, key.kind)
        if entry.priority is not None:
            self.expressions.constant(entry.priority, None, "a priority")
        self._chosen_action(d, entry.action, "entry")
        d.info.entries.append(entry)

    def _duplicates(self, d: ast.Table) -> None:
        """Entries of a table with exact keys only differ in their keys."""
        if any(k.kind != "exact" for k in d.info.keys):
            return
        seen: list[list[ast.Const | None]] = []
        for entry in d.info.entries:
            key = [e.const for e in entry.keys]
            if key in seen and None not in key:
                self.context.error(entry.place, "an earlier entry has the same key")
            seen.append(key)

    # ---- priorities of entries ----

    def _priorities(self, d: ast.Table) -> None:
        """Give the entries their priorities, if the author gives some, or asks for an order."""
        info, entries = d.info, d.info.entries
        given = [e for e in entries if e.priority is not None]
        if given and d.const_entries:
            self.context.error(
                given[0].place, "const entries have no priorities; the first that matches wins"
            )
        elif given and all(k.kind in ("exact", "lpm") for k in info.keys):
            self.context.error(
                given[0].place, "entries have a priority only where a key is not exact or lpm"
            )
        elif given and entries[0].priority is None:
            self.context.error(
                entries[0].place, "if any entry has a priority, the first one must have one"
            )
        if d.const_entries or not entries:
            return
        largest = d.properties.get("largest_priority_wins")
        delta = d.properties.get("priority_delta")
        largest_wins = largest is None or largest.value.const is not False
        step = delta.value.const if delta is not None else 1
        assert isinstance(step, int)
        next_step = -step if largest_wins else step
        priority = 1 if not largest_wins else (len(entries) - 1) * step + 1
        for entry in entries:
            value = entry.priority.const if entry.priority is not None else None
            if isinstance(value, int):
                priority = value
            if not 0 <= priority < 1 << 31:
                self.context.error(
                    entry.place, f"the priority {priority} is not from 0 to 2^31 - 1"
                )
            info.priorities.append(priority)
            priority += next_step
        if given:
            self._unusual_priorities(d, largest_wins)

    def _unusual_priorities(self, d: ast.Table, largest_wins: bool) -> None:
        """Warn of equal priorities, and of those against the order of the text."""
        silent = {string_value(a) for a in d.entries_annotations if a.name == "noWarn"}
        seen: set[int] = set()
        last: int | None = None
        for entry, priority in zip(d.info.entries, d.info.priorities, strict=True):
            if priority in seen and "duplicate_priorities" not in silent:
                self.context.warning(
                    entry.place, f"an earlier entry has the priority {priority}, too"
                )
            wrong = last is not None and (priority > last if largest_wins else priority < last)
            if wrong and "entries_out_of_priority_order" not in silent:
                self.context.warning(
                    entry.place, f"this entry (priority {priority}) wins against the one before it"
                )
            seen.add(priority)
            last = priority
