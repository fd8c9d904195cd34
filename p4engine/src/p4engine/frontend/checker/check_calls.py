"""Calls: which declaration a call means, and what the code generator needs of it (`Call.call`)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from p4engine.frontend import ast
from p4engine.frontend.checker.check_arguments import ArgumentChecker
from p4engine.frontend.checker.check_fit import Scope
from p4engine.frontend.types import (
    BOOL,
    INT,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    Special,
    Stack,
    Type,
    Varbit,
    is_header,
    is_union,
    substitute,
    underlying,
    width_of,
)


@dataclass(slots=True)
class CallInfo:
    """`kind`: function, extern, method (of an extern object), action, table, apply (of a parser or
    control), builtin (methods of headers and stacks, by `name`), construct."""

    kind: str
    name: str
    decl: Any = None
    arguments: list = field(default_factory=list)  # of (Parameter, Expr or None)
    receiver: Any = None
    bindings: dict = field(default_factory=dict)
    type: Any = None


class CallChecker(ArgumentChecker):
    """check_call, and constructors."""

    def check_call(self, e: ast.Call) -> Type:
        callee = e.function
        if isinstance(callee, ast.TypeExpr):
            target = self.resolve_type(callee.target)
            return self.construct(e, target, e.arguments)
        what = self.expr(callee)
        if what == UNKNOWN:
            for argument in e.arguments:
                if argument.value is not None:
                    self.expr(argument.value)
            return UNKNOWN
        if isinstance(callee, ast.Name) and isinstance(what, Special):
            if what.what == "a type":
                return self.construct(e, what.decl, e.arguments)
            if what.what == "an action":
                return self._call_action(e, what.decl)
            if what.what == "function":
                return self._call_function(e, what.decl, "function", None, {})
        if isinstance(callee, ast.Member) and isinstance(what, Special) and what.what == "a method":
            base = callee.base.type
            if isinstance(base, Special) and base.what == "a table":
                return self._call_table(e, base.decl)
            if isinstance(base, Special) and isinstance(base.decl, BlockType):
                return self._call_apply(e, base.decl, None)
            if isinstance(base, BlockType):
                return self._call_apply(e, base, callee.base)
            if isinstance(base, ExternType):
                variables = [p.type for p in base.decl.type_parameters]
                bindings = dict(zip(variables, base.arguments, strict=False))
                return self._call_function(e, what.decl, "method", callee.base, bindings)
            return self._call_builtin(e, callee, base)
        return self.error(e.place, "this cannot be called")

    # ---- kinds of calls ----

    def _call_function(
        self, e: ast.Call, candidates: list, kind: str, receiver: Any, outer: dict
    ) -> Type:
        fitting = [d for d in candidates if self._accepts(d, e.arguments)]
        decl = fitting[0] if fitting else candidates[-1]
        what = f"{'method' if kind == 'method' else 'function'} {decl.name}"
        bound = self.bind(e.place, decl.parameters, e.arguments, what)
        if bound is None:
            for argument in e.arguments:
                if argument.value is not None:
                    self.expr(argument.value)
            return UNKNOWN
        bindings = dict(outer)
        variables = [p.type for p in decl.type_parameters]
        if e.type_arguments:
            if len(e.type_arguments) != len(variables):
                return self.error(
                    e.place,
                    f"{what} takes {len(variables)} type arguments, {len(e.type_arguments)} given",
                )
            for variable, argument in zip(variables, e.type_arguments, strict=True):
                if not (isinstance(argument, ast.TypeBase) and argument.kind == "_"):
                    bindings[variable] = self.resolve_type(argument)
        # What is known from the receiver must not be bound again.
        if not self.fit_arguments(bound, bindings, [v for v in variables if v not in bindings]):
            return substitute(decl.type, bindings) if decl.type else UNKNOWN
        for variable in variables:
            if variable not in bindings:
                return self.error(
                    e.place,
                    f"{what}: the type argument {variable.name} cannot be inferred; give it",
                )
        if decl.body is not None:
            kind = "function"
            plain = [(p, v) for p, v in bound if substitute(p.type, bindings) != INT]
            constants = {}
            for p, v in bound:
                if substitute(p.type, bindings) == INT:
                    constants[p.name] = v.const if v is not None else None
                    if constants[p.name] is None:
                        return self.error(
                            (v or e).place, f"'{p.name}' must be known at compile time"
                        )
            if decl.type_parameters or constants:
                decl = self.instantiate_function(decl, bindings, constants, e.place)
                bound = [(p, v) for p, (_, v) in zip(decl.parameters, plain, strict=False)]
        elif kind == "function":
            kind = "extern"
        if kind == "extern" and decl.name == "static_assert":
            self._static_assert(e, bound)
        e.call = CallInfo(kind, decl.name, decl, bound, receiver, bindings)
        e.call.type = substitute(decl.type, bindings)
        if kind == "method" and decl.name in ("lookahead", "extract", "emit"):
            self._check_packet_call(e, bound, bindings, variables)
        return e.call.type

    def _check_packet_call(self, e: ast.Call, bound: list, bindings: dict, variables: list) -> None:
        what = bindings[variables[0]] if variables else UNKNOWN
        name = e.call.name
        if name == "lookahead":
            if width_of(what) is None or isinstance(what, Varbit):
                self.error(e.place, f"lookahead needs a type of fixed size, not {what}")
        elif name == "extract":
            if not is_header(what) and what != UNKNOWN:
                self.error(bound[0][1].place if bound[0][1] else e.place,
                           f"extract needs a header, not {what}")  # fmt: skip
                return
            variable = is_header(what) and [
                t for t in what.fields.values() if isinstance(underlying(t), Varbit)
            ]
            if len(bound) == 1 and variable:
                self.error(
                    e.place, f"{what} has a varbit field; extract needs its size as second argument"
                )
            if len(bound) == 2 and not variable:
                self.error(e.place, f"{what} has no varbit field; extract takes one argument")
        elif name == "emit" and (isinstance(what, Bits | EnumType) or what == BOOL):
            self.error(e.place, f"emit needs headers, not {what}")

    def _static_assert(self, e: ast.Call, bound: list) -> None:
        check = bound[0][1]
        if check.const is None:
            self.error(check.place, "static_assert needs a value known at compile time")
        elif check.const is False:
            text = bound[1][1].const if len(bound) > 1 else ""
            self.error(e.place, f"static_assert failed{': ' + text if text else ''}")
        e.const = True

    @staticmethod
    def _accepts(decl: ast.Function, arguments: list) -> bool:
        needed = [
            p
            for p in decl.parameters
            if p.default is None and not any(a.name == "optional" for a in p.annotations)
        ]
        if arguments and arguments[0].name:
            names = {a.name for a in arguments}
            return names <= {p.name for p in decl.parameters} and {p.name for p in needed} <= names
        return len(needed) <= len(arguments) <= len(decl.parameters)

    generic_depth = 0

    def instantiate_function(
        self, decl: ast.Function, bindings: dict, constants: dict, place
    ) -> ast.Function:
        """The checked copy of a function for these type arguments and these values of parameters
        of type int, which exist at compile time only."""
        variables = [p.type for p in decl.type_parameters]
        key = (id(decl), tuple(bindings[v] for v in variables), tuple(constants.values()))
        made = self.function_instances.get(key)
        if made is None:
            if self.generic_depth > 20:
                self.error(place, f"function {decl.name} needs itself with ever new types")
                return decl
            self.generic_depth += 1
            result = ast.Function(
                decl.place,
                decl.name,
                [],
                copy.deepcopy(decl.result),
                copy.deepcopy(
                    [self._bare_parameter(p) for p in decl.parameters if p.name not in constants]
                ),
                copy.deepcopy(decl.source_body),
            )
            self.function_instances[key] = result
            saved = self.scope
            self.scope = Scope(decl.scope)
            for p in decl.type_parameters:
                holder = ast.Typedef(p.place, p.name, None, False)
                holder.type = bindings[p.type]
                self.scope.names[p.name] = holder
            for p in decl.parameters:
                if p.name in constants:
                    known = ast.Constant(p.place, p.name, p.target, None)
                    known.type, known.const = INT, constants[p.name]
                    self.scope.names[p.name] = known
            self.check_function(result)
            self.scope = saved
            self.generic_depth -= 1
            made = result
        return made

    @staticmethod
    def _bare_parameter(p: ast.Parameter) -> ast.Parameter:
        return ast.Parameter(p.place, p.name, p.direction, p.target, None)

    def _call_action(self, e: ast.Call, decl: ast.Action) -> Type:
        bound = self.bind(e.place, decl.parameters, e.arguments, f"action {decl.name}")
        if bound is not None and self.fit_arguments(bound, {}, []):
            e.call = CallInfo("action", decl.name, decl, bound)
        if self.in_parser:
            return self.error(e.place, "actions cannot be called in a parser")
        return VOID

    def _call_table(self, e: ast.Call, decl: ast.Table) -> Type:
        if e.arguments:
            self.error(e.place, "apply of a table takes no arguments")
        if self.in_action:
            return self.error(e.place, "a table cannot be applied in an action")
        decl.info.applied = True
        e.call = CallInfo("table", decl.name, decl)
        return Special("the result of apply", decl)

    def _call_apply(self, e: ast.Call, block: BlockType, receiver: Any) -> Type:
        decl = block.decl
        if isinstance(decl, ast.Package):
            return self.error(e.place, "a package cannot be applied")
        if isinstance(decl, ast.Parser) != self.in_parser:
            here = "a parser" if self.in_parser else "a control"
            return self.error(e.place, f"{decl.name} cannot be applied in {here}")
        if self.in_action:
            return self.error(e.place, "a control cannot be applied in an action")
        if receiver is None and decl.constructor_parameters:
            return self.error(e.place, f"{decl.name} needs constructor arguments; make an instance")
        bound = self.bind(e.place, decl.parameters, e.arguments, f"{decl.name}.apply")
        if bound is not None and self.fit_arguments(bound, {}, []):
            e.call = CallInfo("apply", decl.name, decl, bound, receiver)
        return VOID

    def _call_builtin(self, e: ast.Call, callee: ast.Member, base: Type) -> Type:
        name = callee.name
        target = base.decl if isinstance(base, Special) else base
        e.call = CallInfo("builtin", name, None, [], callee.base)
        if name in ("push_front", "pop_front"):
            if len(e.arguments) != 1 or e.arguments[0].value is None:
                return self.error(e.place, f"{name} takes the number of elements")
            value = e.arguments[0].value
            count = self.constant(value, None, "the number of elements")
            if count is not None and (not isinstance(count, int) or count < 0):
                self.error(value.place, "the number of elements cannot be negative")
            e.call.arguments = [(None, value)]
            self.left_value(callee.base)
            return VOID
        if e.arguments:
            return self.error(e.place, f"{name} takes no arguments")
        if name == "isValid":
            return BOOL
        if name in ("setValid", "setInvalid"):
            if is_union(base) and name == "setValid":
                return self.error(e.place, "setValid is for headers, not for header unions")
            self.left_value(callee.base)
            return VOID
        e.const = _size(target, name)
        if e.const is None:
            return self.error(e.place, f"{target} has no size")
        return INT

    def construct(self, e: ast.Call, target: Type, arguments: list) -> Type:
        """T(args): an instance of an extern, control, parser or package."""
        decl = getattr(target, "decl", None)
        if isinstance(target, ExternType):
            constructors = [m for m in decl.methods if m.name == decl.name]
            fitting = [c for c in constructors if self._accepts(c, arguments)]
            if not constructors:
                if arguments:
                    return self.error(e.place, f"{decl.name} has no constructor")
                e.call = CallInfo("construct", decl.name, None, [])
                e.call.type = target
                return target
            chosen = (fitting or constructors)[0]
            parameters, what = chosen.parameters, f"the constructor of {decl.name}"
            variables = [p.type for p in decl.type_parameters]
            bindings = dict(zip(variables, target.arguments, strict=False))
        elif isinstance(target, BlockType):
            if getattr(decl, "is_type", False):
                return self.error(e.place, f"{decl.name} is a type without a body")
            package = isinstance(decl, ast.Package)
            parameters = decl.parameters if package else decl.constructor_parameters
            what = f"the constructor of {decl.name}"
            variables = [p.type for p in decl.type_parameters]
            bindings = dict(zip(variables, target.arguments, strict=False))
            chosen = decl
        else:
            return self.error(e.place, f"{target} cannot be instantiated")
        bound = self.bind(e.place, parameters, arguments, what)
        if bound is None:
            return UNKNOWN
        free = [v for v in variables if v not in bindings]
        if not self.fit_arguments(bound, bindings, free):
            return UNKNOWN
        for parameter, value in bound:
            if value is None or isinstance(value.type, ExternType | BlockType):
                continue
            if value.const is None and not self._is_constructor_parameter(value):
                self.error(value.place, f"'{parameter.name}' must be known at compile time")
        if isinstance(target, ExternType) and free:
            target = ExternType(decl, tuple(bindings.get(v, UNKNOWN) for v in variables))
        e.call = CallInfo("construct", decl.name, chosen, bound, None, bindings)
        e.call.type = target
        return target

    @staticmethod
    def _is_constructor_parameter(value: ast.Expr) -> bool:
        """Expressions over constructor parameters get their value at instantiation."""
        if isinstance(value, ast.Name):
            return isinstance(value.decl, ast.Parameter) or value.const is not None
        if isinstance(value, ast.Binary):
            return all(
                v.const is not None or CallChecker._is_constructor_parameter(v)
                for v in (value.left, value.right)
            )
        if isinstance(value, ast.Unary | ast.Cast):
            return value.operand.const is not None or CallChecker._is_constructor_parameter(
                value.operand
            )
        return value.const is not None


def _size(type_: Type, name: str) -> int | None:
    bits = width_of(type_)
    if bits is None:
        return None
    if name.startswith("min"):
        bits = _minimum(type_)
    return (bits + 7) // 8 if name.endswith("Bytes") else bits


def _minimum(type_: Type) -> int:
    under = underlying(type_)
    if isinstance(under, Varbit):
        return 0
    if isinstance(under, Composite):
        sizes = [_minimum(t) for t in under.fields.values()]
        return max(sizes, default=0) if under.kind == "header_union" else sum(sizes)
    if isinstance(under, Stack):
        return _minimum(under.element) * under.size
    return width_of(under) or 0
