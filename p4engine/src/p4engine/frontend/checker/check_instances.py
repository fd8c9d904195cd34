"""Packages and instances: what `V1Switch(MyParser(), ...) main;` and local instances mean."""

from __future__ import annotations

from collections.abc import Mapping

from p4engine.frontend import ast
from p4engine.frontend.checker.check_constructors import ConstructorChecker
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import UNKNOWN, BlockType, Type, has_variable, substitute


class InstanceChecker:
    """The rules for packages and instances."""

    def __init__(
        self,
        context: Context,
        conversions: ConversionChecker,
        types: TypeResolver,
        parameters: ParameterChecker,
        constructors: ConstructorChecker,
    ) -> None:
        self.context, self.conversions, self.types = context, conversions, types
        self.parameters, self.constructors = parameters, constructors

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Package: self._package, ast.Instance: self._instance}

    def _package(self, d: ast.Package) -> None:
        self.context.declare(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            self.parameters.declare(d.parameters)
        d.type = BlockType(d)

    def _instance(self, d: ast.Instance) -> None:
        target = self.types.resolve(d.target)
        for argument in d.arguments:
            if argument.value is None:
                target = self.context.error(argument.place, "an instance needs a value here")
        if target != UNKNOWN:
            d.constructor = self.constructors.construct(d.place, target, d.arguments)
        d.type = UNKNOWN if d.constructor is None else d.constructor.type
        if d.body is not None:
            self.context.error(
                d.place, "instances with abstract methods are not supported by v1model"
            )
        at_top = self.context.scope is self.context.globals
        if at_top and isinstance(d.type, BlockType) and isinstance(d.type.decl, ast.Package):
            assert d.constructor is not None
            self._package_arguments(d.constructor)
            if d.name == "main":
                self.context.main = d
        self.context.declare(d)

    def _package_arguments(self, call: ast.Construction) -> None:
        """Check each block's parameters against the type that the package asks for."""
        for parameter, value in call.arguments:
            if value is None or not isinstance(parameter.type, BlockType):
                continue
            if isinstance(value.type, BlockType):
                self._block_argument(call, parameter, value, parameter.type, value.type)
            elif value.type != UNKNOWN:
                self.context.error(
                    value.place, f"'{parameter.name}' needs {parameter.type}, not {value.type}"
                )

    def _block_argument(
        self,
        call: ast.Construction,
        parameter: ast.Parameter,
        value: ast.Expr,
        want_type: BlockType,
        have_type: BlockType,
    ) -> None:
        want, have = want_type.decl, have_type.decl
        if want is have or isinstance(want, ast.Package) or not want.is_type:
            return
        if type(want) is not type(have):
            self.context.error(
                value.place, f"{parameter.name} needs a {type(want).__name__.lower()}"
            )
            return
        if len(want.parameters) != len(have.parameters):
            self.context.error(
                value.place,
                f"{have.name} has {len(have.parameters)} parameters, but {want.name} in"
                f" {call.name} has {len(want.parameters)}",
            )
            return
        formal = [p.type for p in want.type_parameters]
        inner = dict(zip(formal, want_type.arguments, strict=False))
        for p, q in zip(want.parameters, have.parameters, strict=True):
            self._block_parameter(p, q, have.name, inner, call.bindings)

    def _block_parameter(
        self,
        want: ast.Parameter,
        have: ast.Parameter,
        block: str,
        inner: Mapping[Type, Type],
        bindings: Mapping[Type, Type],
    ) -> None:
        expected = substitute(substitute(want.type, inner), bindings)
        if not has_variable(expected) and not self.conversions.same(expected, have.type):
            self.context.error(
                have.place,
                f"parameter '{have.name}' of {block} must be {expected}, not {have.type}",
            )
        elif want.direction != have.direction:
            self.context.error(
                have.place,
                f"parameter '{have.name}' of {block} must be"
                f" '{want.direction or 'without direction'}'",
            )
