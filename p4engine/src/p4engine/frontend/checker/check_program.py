"""Functions, externs, packages, actions and controls; the entry to the checker.

One walk in source order, because P4 wants declarations before use. Generic functions are checked
per instantiation (see check_calls), everything else once.
"""

from __future__ import annotations

import copy

from p4engine.frontend import ast
from p4engine.frontend.checker.check_fit import Scope
from p4engine.frontend.checker.check_parsers import ParserChecker
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import INT, UNKNOWN, VOID, BlockType, Composite, ExternType


class Checker(ParserChecker):
    """Checks a program; the results are in the decorated tree and in the attributes set here."""

    def __init__(self, diagnostics: Diagnostics):
        self.diagnostics = diagnostics
        self.globals = self.scope = Scope(None, "global")
        self.errors: dict[str, int] = {}
        self.match_kinds: set[str] = set()
        self.function_instances: dict = {}
        self.generic_blocks: dict = {}
        self.main: ast.Instance | None = None
        self.composites: list[Composite] = []

    def program(self, program: ast.Program) -> None:
        for decl in program.declarations:
            getattr(self, "_d_" + type(decl).__name__)(decl)
        if self.main is None and not self.diagnostics.errors:
            last = program.declarations[-1] if program.declarations else program
            self.error(
                last.place, "there is no 'main' package instance, such as V1Switch(...) main;"
            )

    def _d_Function(self, d: ast.Function) -> None:
        known = self.scope.names.get(d.name)
        if known is not None and not isinstance(known, list):
            self.error(d.place, f"'{d.name}' is already declared")
        if isinstance(known, list) and (d.body is not None or known[0].body is not None):
            for other in known:
                if len(other.parameters) == len(d.parameters):
                    self.error(d.place, f"function '{d.name}' is already declared")
                    break
        generic = d.type_parameters or any(
            isinstance(p.target, ast.TypeBase) and p.target.kind == "int" and p.target.width is None
            for p in d.parameters
        )
        d.source_body = copy.deepcopy(d.body) if generic and d.body else None
        d.scope = self.scope
        if generic:
            self._signature(d)
        else:
            self.check_function(d)
        if isinstance(known, list):
            known.append(d)
        else:
            self.scope.names[d.name] = [d]

    def _signature(self, d: ast.Function) -> None:
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        d.type = self.resolve_type(d.result)
        self._parameters(d.parameters)
        self.scope = outer

    def _parameters(self, parameters: list, at_run_time: bool = False) -> None:
        for p in parameters:
            p.type = self.resolve_type(p.target)
            if at_run_time and p.type == INT:
                p.type = self.error(p.place, f"'{p.name}' needs a width, such as bit<32>")
            if p.default is not None:
                self.value(p.default, p.type)
            self.declare(p)

    def check_function(self, d: ast.Function) -> None:
        outer, saved = self.scope, self.in_function
        self.scope = Scope(outer)
        d.type = self.resolve_type(d.result)
        self._parameters(d.parameters)
        if d.body is not None:
            self.in_function = d.type
            self.block(d.body.statements)
            if d.type != VOID and not self._returns(d.body):
                self.error(d.place, f"function {d.name} can end without returning a value")
        self.scope, self.in_function = outer, saved

    def _returns(self, s: ast.Node) -> bool:
        if isinstance(s, ast.Return | ast.Exit):
            return True
        if isinstance(s, ast.Block):
            return any(self._returns(x) for x in s.statements)
        if isinstance(s, ast.If):
            return s.no is not None and self._returns(s.yes) and self._returns(s.no)
        if isinstance(s, ast.Switch):
            has_default = any(
                isinstance(label, ast.DontCare) for c in s.cases for label in c.labels
            )
            return has_default and all(c.body and self._returns(c.body) for c in s.cases)
        return False

    def _d_ExternObject(self, d: ast.ExternObject) -> None:
        d.type = ExternType(d)
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        for method in d.methods:
            method.source_body = None
            method.scope = self.scope
            self._signature(method)
        self.scope = outer

    def _d_Package(self, d: ast.Package) -> None:
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        self._parameters(d.parameters)
        self.scope = outer
        d.type = BlockType(d)

    def _d_Instance(self, d: ast.Instance) -> None:
        target = self.resolve_type(d.target)
        call = ast.Call(d.place, None, [], d.arguments)
        for argument in d.arguments:
            if argument.value is None:
                self.error(argument.place, "an instance needs a value here")
                target = UNKNOWN
        if target != UNKNOWN:
            target = self.construct(call, target, d.arguments)
        d.type, d.constructor = target, call.call
        if d.body is not None:
            self.error(d.place, "instances with abstract methods are not supported by v1model")
        if (
            self.scope is self.globals
            and isinstance(target, BlockType)
            and isinstance(target.decl, ast.Package)
        ):
            self._check_package(d)
            if d.name == "main":
                self.main = d
        self.declare(d)

    def _check_package(self, d: ast.Instance) -> None:
        """Each block's parameters against the type that the package asks for."""
        if d.constructor is None:
            return
        bindings = d.constructor.bindings
        for parameter, value in d.constructor.arguments:
            if value is None or not isinstance(parameter.type, BlockType):
                continue
            if not isinstance(value.type, BlockType):
                if value.type != UNKNOWN:
                    self.error(
                        value.place,
                        f"'{parameter.name}' needs {parameter.type}, not {value.type}",
                    )
                continue
            want, have = parameter.type.decl, value.type.decl
            if want is have or not getattr(want, "is_type", False):
                continue
            if type(want) is not type(have):
                self.error(value.place, f"{parameter.name} needs a {type(want).__name__.lower()}")
                continue
            if len(want.parameters) != len(have.parameters):
                self.error(
                    value.place,
                    f"{have.name} has {len(have.parameters)} parameters, but {want.name} in"
                    f" {d.constructor.name} has {len(want.parameters)}",
                )
                continue
            formal = [p.type for p in want.type_parameters]
            inner = dict(zip(formal, parameter.type.arguments, strict=False))
            from p4engine.frontend.types import substitute

            for p, q in zip(want.parameters, have.parameters, strict=True):
                expected = substitute(substitute(p.type, inner), bindings)
                if not self._has_variable(expected) and not self.same(expected, q.type):
                    self.error(
                        q.place,
                        f"parameter '{q.name}' of {have.name} must be {expected}, not {q.type}",
                    )
                elif p.direction != q.direction:
                    self.error(
                        q.place,
                        f"parameter '{q.name}' of {have.name} must be"
                        f" '{p.direction or 'without direction'}'",
                    )

    # ---- actions, controls, tables ----

    def _d_Action(self, d: ast.Action) -> None:
        outer = self.scope
        self.scope = Scope(outer)
        self._parameters(d.parameters, at_run_time=True)
        seen_data = False
        for p in d.parameters:
            if not p.direction:
                seen_data = True
            elif seen_data:
                self.error(p.place, "parameters with a direction must stand before those without")
        self.in_action = True
        self.block(d.body.statements)
        self.in_action = False
        self.scope = outer
        self.declare(d)

    def _d_Control(self, d: ast.Control) -> None:
        if d.type_parameters and not d.is_type:
            self._generic_block(d)
            return
        d.type = BlockType(d)
        outer = self.scope
        self.declare(d)
        self.scope = Scope(outer, "control")
        self._type_parameters(d)
        self._parameters(d.parameters, at_run_time=True)
        if not d.is_type:
            self._parameters(d.constructor_parameters)
            self.scope = Scope(self.scope, "control")
            for local in d.locals:
                self._local(local)
            self.block(d.body.statements)
            for local in d.locals:
                if isinstance(local, ast.Table) and local.info and not local.info.applied:
                    self.diagnostics.warning(local.place, f"table {local.name} is never applied")
        self.scope = outer

    def _local(self, local: ast.Decl) -> None:
        if isinstance(local, ast.Variable):
            self._s_Variable(local)
        else:
            getattr(self, "_d_" + type(local).__name__)(local)


def check(program: ast.Program, diagnostics: Diagnostics) -> Checker:
    checker = Checker(diagnostics)
    checker.program(program)
    return checker
