"""Arguments to parameters: by position or name, with defaults, and the type arguments that follow
from them.

Type arguments are found by unification of the parameters' types with the arguments'.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_expr import ExpressionChecker
from p4engine.frontend.types import (
    INT,
    UNKNOWN,
    BlockType,
    Composite,
    ExternType,
    ListOf,
    Special,
    Stack,
    Tuple,
    Type,
    TypeVar,
    substitute,
    underlying,
)


class ArgumentChecker(ExpressionChecker):
    """bind, fit_arguments, unify."""

    def bind(self, place, parameters: list, arguments: list, what: str) -> list | None:
        """[(parameter, expression or None)] in the order of the parameters, or None after
        reporting."""
        if arguments and any(a.name for a in arguments) and not all(a.name for a in arguments):
            self.error(place, "either all arguments are named or none is")
            return None
        given: dict[str, ast.Argument] = {}
        if arguments and arguments[0].name:
            names = {p.name for p in parameters}
            for argument in arguments:
                if argument.name not in names:
                    self.error(
                        argument.place,
                        f"{what} has no parameter '{argument.name}'"
                        f"{self.near(argument.name, names)}",
                    )
                    return None
                if argument.name in given:
                    self.error(argument.place, f"argument '{argument.name}' is given twice")
                    return None
                given[argument.name] = argument
        else:
            if len(arguments) > len(parameters):
                self.error(
                    place,
                    f"{what} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
                    f"{len(arguments)} given",
                )
                return None
            given = {p.name: a for p, a in zip(parameters, arguments, strict=False)}
        bound = []
        for parameter in parameters:
            if parameter.name in given:
                bound.append((parameter, given[parameter.name].value))
            elif parameter.default is not None:
                bound.append((parameter, parameter.default))
            elif any(a.name == "optional" for a in parameter.annotations):
                bound.append((parameter, None))
            else:
                self.error(place, f"{what}: no argument for parameter '{parameter.name}'")
                return None
        return bound

    def fit_arguments(self, bound: list, bindings: dict, variables: list) -> bool:
        """Infer `variables` and fit every argument to its parameter."""
        good = True
        for parameter, value in bound:
            if value is None:
                continue
            if value.type is None:
                self.expr(value)
            if value.type == UNKNOWN:
                good = False
            elif isinstance(value.type, Special) and value.type.what != "a constructor":
                self.error(value.place, f"{value.type} cannot be an argument")
                good = False
            else:
                self.unify(parameter.type, value.type, bindings, variables)
        for variable in variables:
            if bindings.get(variable) == INT:
                bindings[variable] = INT
        if not good:
            return False
        for parameter, value in bound:
            if value is None:
                continue
            want = substitute(parameter.type, bindings)
            if want == INT or isinstance(want, TypeVar) or self._has_variable(want):
                pass
            elif parameter.direction in ("out", "inout"):
                have = value.type
                if not self.same(have, want) and not (underlying(want) == have and False):
                    self.error(
                        value.place, f"'{parameter.name}' needs a variable of {want}, not {have}"
                    )
                    good = False
            elif not self.coerce(value, want, f"'{parameter.name}' needs"):
                good = False
            if parameter.direction in ("out", "inout") and good:
                good = self.left_value(value)
        return good

    def _has_variable(self, type_: Type) -> bool:
        if isinstance(type_, TypeVar):
            return True
        if isinstance(type_, Stack | ListOf):
            return self._has_variable(type_.element)
        if isinstance(type_, Tuple):
            return any(self._has_variable(t) for t in type_.elements)
        if isinstance(type_, Composite | ExternType | BlockType):
            return any(self._has_variable(t) for t in type_.arguments)
        return False

    def unify(self, want: Type, have: Type, bindings: dict, variables: list) -> None:
        """Bind the variables in `want` so that it equals `have`; mismatches are found by coerce."""
        if isinstance(want, TypeVar) and want in variables:
            known = bindings.get(want)
            if known is None or (known == INT and have != INT):
                bindings[want] = have
        elif isinstance(want, Stack) and isinstance(have, Stack):
            self.unify(want.element, have.element, bindings, variables)
        elif isinstance(want, Tuple) and isinstance(have, Tuple):
            for a, b in zip(want.elements, have.elements, strict=False):
                self.unify(a, b, bindings, variables)
        elif isinstance(want, ListOf) and isinstance(have, ListOf):
            self.unify(want.element, have.element, bindings, variables)
        elif isinstance(want, ListOf) and isinstance(have, Tuple) and have.elements:
            self.unify(want.element, have.elements[0], bindings, variables)
        elif isinstance(want, Composite) and isinstance(have, Composite):
            if want.decl is have.decl:
                for a, b in zip(want.arguments, have.arguments, strict=False):
                    self.unify(a, b, bindings, variables)
        elif isinstance(want, Composite) and want.arguments and isinstance(have, Tuple):
            for a, b in zip(want.fields.values(), have.elements, strict=False):
                self.unify(a, b, bindings, variables)
        elif isinstance(want, ExternType) and isinstance(have, ExternType):
            for a, b in zip(want.arguments, have.arguments, strict=False):
                self.unify(a, b, bindings, variables)
        elif isinstance(want, BlockType) and isinstance(have, BlockType):
            if want.decl is have.decl:
                for a, b in zip(want.arguments, have.arguments, strict=False):
                    self.unify(a, b, bindings, variables)
            elif type(want.decl) is type(have.decl) and not isinstance(want.decl, ast.Package):
                # a block against the type that its package asks for: by parameters
                formal = [p.type for p in want.decl.type_parameters]
                inner = dict(zip(formal, want.arguments, strict=False))
                for p, q in zip(want.decl.parameters, have.decl.parameters, strict=False):
                    self.unify(substitute(p.type, inner), q.type, bindings, variables)
