"""Left values to C: variables, fields, elements of stacks, slices, members of unions."""

from __future__ import annotations

import copy
from typing import Protocol, TypeGuard

from p4engine.backend.c_text import compute, integer, mask
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter, composite, stack_size
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import (
    BOOL,
    INT,
    Bits,
    EnumType,
    Stack,
    Tuple,
    Type,
    is_union,
    underlying,
)
from p4engine.middle.layout import c_int


class Values(Protocol):
    """The expressions that left values need, for indices and slices."""

    def value(self, e: ast.Expr) -> str:
        """A C expression without side effects."""

    def small(self, e: ast.Expr) -> str:
        """An unsigned number as at most 64 bits, larger values saturated."""


def root(e: ast.Expr) -> tuple[object, tuple[str, ...]]:
    """(declaration, path) of a left value, for the question whether two overlap."""
    path: list[str] = []
    while True:
        if isinstance(e, ast.Member):
            path.append(e.name)
            e = e.base
        elif isinstance(e, ast.Index):
            path.append(str(e.index.const) if e.index.const is not None else "*")
            e = e.base
        elif isinstance(e, ast.Slice):
            e = e.base
        else:
            break
    return getattr(e, "decl", None), tuple(reversed(path))


def is_next(e: ast.Expr | None) -> TypeGuard[ast.Member]:
    """True for the element behind the last one that was extracted, stack.next."""
    return isinstance(e, ast.Member) and isinstance(e.base.type, Stack) and e.name == "next"


class LeftEmitter:
    """The place of a value."""

    values: Values

    def __init__(
        self, context: Context, numbers: NumberEmitter, composites: CompositeEmitter
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites

    def connect(self, values: Values) -> None:
        """Left values and expressions contain each other."""
        self.values = values

    def left(self, e: ast.Expr) -> str:
        """The C lvalue of a variable, field or element (not of a slice)."""
        if isinstance(e, ast.Name):
            text = self.context.names.get(id(e.decl))
            if text is None:
                raise self.context.fatal(e.place, f"'{e.name}' cannot be changed here")
            return text
        if isinstance(e, ast.Member):
            if isinstance(e.base.type, Stack):
                return self.stack_member(e)
            return self.composites.part(self.left(e.base), underlying(e.base.type), e.name)
        if isinstance(e, ast.Index):
            if isinstance(e.base.type, Tuple):
                return f"{self.left(e.base)}.f{e.index.const}"
            return self.element(self.left(e.base), e)
        if isinstance(e, ast.Cast):
            return self.left(e.operand)
        raise self.context.fatal(e.place, "this cannot be changed")

    def stack_member(self, e: ast.Member) -> str:
        """The C of next, last and lastIndex of a stack."""
        out, stack = self.context.out, self.left(e.base)
        if e.name == "lastIndex":
            return f"((uint32_t)({stack}.next - 1))"
        if e.name == "last":
            error = self.context.parser_error("StackOutOfBounds")
            out.append(f"if ({stack}.next == 0) {{ {error} }}")
            return f"{stack}.e[{stack}.next - 1]"
        if e.name == "next":
            error = self.context.parser_error("StackOutOfBounds")
            out.append(f"if ({stack}.next >= {stack_size(e.base.type)}) {{ {error} }}")
            return f"{stack}.e[{stack}.next]"
        raise self.context.fatal(e.place, f".{e.name} cannot be used here")

    def element(self, base: str, e: ast.Index) -> str:
        """The element of the stack `base` that `e` names; one behind the last if there is none."""
        if e.index.const is not None:
            return f"{base}.e[{e.index.const}]"
        size = stack_size(e.base.type)
        index = self.values.small(e.index)
        name = self.context.temp_c("uint32_t", f"{index} < {size} ? (uint32_t)({index}) : {size}")
        return f"{base}.e[{name}]"

    def fixed(self, e: ast.Expr) -> ast.Expr:
        """The left value `e` with its indices evaluated now, and only once. (That an index without
        effects is evaluated behind the right side is as p4c has it.)"""
        if not isinstance(e, ast.Member | ast.Slice | ast.Index):
            return e
        e = copy.copy(e)
        self.context.kept.append(e)
        e.base = self.fixed(e.base)
        if isinstance(e, ast.Index) and e.index.const is None:
            name = self.context.temp(e.index.type, self.values.value(e.index))
            e.index = self.context.variable(e.place, name, e.index.type, name)
        return e

    # ---- assignment ----

    def store(self, e: ast.Expr, text: str) -> None:
        """e = text, where e may be a slice, and a member of a union makes the others invalid."""
        if isinstance(e, ast.Slice):
            base = integer(e.base.type)
            high, low = e.high.known_number, e.low.known_number
            slice_of_slice = isinstance(e.base, ast.Slice)
            old = self.values.value(e.base) if slice_of_slice else self.left(e.base)
            if base.width > 128:
                big = self.numbers.big(base.width)
                wide = self.numbers.convert(text, Bits(high - low + 1), Bits(base.width))
                new = f"{big}_insert({old}, {wide}, {high}, {low})"
            else:
                c = compute(base.width)
                clear = f"({c}){old} & ~((({c}){mask(high - low + 1)}) << {low})"
                new = f"(({c_int(base.width)})(({clear}) | (({c})({text}) << {low})))"
            self.store(e.base, new)
            return
        target = self.left(e)
        self.composites.copy(target, text, e.type)
        if isinstance(e, ast.Member) and is_union(e.base.type):
            self.only_valid(e, target)

    def only_valid(self, e: ast.Member, target: str) -> None:
        """The other members of a union become invalid if this one, in C `target`, is valid."""
        self.composites.only_valid(self.left(e.base), composite(e.base.type), e.name, target)

    def store_number(self, target: ast.Expr, text: str, width: int = 32) -> None:
        """Store a C integer of `width` bits in a variable of any width."""
        under = self.number_type(target)
        if not isinstance(under, Bits):
            self.store(target, f"({self.context.layout.c_type(under)})({text})")
            return
        self.store(target, self.numbers.convert(text, Bits(width), Bits(under.width)))

    def number_type(self, e: ast.Expr) -> Type:
        """The type of what must be a number. The externs' declarations allow any type there."""
        under = underlying(e.type)
        if not isinstance(under, Bits | EnumType) and under not in (BOOL, INT):
            raise self.context.fatal(
                e.place, f"expected a number (bit<W> or int<W>), but this is {e.type}"
            )
        return under
