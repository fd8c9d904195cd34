"""Parameters and type parameters of functions, methods, actions, parsers, controls, packages."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_generic_blocks import GenericBlockChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import INT, STRING, UNKNOWN, VOID, BlockType, ExternType, TypeVar


class ParameterChecker:
    """Checks parameters and declares them in the current scope."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        types: TypeResolver,
        generic_blocks: GenericBlockChecker,
    ) -> None:
        self.context, self.expressions = context, expressions
        self.types, self.generic_blocks = types, generic_blocks

    def declare_types(self, parameters: list[ast.TypeParameter]) -> None:
        """Declare type parameters."""
        for parameter in parameters:
            parameter.type = TypeVar(parameter.name, parameter)
            self.context.declare(parameter)

    def declare(self, parameters: list[ast.Parameter], of: str = "") -> None:
        """Declare parameters; `of` is "constructor", "action" or "function" where these have
        further rules."""
        for p in parameters:
            p.type = self.types.resolve(p.target)
            p.known = of == "constructor" or p.type == INT
            if p.type in (INT, STRING) and p.direction:
                p.type = self.context.error(
                    p.place, f"'{p.name}' has the type {p.type}, so it cannot have a direction"
                )
            elif p.type == INT and of == "action":
                p.type = self.context.error(p.place, f"'{p.name}' needs a width, such as bit<32>")
            elif p.direction and of == "constructor":
                self.context.error(p.place, "a constructor's parameter cannot have a direction")
            elif isinstance(p.type, ExternType) and (p.direction or of in ("action", "function")):
                what = "a parameter with a direction" if p.direction else f"a parameter of an {of}"
                what = what.replace("an function", "a function")
                p.type = self.context.error(p.place, f"{what} cannot be of the type {p.type}")
            elif p.type == VOID:
                p.type = self.context.error(p.place, "a parameter cannot have the type void")
            elif isinstance(p.type, BlockType) and of != "constructor":
                p.type = self.context.error(
                    p.place, f"'{p.name}': only constructors have parameters of the type {p.type}"
                )
            if p.default is not None:
                self._default(p, p.default)
            self.context.declare(p)

    def declare_constructor(self, d: ast.Parser | ast.Control) -> None:
        """Declare the parameters of a block's constructor. A parser is made of parsers, a control
        of controls."""
        self.declare(d.constructor_parameters, "constructor")
        kind = type(d).__name__.lower()
        for p in d.constructor_parameters:
            if isinstance(p.type, BlockType) and type(p.type.decl) is not type(d):
                other = type(p.type.decl).__name__.lower()
                self.context.error(
                    p.place, f"the constructor of a {kind} cannot have a {other} as parameter"
                )

    def _default(self, p: ast.Parameter, value: ast.Expr) -> None:
        """The value that a parameter has if the call gives none."""
        if isinstance(p.type, BlockType):
            self.expressions.check(value)
            return
        self.expressions.value(value, p.type)
        if p.direction in ("out", "inout"):
            self.context.error(value.place, f"a parameter that is '{p.direction}' has no default")
        elif value.type != UNKNOWN and value.const is None:
            self.context.error(value.place, "a default must be known at compile time")

    def declare_function(self, d: ast.Function, of: str = "") -> None:
        """Check what a generic function, an extern function or a method says before its body."""
        with self.context.inner_scope():
            self.declare_types(d.type_parameters)
            d.type = self.types.resolve(d.result)
            self.declare(d.parameters, of)

    def declare_generic_block(self, d: ast.Parser | ast.Control) -> None:
        """Declare a generic parser or control.

        Only its parameters can be checked before it is used; its body is kept until then.
        """
        self.generic_blocks.remember(d)
        d.type = BlockType(d)
        self.context.declare(d)
        with self.context.inner_scope():
            self.declare_types(d.type_parameters)
            self.declare(d.parameters)
