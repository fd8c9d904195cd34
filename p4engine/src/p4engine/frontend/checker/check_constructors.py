"""Constructor calls: which constructor, and the values of its parameters."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_arguments import ArgumentChecker, accepts
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import UNKNOWN, BlockType, ExternType, Type


class ConstructorChecker:
    """Checks what makes an instance of an extern, control, parser or package."""

    def __init__(self, context: Context, arguments: ArgumentChecker) -> None:
        self.context, self.arguments = context, arguments

    def construct(
        self, place: Place, target: Type, arguments: list[ast.Argument]
    ) -> ast.Construction | None:
        """What `target(arguments)` means; None after reporting."""
        if isinstance(target, ExternType):
            name = target.decl.name
            constructors = [m for m in target.decl.methods if m.name == name]
            if not constructors:
                if arguments:
                    self.context.error(place, f"{name} has no constructor")
                    return None
                return ast.Construction(place, name, target)
            fitting = [c for c in constructors if accepts(c.parameters, arguments)]
            parameters = (fitting or constructors)[0].parameters
        elif isinstance(target, BlockType):
            name = target.decl.name
            if isinstance(target.decl, ast.Package):
                parameters = target.decl.parameters
            elif target.decl.is_type:
                self.context.error(place, f"{name} is a type without a body")
                return None
            elif target.decl.type_parameters:
                count = len(target.decl.type_parameters)
                self.context.error(place, f"{name} needs {count} type argument(s)")
                return None
            else:
                parameters = target.decl.constructor_parameters
        else:
            self.context.error(place, f"{target} cannot be instantiated")
            return None
        variables = [p.type for p in target.decl.type_parameters]
        bindings = dict(zip(variables, target.arguments, strict=False))
        bound = self.arguments.bind(place, parameters, arguments, f"the constructor of {name}")
        if bound is None:
            return None
        free = [v for v in variables if v not in bindings]
        if not self.arguments.fit(bound, bindings, free):
            return None
        for parameter, value in bound:
            if value is None or isinstance(value.type, ExternType | BlockType):
                continue
            if not known_at_instantiation(value):
                self.context.error(value.place, f"'{parameter.name}' must be known at compile time")
        made: Type = target
        if isinstance(target, ExternType) and free:
            made = ExternType(target.decl, tuple(bindings.get(v, UNKNOWN) for v in variables))
        return ast.Construction(place, name, made, bindings, arguments=bound)


def known_at_instantiation(value: ast.Expr) -> bool:
    """Is the value known at compile time, if those of the constructor's parameters are?"""
    known = known_at_instantiation
    if value.const is not None:
        return True
    if isinstance(value, ast.Name):
        return isinstance(value.decl, ast.Parameter) and value.decl.known
    if isinstance(value, ast.Binary):
        return known(value.left) and known(value.right)
    if isinstance(value, ast.Unary | ast.Cast):
        return known(value.operand)
    if isinstance(value, ast.Ternary):
        return known(value.condition) and known(value.yes) and known(value.no)
    if isinstance(value, ast.Member | ast.Slice):
        return known(value.base)
    if isinstance(value, ast.Index):
        return known(value.base) and known(value.index)
    if isinstance(value, ast.ListExpr):
        return not value.dots and all(map(known, value.items))
    if isinstance(value, ast.StructExpr):
        return not value.dots and all(known(v) for _, v in value.fields)
    return False
