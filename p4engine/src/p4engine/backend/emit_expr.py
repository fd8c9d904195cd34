"""Expressions to C.

`value` returns a C expression without side effects whose result is already reduced to its P4
width; whatever has effects (calls) is written to `self.out` before it, in the order of
evaluation that P4 prescribes. So a C expression can be placed anywhere later in the same
statement.
"""

from __future__ import annotations

from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_operators import flat
from p4engine.frontend import ast
from p4engine.frontend.fold import Symbol
from p4engine.frontend.types import (
    BOOL,
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


class ExpressionEmitter(LeftEmitter):
    """State of the C function being written: `out` is its current list of statements."""

    # ---- effects ----

    def has_effect(self, e) -> bool:
        if e is None or getattr(e, "const", None) is not None:
            return False
        if isinstance(e, ast.Call):
            info = e.call
            if info is not None and info.kind == "builtin" and info.name in PURE_BUILTINS:
                return self.has_effect(info.receiver)
            return True
        if isinstance(e, ast.Binary):
            return self.has_effect(e.left) or self.has_effect(e.right)
        if isinstance(e, ast.Unary | ast.Cast):
            return self.has_effect(e.operand)
        if isinstance(e, ast.Member):
            return (
                e.name in ("last", "next")
                and isinstance(e.base.type, Stack)
                or self.has_effect(e.base)
            )
        if isinstance(e, ast.Slice):
            return self.has_effect(e.base)
        if isinstance(e, ast.Index):
            return self.has_effect(e.base) or self.has_effect(e.index)
        if isinstance(e, ast.Ternary):
            return any(self.has_effect(x) for x in (e.condition, e.yes, e.no))
        if isinstance(e, ast.ListExpr):
            return any(self.has_effect(x) for x in e.items)
        if isinstance(e, ast.StructExpr):
            return any(self.has_effect(x) for _, x in e.fields)
        return False

    def in_order(self, expressions: list) -> list[str]:
        """Values of several operands; those before one with effects are kept in temporaries."""
        effects = [self.has_effect(e) for e in expressions]
        texts = []
        for i, e in enumerate(expressions):
            text = self.value(e)
            if any(effects[i + 1 :]) and e.const is None:
                text = self.temp(e.type, text)
            texts.append(text)
        return texts

    # ---- values ----

    def value(self, e: ast.Expr) -> str:
        if e.const is not None and not isinstance(e.const, list | dict | str):
            if isinstance(e.type, Special):
                raise self.fatal(e.place, "this has no value")
            return self.literal(e.const, e.type)
        return getattr(self, "_v_" + type(e).__name__)(e)

    def _v_Name(self, e: ast.Name) -> str:
        decl = e.decl
        if isinstance(decl, ast.Constant):
            return self._constant(decl.const, decl.type)
        known = self.env.get(id(decl))
        if known is not None:
            return known
        if id(decl) in self.block.values:
            value = self.block.values[id(decl)]
            if isinstance(value, int | bool | Symbol):
                return self.literal(value, decl.type)
        raise self.fatal(e.place, f"'{e.name}' cannot be used here")

    def _constant(self, value, type_: Type) -> str:
        """A compile-time struct, tuple or number."""
        if not isinstance(value, list | dict):
            return self.literal(value, type_)
        name = self.temp(type_, self.zero(type_))
        self._fill_constant(name, value, type_)
        return name

    def _fill_constant(self, name: str, value, type_: Type) -> None:
        under = underlying(type_)
        if is_header(under):
            self.out.append(f"{name}.valid = 1;")
        if isinstance(under, Stack):
            for i, item in enumerate(value):
                self._fill_constant(f"{name}.e[{i}]", item, under.element)
            return
        for i, (part, t) in enumerate(flat(under)):
            item = value[part] if isinstance(value, dict) else value[i]
            path = self.part(name, under, part)
            if isinstance(item, list | dict):
                self._fill_constant(path, item, t)
            else:
                self.out.append(f"{path} = {self.literal(item, t)};")

    def _v_Member(self, e: ast.Member) -> str:
        base = e.base.type
        if isinstance(base, Special) and base.what == "the result of apply":
            hit, _ = self.apply_table(e.base)
            return hit if e.name == "hit" else f"(!{hit})"
        if isinstance(base, Stack):
            return self._stack_member(e)
        return self.part(self.value(e.base), underlying(base), e.name)

    def _v_Index(self, e: ast.Index) -> str:
        if isinstance(e.base.type, Tuple):
            return f"{self.value(e.base)}.f{e.index.const}"
        base = self.value(e.base) if not self.is_path(e.base) else self.left(e.base)
        return self._element(base, e)

    def _v_Slice(self, e: ast.Slice) -> str:
        under = underlying(e.base.type)
        text = self.value(e.base)
        high, low = e.high.const, e.low.const
        width = high - low + 1
        if under.width <= 128:
            shifted = f"({text} >> {low})" if low else text
            return (
                self.norm(shifted, width)
                if high < under.width - 1 or low
                else self.norm(text, width)
            )
        big = self.big(under.width)
        return self.convert(f"{big}_shr({text}, {low})", Bits(under.width), Bits(width))

    def _v_Cast(self, e: ast.Cast) -> str:
        have, want = underlying(e.operand.type), underlying(e.type)
        text = self.value(e.operand)
        if isinstance(have, Bits) and isinstance(want, Bits):
            return self.convert(text, have, want)
        if want == BOOL and isinstance(have, Bits):
            return f"({text} != 0)"
        if isinstance(have, Tuple) and isinstance(want, Composite):
            name = self.temp(want, "{0}")
            source = self.temp(have, text)
            for (a, t), (b, _) in zip(flat(want), flat(have), strict=True):
                del t
                self.out.append(f"{self.part(name, want, a)} = {source}.{b};")
            if is_header(want):
                self.out.append(f"{name}.valid = 1;")
            return name
        return text

    def _v_Ternary(self, e: ast.Ternary) -> str:
        condition = self.value(e.condition)
        simple = isinstance(underlying(e.type), Bits) and not (
            self.has_effect(e.yes) or self.has_effect(e.no)
        )
        if simple and underlying(e.type).width <= 128:
            return f"({condition} ? {self.value(e.yes)} : {self.value(e.no)})"
        name = self.temp(e.type)
        outer = self.out
        branches = []
        for side in (e.yes, e.no):
            self.out = []
            text = self.value(side)
            branches.append("\n".join([*self.out, f"{name} = {text};"]))
        self.out = outer
        self.out.append(f"if ({condition}) {{ {branches[0]} }} else {{ {branches[1]} }}")
        return name

    def _v_ListExpr(self, e: ast.ListExpr) -> str:
        under = underlying(e.type)
        name = self.temp(under, self.zero(under))
        if is_header(under):
            self.out.append(f"{name}.valid = 1;")
        if isinstance(under, Stack):
            for i, item in enumerate(e.items):
                self.out.append(f"{name}.e[{i}] = {self.value(item)};")
            return name
        for (part, _), item in zip(flat(under), e.items, strict=False):
            text = self.value(item)
            self.out.append(f"{self.part(name, under, part)} = {text};")
        return name

    def _v_StructExpr(self, e: ast.StructExpr) -> str:
        under = underlying(e.type)
        name = self.temp(under, self.zero(under))
        if is_header(under):
            self.out.append(f"{name}.valid = 1;")
        for part, item in e.fields:
            text = self.value(item)
            self.out.append(f"{self.part(name, under, part)} = {text};")
        return name

    def _v_InvalidHeader(self, e: ast.InvalidHeader) -> str:
        return self.temp(e.type, "{0}")

    def _v_DontCare(self, e: ast.DontCare) -> str:
        return self.temp(e.type, self.zero(e.type))

    def _v_String(self, e: ast.String) -> str:
        raise self.fatal(e.place, "a string cannot be used here")

    def _v_TypeExpr(self, e: ast.TypeExpr) -> str:
        raise self.fatal(e.place, "a type cannot be used here")

    def _v_Mask(self, e: ast.Mask) -> str:
        raise self.fatal(e.place, "a mask cannot be used here")

    def _v_Range(self, e: ast.Range) -> str:
        raise self.fatal(e.place, "a range cannot be used here")

    def _v_Call(self, e: ast.Call) -> str:
        text = self.call(e)
        if text is None:
            raise self.fatal(e.place, "this call has no value")
        return text
