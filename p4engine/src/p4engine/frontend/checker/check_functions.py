"""Functions: their bodies, once per instantiation if they are generic.

A function is generic if it has type parameters or parameters of type int, which exist at compile
time only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeAlias

from p4engine.frontend import ast
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_generic_blocks import bind_types
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_statements import StatementChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context, Scope
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import (
    INT,
    MATCH_KIND,
    STRING,
    VOID,
    BlockType,
    ExternType,
    ListOf,
    Type,
)

MAX_NESTED_INSTANCES = 20

# The id of the declaration, the type arguments, and the values of parameters of type int.
InstanceKey: TypeAlias = tuple[int, tuple[Type, ...], tuple[tuple[str, int], ...]]


class FunctionChecker:
    """The rules for functions and extern objects; makes instances of generic functions."""

    def __init__(
        self,
        context: Context,
        types: TypeResolver,
        parameters: ParameterChecker,
        statements: StatementChecker,
    ) -> None:
        self.context, self.types = context, types
        self.parameters, self.statements = parameters, statements
        # By id of the declaration: the unchecked body if it is generic, and the scope around it.
        self._sources: dict[int, tuple[ast.Block | None, Scope]] = {}
        self._instances: dict[InstanceKey, ast.Function] = {}
        self._depth = 0

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Function: self._function, ast.ExternObject: self._extern_object}

    def _function(self, d: ast.Function) -> None:
        scope = self.context.scope
        known = scope.names.get(d.name)
        if known is not None and not isinstance(known, list):
            self.context.error(d.place, f"'{d.name}' is already declared")
        if isinstance(known, list) and (d.body is not None or known[0].body is not None):
            for other in known:
                if [p.name for p in other.parameters] == [p.name for p in d.parameters]:
                    self.context.error(d.place, f"function '{d.name}' is already declared")
                    break
        generic = d.type_parameters or any(
            isinstance(p.target, ast.TypeBase) and p.target.kind == "int" and p.target.width is None
            for p in d.parameters
        )
        self._sources[id(d)] = (copy.deepcopy(d.body) if generic else None, scope)
        if generic:
            self.parameters.declare_function(d)
        else:
            self._body(d)
        if isinstance(known, list):
            known.append(d)
        else:
            scope.names[d.name] = [d]

    def _body(self, d: ast.Function) -> None:
        """Check a function that is not generic, or not any more."""
        context = self.context
        with context.inner_scope():
            d.type = self.types.resolve(d.result)
            no_value = isinstance(d.type, ExternType | BlockType | ListOf)
            if no_value or d.type in (INT, STRING, MATCH_KIND):
                d.type = context.error(d.place, f"a function cannot return a value of {d.type}")
            self.parameters.declare(d.parameters, "function" if d.body is not None else "")
            if d.body is not None:
                with context.elsewhere(d.type):
                    self.statements.block(d.body.statements)
                if d.type != VOID and not _returns(d.body):
                    context.error(d.place, f"function {d.name} can end without returning a value")

    def _extern_object(self, d: ast.ExternObject) -> None:
        d.type = ExternType(d)
        self.context.declare(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            for method in d.methods:
                of = "constructor" if method.name == d.name else ""
                self.parameters.declare_function(method, of)

    def instantiate(
        self,
        decl: ast.Function,
        bindings: Mapping[Type, Type],
        constants: Mapping[str, int],
        place: Place,
    ) -> ast.Function:
        """The checked copy of a function for these type arguments and these values of parameters
        of type int; `place` is that of the call."""
        arguments = {p: bindings[p.type] for p in decl.type_parameters}
        key = (id(decl), tuple(arguments.values()), tuple(constants.items()))
        made = self._instances.get(key)
        if made is not None:
            return made
        if self._depth > MAX_NESTED_INSTANCES:
            self.context.error(place, f"function {decl.name} needs itself with ever new types")
            return decl
        self._depth += 1
        source, scope = self._sources[id(decl)]
        parameters = [
            ast.Parameter(p.place, p.name, p.direction, copy.deepcopy(p.target))
            for p in decl.parameters
            if p.name not in constants
        ]
        result = copy.deepcopy(decl.result)
        made = ast.Function(decl.place, decl.name, [], result, parameters, copy.deepcopy(source))
        self._instances[key] = made
        with self.context.inner_scope(scope) as inner:
            bind_types(inner, arguments)
            for p in decl.parameters:
                if p.name in constants:
                    value = constants[p.name]
                    number = ast.Number(p.place, value, None, False)
                    known = ast.Constant(p.place, p.name, p.target, number)
                    known.type, known.const = INT, value
                    inner.names[p.name] = known
            self._body(made)
        self._depth -= 1
        return made


def _returns(s: ast.Node) -> bool:
    """Does the statement end the function on every path?"""
    if isinstance(s, ast.Return | ast.Exit):
        return True
    if isinstance(s, ast.Block):
        return any(_returns(x) for x in s.statements)
    if isinstance(s, ast.If):
        return s.no is not None and _returns(s.yes) and _returns(s.no)
    if isinstance(s, ast.Switch):
        has_default = any(isinstance(label, ast.DontCare) for c in s.cases for label in c.labels)
        return has_default and all(c.body and _returns(c.body) for c in s.cases)
    return False
