"""Parsers: states, transitions, value sets."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_constructors import known_at_instantiation
from p4engine.frontend.checker.check_declarations import DeclarationChecker, DeclarationRules
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_keysets import KeysetChecker
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_statements import StatementChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import Place, did_you_mean
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    BlockType,
    Composite,
    EnumType,
    SetOf,
    Tuple,
    Type,
    underlying,
)


class ParserChecker:
    """The rules for parsers and value sets."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        types: TypeResolver,
        parameters: ParameterChecker,
        statements: StatementChecker,
        keysets: KeysetChecker,
        declarations: DeclarationChecker,
    ) -> None:
        self.context, self.expressions, self.types = context, expressions, types
        self.parameters, self.statements = parameters, statements
        self.keysets, self.declarations = keysets, declarations

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Parser: self._parser, ast.ValueSet: self._value_set}

    def _value_set(self, d: ast.ValueSet) -> None:
        element = self.types.resolve(d.target)
        under = underlying(element)
        fields = [under]
        if isinstance(under, Composite) and under.kind == "struct":
            fields = list(under.fields.values())
        elif isinstance(under, Tuple):
            fields = list(under.elements)
        if element != UNKNOWN and not all(map(_selectable, fields)):
            element = self.context.error(d.place, f"a value_set cannot hold values of {element}")
        d.type = SetOf(element)
        if self.expressions.value(d.size) != UNKNOWN and not known_at_instantiation(d.size):
            self.context.error(
                d.size.place, "the size of a value_set must be known at compile time"
            )
        self.context.declare(d)

    def _parser(self, d: ast.Parser) -> None:
        if d.type_parameters and not d.is_type:
            self.parameters.declare_generic_block(d)
            return
        d.type = BlockType(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            self.parameters.declare(d.parameters)
            if not d.is_type:
                self.parameters.declare_constructor(d)
                self.context.in_parser = True
                with self.context.inner_scope():
                    for local in d.locals:
                        if isinstance(local, ast.Action | ast.Table):
                            what = "a table" if isinstance(local, ast.Table) else "an action"
                            self.context.error(local.place, f"a parser cannot have {what}")
                        self.declarations.check(local)
                    self._states(d)
                self.context.in_parser = False
        self.context.declare(d)

    def _states(self, d: ast.Parser) -> None:
        names = {"accept", "reject"}
        for state in d.states:
            if state.name in names:
                self.context.error(state.place, f"state '{state.name}' is already declared")
            if state.name in self.context.scope.names:
                self.context.error(state.place, f"'{state.name}' is already declared here")
            names.add(state.name)
        for state in d.states:
            with self.context.inner_scope():
                for statement in state.statements:
                    self.statements.check(statement)
                if isinstance(state.transition, ast.Name):
                    self._target(state.transition.place, state.transition.name, names)
                elif state.transition is not None:
                    self._select(state.transition, names)
        if any(s.name == "start" for s in d.states):
            self._reachable(d)
        else:
            self.context.error(d.place, f"parser {d.name} has no state 'start'")

    def _target(self, place: Place, name: str, names: set[str]) -> None:
        if name not in names:
            self.context.error(place, f"there is no state '{name}'{did_you_mean(name, names)}")

    def _select(self, select: ast.Select, names: set[str]) -> None:
        types = [self._selector(value) for value in select.values]
        if len(types) == 1 and isinstance(types[0], Tuple):
            types = list(types[0].elements)
        if not select.cases:
            self.context.warning(select.place, "this select has no cases; it always rejects")
        complete = False
        for case in select.cases:
            self._target(case.place, case.state, names)
            if complete:
                self.context.warning(case.place, "an earlier label matches everything")
                complete = False
            if _is_default(case):
                self.expressions.check(case.keys[0])
                complete = True
            else:
                self._label(case, types)

    def _selector(self, value: ast.Expr) -> Type:
        """The type of a value to select by."""
        got = self.expressions.value(value)
        if got == INT:
            return self.context.error(value.place, "a value to select by needs a width")
        parts = got.elements if isinstance(got, Tuple) else (got,)
        if not all(t == UNKNOWN or _selectable(t) for t in parts):
            return self.context.error(value.place, f"a value of {got} cannot be selected by")
        return got

    def _label(self, case: ast.SelectCase, types: list[Type]) -> None:
        if len(case.keys) == 1 and len(types) > 1:
            key = case.keys[0]
            got = self.expressions.check(key)
            if isinstance(got, SetOf):
                if _number_of_parts(got.element) != len(types):
                    self.context.error(key.place, f"this value_set holds {got.element}")
                return
            if isinstance(key, ast.ListExpr):
                case.keys = key.items
        if len(case.keys) != len(types):
            self.context.error(
                case.place,
                f"{len(case.keys)} keys in this label, but {len(types)} values to select by",
            )
            return
        for key, want in zip(case.keys, types, strict=True):
            if want != UNKNOWN:
                self.keysets.check(key, want, "")

    def _reachable(self, d: ast.Parser) -> None:
        by_name = {s.name: s for s in d.states}
        seen, todo = set(), ["start"]
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in by_name:
                continue
            transition = by_name[name].transition
            if transition is None:
                todo.append("reject")
            elif isinstance(transition, ast.Name):
                todo.append(transition.name)
            else:
                todo += [c.state for c in transition.cases]
                if not any(_is_default(c) for c in transition.cases):
                    todo.append("reject")
        for state in d.states:
            if state.name not in seen:
                self.context.warning(state.place, f"state {state.name} is never reached")
        if not seen & {"accept", "reject"}:
            self.context.error(d.place, f"parser {d.name} never ends: no path leads to accept")
        elif "accept" not in seen:
            self.context.warning(d.place, f"parser {d.name} never accepts")


def _selectable(type_: Type) -> bool:
    under = underlying(type_)
    return isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)


def _is_default(case: ast.SelectCase) -> bool:
    return len(case.keys) == 1 and isinstance(case.keys[0], ast.DontCare)


def _number_of_parts(type_: Type) -> int:
    if isinstance(type_, Composite):
        return len(type_.fields)
    return len(type_.elements) if isinstance(type_, Tuple) else 0
