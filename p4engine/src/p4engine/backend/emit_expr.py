"""Expressions to C.

`value` returns a C expression without side effects whose result is already reduced to its P4
width; whatever has effects (calls) is written to the context's statements before it, in the order
of evaluation that P4 prescribes. So a C expression can be placed anywhere later in the same
statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from p4engine.backend.c_text import integer, norm, zero
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter, flat
from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.emit_operators import OperatorEmitter
from p4engine.frontend import ast
from p4engine.frontend.ast import Const, Symbol
from p4engine.frontend.types import (
    BOOL,
    INT,
    Bits,
    Composite,
    Special,
    Stack,
    Tuple,
    Type,
    is_header,
    underlying,
)

PURE_BUILTINS = {"isValid", "minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"}
WITHOUT_VALUE = {
    ast.String: "a string",
    ast.TypeExpr: "a type",
    ast.Mask: "a mask",
    ast.Range: "a range",
}


class Calls(Protocol):
    """The calls that expressions and statements need."""

    def call(self, e: ast.Call) -> str | None:
        """Write a call; returns the C expression of its value, if it has one."""

    def apply_table(self, e: ast.Expr) -> tuple[str, str]:
        """Write the application of a table; returns C expressions of hit and of the action's
        number."""
        ...


def has_effect(e: ast.Expr | None) -> bool:
    """True if the evaluation of an expression changes anything, or can fail."""
    if e is None or e.const is not None:
        return False
    if isinstance(e, ast.Call):
        info = e.call
        if isinstance(info, ast.BuiltinCall) and info.name in PURE_BUILTINS:
            return has_effect(info.receiver)
        return True
    if isinstance(e, ast.Member) and e.name in ("last", "next") and isinstance(e.base.type, Stack):
        return True
    inside: list[ast.Expr] = []
    if isinstance(e, ast.Binary):
        inside = [e.left, e.right]
    elif isinstance(e, ast.Unary | ast.Cast):
        inside = [e.operand]
    elif isinstance(e, ast.Member | ast.Slice):
        inside = [e.base]
    elif isinstance(e, ast.Index):
        inside = [e.base, e.index]
    elif isinstance(e, ast.Ternary):
        inside = [e.condition, e.yes, e.no]
    elif isinstance(e, ast.ListExpr):
        inside = e.items
    elif isinstance(e, ast.StructExpr):
        inside = [x for _, x in e.fields]
    return any(map(has_effect, inside))


def _has_int_operand(e: ast.Expr) -> bool:
    """True for an operator on values of type int. These exist at compile time only."""
    if isinstance(e, ast.Binary):
        return e.left.type == INT
    if isinstance(e, ast.Unary | ast.Cast):
        return e.operand.type == INT
    if isinstance(e, ast.Slice):
        return e.base.type == INT
    return isinstance(e, ast.Ternary) and INT in (e.type, e.yes.type)


class ExpressionEmitter:
    """The values of expressions."""

    calls: Calls

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        composites: CompositeEmitter,
        operators: OperatorEmitter,
        left: LeftEmitter,
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites
        self.operators, self.left = operators, left
        self._by_node: dict[type[ast.Expr], Callable[[Any], str]] = {
            ast.Name: self._name,
            ast.Member: self._member,
            ast.Index: self._index,
            ast.Slice: self._slice,
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.Cast: self._cast,
            ast.Ternary: self._ternary,
            ast.ListExpr: self._list,
            ast.StructExpr: self._struct,
            ast.InvalidHeader: self._invalid_header,
            ast.DontCare: self._dont_care,
            ast.Call: self._call,
        }

    def connect(self, calls: Calls) -> None:
        """Expressions contain calls, and calls expressions."""
        self.calls = calls

    def value(self, e: ast.Expr) -> str:
        """A C expression without side effects."""
        if e.const == ast.INVALID_HEADER:
            return self.context.temp(e.type, "{0}")
        if e.const is not None and not isinstance(e.const, list | dict | str):
            if isinstance(e.type, Special):
                raise self.context.fatal(e.place, "this has no value")
            return self.numbers.literal(e.const, e.type)
        if _has_int_operand(e):
            return self.numbers.literal(self.known(e), e.type)
        if type(e) in WITHOUT_VALUE:
            raise self.context.fatal(e.place, f"{WITHOUT_VALUE[type(e)]} cannot be used here")
        return self._by_node[type(e)](e)

    def known(self, e: ast.Expr) -> Const:
        """The value of an expression that parameters known at compile time are part of."""
        values = self.context.block.values | self.context.constants
        return self.context.instances.known(e, values)

    def small(self, e: ast.Expr) -> str:
        """An unsigned number as at most 64 bits, larger values saturated."""
        return self.numbers.saturated(self.value(e), e.type)

    def in_order(self, expressions: Sequence[ast.Expr]) -> list[str]:
        """Values of several operands; those before one with effects are kept in temporaries."""
        effects = [has_effect(e) for e in expressions]
        texts = []
        for i, e in enumerate(expressions):
            text = self.value(e)
            if any(effects[i + 1 :]) and e.const is None:
                text = self.context.temp(e.type, text)
            texts.append(text)
        return texts

    # ---- names and constants ----

    def _name(self, e: ast.Name) -> str:
        decl = e.decl
        if isinstance(decl, ast.Constant):
            assert decl.const is not None
            return self.constant(decl.const, decl.type)
        known = self.context.names.get(id(decl))
        if known is not None:
            return known
        value = self.context.constants.get(id(decl), self.context.block.values.get(id(decl)))
        if isinstance(decl, ast.Decl) and isinstance(value, int | Symbol):
            return self.numbers.literal(value, e.type if decl.type == INT else decl.type)
        if isinstance(decl, ast.Decl) and isinstance(value, list | dict):
            return self.constant(value, decl.type)
        raise self.context.fatal(e.place, f"'{e.name}' cannot be used here")

    def constant(self, value: Const, type_: Type) -> str:
        """A compile-time struct, tuple or number."""
        if value == ast.INVALID_HEADER:
            return self.context.temp(type_, "{0}")
        if not isinstance(value, list | dict):
            return self.numbers.literal(value, type_)
        name = self.context.temp(type_, zero(type_))
        self._fill_constant(name, value, type_)
        return name

    def _fill_constant(self, target: str, value: Const, type_: Type) -> None:
        """Assign a compile-time value to the C lvalue `target`, part by part."""
        under, out = underlying(type_), self.context.out
        if value == ast.INVALID_HEADER:
            return
        if not isinstance(value, list | dict):
            out.append(f"{target} = {self.numbers.literal(value, under)};")
            return
        if is_header(under):
            out.append(f"{target}.valid = 1;")
        if isinstance(under, Stack):
            for i, item in enumerate(value):
                self._fill_constant(f"{target}.e[{i}]", item, under.element)
            return
        for i, (part, t) in enumerate(flat(under)):
            item = value[part] if isinstance(value, dict) else value[i]
            self._fill_constant(self.composites.part(target, under, part), item, t)

    # ---- parts ----

    def _member(self, e: ast.Member) -> str:
        base = e.base.type
        if isinstance(base, Special) and base.what == "the result of apply":
            hit, _ = self.calls.apply_table(e.base)
            return hit if e.name == "hit" else f"(!{hit})"
        if isinstance(base, Stack):
            return self.left.stack_member(e)
        return self.composites.part(self.value(e.base), underlying(base), e.name)

    def _index(self, e: ast.Index) -> str:
        if isinstance(e.base.type, Tuple):
            return f"{self.value(e.base)}.f{e.index.const}"
        is_path = self.context.is_path(e.base)
        base = self.left.left(e.base) if is_path else self.value(e.base)
        return self.left.element(base, e)

    def _slice(self, e: ast.Slice) -> str:
        under = integer(e.base.type)
        text = self.value(e.base)
        low, width = e.low.known_number, e.high.known_number - e.low.known_number + 1
        if under.width <= 128:
            return norm(f"({text} >> {low})" if low else text, width)
        big = self.numbers.big(under.width)
        return self.numbers.convert(f"{big}_shr({text}, {low})", Bits(under.width), Bits(width))

    # ---- operators ----

    def _unary(self, e: ast.Unary) -> str:
        return self.operators.unary(e, self.value(e.operand))

    def _binary(self, e: ast.Binary) -> str:
        if e.op in ("&&", "||"):
            return self._short_circuit(e)
        left, right = self.in_order([e.left, e.right])
        return self.operators.binary(e, left, right)

    def _short_circuit(self, e: ast.Binary) -> str:
        left = self.value(e.left)
        if not has_effect(e.right):
            return f"({left} {e.op} {self.value(e.right)})"
        name = self.context.temp(BOOL, left)
        with self.context.capture() as inner:
            inner.append(f"{name} = {self.value(e.right)};")
        condition = name if e.op == "&&" else f"!{name}"
        self.context.out.append(f"if ({condition}) {{ " + "\n".join(inner) + " }")
        return name

    def _cast(self, e: ast.Cast) -> str:
        have, want = underlying(e.operand.type), underlying(e.type)
        text = self.value(e.operand)
        if isinstance(have, Bits) and isinstance(want, Bits):
            return self.numbers.convert(text, have, want)
        if want == BOOL and isinstance(have, Bits):
            return f"({text} != 0)"
        if isinstance(have, Tuple) and isinstance(want, Composite):
            name = self.context.temp(want, "{0}")
            source = self.context.temp(have, text)
            for (field, _), (element, _) in zip(flat(want), flat(have), strict=True):
                part = self.composites.part(name, want, field)
                self.context.out.append(f"{part} = {source}.{element};")
            if is_header(want):
                self.context.out.append(f"{name}.valid = 1;")
            return name
        return text

    def _ternary(self, e: ast.Ternary) -> str:
        condition = self.value(e.condition)
        under = underlying(e.type)
        simple = isinstance(under, Bits) and not (has_effect(e.yes) or has_effect(e.no))
        if simple and integer(under).width <= 128:
            return f"({condition} ? {self.value(e.yes)} : {self.value(e.no)})"
        name = self.context.temp(e.type)
        branches = []
        for side in (e.yes, e.no):
            with self.context.capture() as made:
                made.append(f"{name} = {self.value(side)};")
            branches.append("\n".join(made))
        self.context.out.append(f"if ({condition}) {{ {branches[0]} }} else {{ {branches[1]} }}")
        return name

    # ---- composite values ----

    def _new(self, type_: Type) -> str:
        """A new C variable of zeros; a header is valid."""
        name = self.context.temp(type_, zero(type_))
        if is_header(type_):
            self.context.out.append(f"{name}.valid = 1;")
        return name

    def _list(self, e: ast.ListExpr) -> str:
        under = underlying(e.type)
        name = self._new(under)
        if isinstance(under, Stack):
            for i, item in enumerate(e.items):
                self.context.out.append(f"{name}.e[{i}] = {self.value(item)};")
            return name
        for (part, _), item in zip(flat(under), e.items, strict=False):
            text = self.value(item)
            self.context.out.append(f"{self.composites.part(name, under, part)} = {text};")
        return name

    def _struct(self, e: ast.StructExpr) -> str:
        under = underlying(e.type)
        name = self._new(under)
        for part, item in e.fields:
            text = self.value(item)
            self.context.out.append(f"{self.composites.part(name, under, part)} = {text};")
        return name

    def _invalid_header(self, e: ast.InvalidHeader) -> str:
        return self.context.temp(e.type, "{0}")

    def _dont_care(self, e: ast.DontCare) -> str:
        return self.context.temp(e.type, zero(e.type))

    def _call(self, e: ast.Call) -> str:
        text = self.calls.call(e)
        if text is None:
            raise self.context.fatal(e.place, "this call has no value")
        return text
