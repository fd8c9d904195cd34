"""Packages and instances: what `V1Switch(MyParser(), ...) main;` and local instances mean."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_constructors import ConstructorChecker
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import UNKNOWN, BlockType


class InstanceChecker:
    """The rules for packages and instances."""

    def __init__(
        self,
        context: Context,
        types: TypeResolver,
        parameters: ParameterChecker,
        constructors: ConstructorChecker,
    ) -> None:
        self.context, self.types = context, types
        self.parameters, self.constructors = parameters, constructors

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Package: self._package, ast.Instance: self._instance}

    def _package(self, d: ast.Package) -> None:
        self.context.declare(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            self.parameters.declare(d.parameters, "constructor")
        d.type = BlockType(d)

    def _instance(self, d: ast.Instance) -> None:
        target = self.types.resolve(d.target)
        for argument in d.arguments:
            if argument.value is None:
                target = self.context.error(argument.place, "an instance needs a value here")
        if target != UNKNOWN:
            d.constructor = self.constructors.construct(d.place, target, d.arguments)
        d.type = UNKNOWN if d.constructor is None else d.constructor.type
        self._place(d)
        if d.body is not None:
            self.context.error(
                d.place, "instances with abstract methods are not supported by v1model"
            )
        is_package = isinstance(d.type, BlockType) and isinstance(d.type.decl, ast.Package)
        if self._at_top() and is_package and d.name == "main":
            self.context.main = d
        self.context.declare(d)

    def _at_top(self) -> bool:
        return self.context.scope is self.context.globals

    def _place(self, d: ast.Instance) -> None:
        """Can such an instance be declared here? Reports if not."""
        if not isinstance(d.type, BlockType):
            return
        block = d.type.decl
        kind = type(block).__name__.lower()
        if self._at_top():
            if not isinstance(block, ast.Package):
                self.context.error(
                    d.place,
                    f"a {kind} cannot be instantiated at the top level; write"
                    f" {block.name}() where the instance is needed",
                )
            return
        here = ast.Parser if self.context.in_parser else ast.Control
        if not isinstance(block, here):
            self.context.error(
                d.place, f"a {kind} cannot be instantiated in a {here.__name__.lower()}"
            )
