"""Parsers: states, transitions, value sets."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_fit import Scope
from p4engine.frontend.checker.check_tables import TableChecker
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    BlockType,
    EnumType,
    SetOf,
    underlying,
)


class ParserChecker(TableChecker):
    """Checks parsers."""

    def _d_ValueSet(self, d: ast.ValueSet) -> None:
        d.type = SetOf(self.resolve_type(d.target))
        self.constant(d.size, None, "the size of a value_set")
        self.declare(d)

    def _d_Parser(self, d: ast.Parser) -> None:
        if d.type_parameters and not d.is_type:
            self._generic_block(d)
            return
        d.type = BlockType(d)
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer, "parser")
        self._type_parameters(d)
        self._parameters(d.parameters, at_run_time=True)
        if not d.is_type:
            self._parameters(d.constructor_parameters)
            self.scope = Scope(self.scope, "parser")
            self.in_parser = True
            for local in d.locals:
                self._local(local)
            names = {"accept", "reject"}
            for state in d.states:
                if state.name in names:
                    self.error(state.place, f"state '{state.name}' is already declared")
                names.add(state.name)
            for state in d.states:
                self._state(d, state, names)
            if not any(s.name == "start" for s in d.states):
                self.error(d.place, f"parser {d.name} has no state 'start'")
            else:
                self._reachable(d)
            self.in_parser = False
        self.scope = outer

    def _state(self, d: ast.Parser, state: ast.State, names: set[str]) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        for statement in state.statements:
            self.statement(statement)
        transition = state.transition
        if isinstance(transition, ast.Name):
            self._target(transition.place, transition.name, names)
        elif isinstance(transition, ast.Select):
            self._select(transition, names)
        self.scope = saved

    def _target(self, place, name: str, names: set[str]) -> None:
        if name not in names:
            self.error(place, f"there is no state '{name}'{self.near(name, names)}")

    def _select(self, select: ast.Select, names: set[str]) -> None:
        types = []
        for value in select.values:
            got = self.value(value)
            if got == INT:
                got = self.error(value.place, "a value to select by needs a width")
            under = underlying(got)
            if got != UNKNOWN and not (
                isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)
            ):
                self.error(value.place, f"a value of {got} cannot be selected by")
                got = UNKNOWN
            types.append(got)
        if not select.cases:
            self.diagnostics.warning(select.place, "this select has no cases; it always rejects")
        complete = False
        for case in select.cases:
            self._target(case.place, case.state, names)
            if complete:
                self.diagnostics.warning(case.place, "an earlier label matches everything")
                complete = False
            keys = case.keys
            if len(keys) == 1 and isinstance(keys[0], ast.DontCare):
                self.expr(keys[0])
                complete = True
                continue
            if len(keys) == 1 and len(types) > 1:
                got = self.expr(keys[0])
                if isinstance(got, SetOf):
                    element = got.element
                    if len(
                        getattr(element, "fields", ()) or getattr(element, "elements", ())
                    ) != len(types):
                        self.error(keys[0].place, f"this value_set holds {element}")
                    continue
                if isinstance(keys[0], ast.ListExpr):
                    keys = case.keys = keys[0].items
            if len(keys) != len(types):
                self.error(
                    case.place,
                    f"{len(keys)} keys in this label, but {len(types)} values to select by",
                )
                continue
            for key, want in zip(keys, types, strict=True):
                if want != UNKNOWN:
                    self.keyset(key, want, "")

    def _reachable(self, d: ast.Parser) -> None:
        by_name = {s.name: s for s in d.states}
        seen, todo = set(), ["start"]
        while todo:
            name = todo.pop()
            if name in seen or name not in by_name:
                continue
            seen.add(name)
            transition = by_name[name].transition
            if isinstance(transition, ast.Name):
                todo.append(transition.name)
            elif isinstance(transition, ast.Select):
                todo += [c.state for c in transition.cases]
        for state in d.states:
            if state.name not in seen:
                self.diagnostics.warning(state.place, f"state {state.name} is never reached")
