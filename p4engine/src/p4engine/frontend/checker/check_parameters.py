"""Parameters and type parameters of functions, methods, actions, parsers, controls, packages."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_generic_blocks import GenericBlockChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import INT, BlockType, TypeVar


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

    def declare(self, parameters: list[ast.Parameter], at_run_time: bool = False) -> None:
        """Declare parameters; `at_run_time` if their values cannot be of type int."""
        for p in parameters:
            p.type = self.types.resolve(p.target)
            if at_run_time and p.type == INT:
                p.type = self.context.error(p.place, f"'{p.name}' needs a width, such as bit<32>")
            if p.default is not None:
                self.expressions.value(p.default, p.type)
            self.context.declare(p)

    def declare_function(self, d: ast.Function) -> None:
        """Check what a generic function, an extern function or a method says before its body."""
        with self.context.inner_scope():
            self.declare_types(d.type_parameters)
            d.type = self.types.resolve(d.result)
            self.declare(d.parameters)

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
