"""Arguments to parameters: by position or name, with defaults, and the type arguments that follow
from them.

Type arguments are found by unification of the parameters' types with the arguments'.
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend import ast
from p4engine.frontend.checker.check_block_types import BlockTypeChecker
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import Place, did_you_mean
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
    has_dots,
    has_variable,
    substitute,
)


class ArgumentChecker:
    """Binds arguments to parameters and fits them to their types."""

    def __init__(
        self,
        context: Context,
        conversions: ConversionChecker,
        expressions: ExpressionChecker,
        blocks: BlockTypeChecker,
    ) -> None:
        self.context, self.conversions, self.expressions = context, conversions, expressions
        self.blocks = blocks

    def bind(
        self,
        place: Place,
        parameters: list[ast.Parameter],
        arguments: list[ast.Argument],
        what: str,
    ) -> ast.Bound | None:
        """The parameters in their order, each with its argument; None after reporting."""
        named = sum(a.name is not None for a in arguments)
        if 0 < named < len(arguments):
            self.context.error(place, "either all arguments are named or none is")
            return None
        given: dict[str, ast.Argument] = {}
        if named:
            names = {p.name for p in parameters}
            for argument in arguments:
                assert argument.name is not None
                if argument.name not in names:
                    self.context.error(
                        argument.place,
                        f"{what} has no parameter '{argument.name}'"
                        f"{did_you_mean(argument.name, names)}",
                    )
                    return None
                if argument.name in given:
                    self.context.error(argument.place, f"argument '{argument.name}' is given twice")
                    return None
                given[argument.name] = argument
        else:
            if len(arguments) > len(parameters):
                self.context.error(
                    place,
                    f"{what} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
                    f"{len(arguments)} given",
                )
                return None
            given = {p.name: a for p, a in zip(parameters, arguments, strict=False)}
        bound: ast.Bound = []
        for parameter in parameters:
            if parameter.name in given:
                argument = given[parameter.name]
                if argument.value is None and parameter.direction != "out":
                    self.context.error(
                        argument.place, f"'{parameter.name}' is not 'out', so it needs a value"
                    )
                    return None
                bound.append((parameter, argument.value))
            elif parameter.default is not None:
                bound.append((parameter, parameter.default))
            elif _is_optional(parameter):
                bound.append((parameter, None))
            else:
                self.context.error(place, f"{what}: no argument for parameter '{parameter.name}'")
                return None
        return bound

    def fit(
        self, bound: ast.Bound, bindings: dict[Type, Type], variables: Sequence[Type] = ()
    ) -> bool:
        """Infer `variables` (into `bindings`) and fit every argument to its parameter."""
        good = True
        for parameter, value in bound:
            if value is None:
                continue
            if value.type is ast.UNCHECKED:
                self.expressions.check(value)
            if value.type == UNKNOWN:
                good = False
            elif isinstance(value.type, Special):
                self.context.error(value.place, f"{value.type} cannot be an argument")
                good = False
            elif not (isinstance(value, ast.ListExpr | ast.StructExpr) and value.dots):
                self.unify(parameter.type, value.type, bindings, variables)
        if not good:
            return False
        for parameter, value in bound:
            if value is None:
                continue
            want = substitute(parameter.type, bindings)
            if isinstance(want, BlockType):
                good = self.blocks.fits(parameter, value, want, bindings) and good
            elif want == INT or isinstance(want, TypeVar) or has_variable(want):
                pass
            elif parameter.direction in ("out", "inout"):
                have = value.type
                if not self.conversions.same(have, want):
                    self.context.error(
                        value.place, f"'{parameter.name}' needs a variable of {want}, not {have}"
                    )
                    good = False
            elif not self.conversions.coerce(value, want, f"'{parameter.name}' needs"):
                good = False
            if parameter.direction in ("out", "inout") and good:
                good = self.expressions.left_value(value)
        return good

    def unify(
        self, want: Type, have: Type, bindings: dict[Type, Type], variables: Sequence[Type]
    ) -> None:
        """Bind the variables in `want` so that it equals `have`; mismatches are found by coerce."""
        if isinstance(want, TypeVar) and want in variables:
            known = bindings.get(want)
            if has_dots(have):  # it says nothing of the type
                return
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


def accepts(parameters: list[ast.Parameter], arguments: list[ast.Argument]) -> bool:
    """Can these arguments be given to these parameters, by number and names?"""
    needed = [p for p in parameters if p.default is None and not _is_optional(p)]
    if arguments and arguments[0].name:
        names = {a.name for a in arguments}
        return names <= {p.name for p in parameters} and {p.name for p in needed} <= names
    return len(needed) <= len(arguments) <= len(parameters)


def _is_optional(parameter: ast.Parameter) -> bool:
    return any(a.name == "optional" for a in parameter.annotations)
