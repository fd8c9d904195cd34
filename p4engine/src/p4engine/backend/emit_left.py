"""Left values to C: variables, fields, elements of stacks, slices, members of unions."""

from __future__ import annotations

from p4engine.backend.emit_operators import OperatorEmitter, flat
from p4engine.frontend import ast
from p4engine.frontend.types import (
    Bits,
    Composite,
    Stack,
    Tuple,
    Type,
    has_header,
    is_header,
    is_union,
    underlying,
)
from p4engine.middle.layout import c_int


class LeftEmitter(OperatorEmitter):
    """Where a value is stored."""

    def part(self, base: str, under: Type, name: str) -> str:
        """The C lvalue of a field of `base`."""
        if isinstance(under, Tuple):
            return f"{base}.{name}"
        return f"{base}.{self.layout.member(under, name)}"

    def _stack_member(self, e: ast.Member) -> str:
        stack = self.left(e.base)
        if e.name == "lastIndex":
            return f"((uint32_t)({stack}.next - 1))"
        if e.name == "last":
            self.out.append(f"if ({stack}.next == 0) {{ {self.parser_error('StackOutOfBounds')} }}")
            return f"{stack}.e[{stack}.next - 1]"
        if e.name == "next":
            size = e.base.type.size
            self.out.append(
                f"if ({stack}.next >= {size}) {{ {self.parser_error('StackOutOfBounds')} }}"
            )
            return f"{stack}.e[{stack}.next]"
        raise self.fatal(e.place, f".{e.name} cannot be used here")

    def _element(self, base: str, e: ast.Index) -> str:
        if e.index.const is not None:
            return f"{base}.e[{e.index.const}]"
        size = e.base.type.size
        index = self.small(e.index)
        name = self.temp_c("uint32_t", f"{index} < {size} ? (uint32_t)({index}) : {size}")
        return f"{base}.e[{name}]"

    def small(self, e: ast.Expr) -> str:
        """An unsigned number as at most 64 bits, larger values saturated."""
        return self.saturated(self.value(e), e.type)

    def saturated(self, text: str, type_: Type) -> str:
        """The value `text` of an unsigned type as at most 64 bits."""
        under = underlying(type_)
        width = under.width if isinstance(under, Bits) else 64
        if isinstance(under, Bits) and under.signed and width <= 64:
            return f"((uint64_t){self.signed(text, width)})"
        if width <= 64:
            return text
        if width <= 128:
            return f"P4_SATURATE64({text})"
        return f"{self.big(width)}_small({text})"

    # ---- left values ----

    def is_path(self, e: ast.Expr) -> bool:
        """Is `e` a variable or a fixed part of one?"""
        if isinstance(e, ast.Name):
            return id(e.decl) in self.env
        if isinstance(e, ast.Member):
            return e.name not in ("next", "last", "lastIndex") and self.is_path(e.base)
        if isinstance(e, ast.Index):
            return e.index.const is not None and self.is_path(e.base)
        return False

    def root(self, e: ast.Expr):
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

    def left(self, e: ast.Expr) -> str:
        """The C lvalue of a variable, field or element (not of a slice)."""
        if isinstance(e, ast.Name):
            text = self.env.get(id(e.decl))
            if text is None:
                raise self.fatal(e.place, f"'{e.name}' cannot be changed here")
            return text
        if isinstance(e, ast.Member):
            if isinstance(e.base.type, Stack):
                return self._stack_member(e)
            return self.part(self.left(e.base), underlying(e.base.type), e.name)
        if isinstance(e, ast.Index):
            return self._element(self.left(e.base), e)
        if isinstance(e, ast.Cast):
            return self.left(e.operand)
        raise self.fatal(e.place, "this cannot be changed")

    def store(self, e: ast.Expr, text: str) -> None:
        """e = text, where e may be a slice, and a member of a union makes the others invalid."""
        if isinstance(e, ast.Slice):
            base = underlying(e.base.type)
            high, low = e.high.const, e.low.const
            old = self.left_or_slice(e.base)
            if base.width > 128:
                big = self.big(base.width)
                wide = self.convert(text, Bits(high - low + 1), Bits(base.width))
                new = f"{big}_insert({old}, {wide}, {high}, {low})"
            else:
                c = self.compute(base.width)
                ones = self.mask(high - low + 1)
                clear = f"({c}){old} & ~((({c}){ones}) << {low})"
                new = f"(({c_int(base.width)})(({clear}) | (({c})({text}) << {low})))"
            self.store(e.base, new)
            return
        target = self.left(e)
        self.copy(target, text, e.type)
        if isinstance(e, ast.Member) and is_union(e.base.type):
            self._only_valid(e, target)

    def copy(self, target: str, text: str, type_: Type) -> None:
        """target = text. Of an invalid header, only that it is invalid is copied: the fields stay
        what they were, as on BMv2."""
        under = underlying(type_)
        if not has_header(under):
            self.out.append(f"{target} = {text};")
            return
        text = self.stable(text, under)
        if is_header(under):
            self.out.append(f"if ({text}.valid) {target} = {text}; else {target}.valid = 0;")
        elif isinstance(under, Stack):
            self.out.append(f"{target}.next = {text}.next;")
            for i in range(under.size):
                self.copy(f"{target}.e[{i}]", f"{text}.e[{i}]", under.element)
        else:
            for name, t in flat(under):
                self.copy(self.part(target, under, name), self.part(text, under, name), t)

    def left_or_slice(self, e: ast.Expr) -> str:
        return self.value(e) if isinstance(e, ast.Slice) else self.left(e)

    def _only_valid(self, e: ast.Member, target: str) -> None:
        """The other members of a union become invalid if this one is valid."""
        base = self.left(e.base)
        under = underlying(e.base.type)
        others = [f"{self.part(base, under, n)}.valid = 0;" for n in under.fields if n != e.name]
        if others:
            self.out.append(f"if ({target}.valid) {{ {' '.join(others)} }}")

    def invalidate(self, text: str, type_: Type) -> None:
        """Make all headers within a variable invalid."""
        under = underlying(type_)
        if is_header(under):
            self.out.append(f"{text}.valid = 0;")
        elif isinstance(under, Stack):
            self.out.append(f"{text}.next = 0;")
            for i in range(under.size):
                self.invalidate(f"{text}.e[{i}]", under.element)
        elif isinstance(under, Composite | Tuple):
            if isinstance(under, Composite) and under.name == "standard_metadata_t":
                return
            for name, t in flat(under):
                self.invalidate(self.part(text, under, name), t)
