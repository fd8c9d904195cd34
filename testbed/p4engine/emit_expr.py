"""Expressions to C.

`value` returns a C expression without side effects whose result is already reduced to its P4 width;
whatever has effects (calls) is written to `self.out` before it, in the order of evaluation that P4
prescribes. So a C expression can be placed anywhere later in the same statement.
"""

from __future__ import annotations

from . import ast
from .diagnostics import Diagnostics, Fatal, Place
from .fold import Symbol
from .instantiate import BlockInstance, Instances
from .layout import Layout, c_int, words
from .types import (
    BOOL,
    ERROR,
    INT,
    Bits,
    Composite,
    EnumType,
    Special,
    Stack,
    Tuple,
    Type,
    Varbit,
    is_header,
    is_union,
    underlying,
)

PURE_BUILTINS = {"isValid", "minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"}


def flat(under: Type) -> list[tuple[str, Type]]:
    """Names and types of the parts of a composite or tuple."""
    if isinstance(under, Composite):
        return list(under.fields.items())
    if isinstance(under, Tuple):
        return [(f"f{i}", t) for i, t in enumerate(under.elements)]
    return []


class ExpressionEmitter:
    """State of the C function being written: `out` is its current list of statements."""

    diagnostics: Diagnostics
    instances: Instances
    layout: Layout
    out: list[str]
    env: dict  # id(declaration) -> C text of a variable
    block: BlockInstance
    depth: int

    def fatal(self, place: Place, message: str) -> Fatal:
        return self.diagnostics.fatal(place, message)

    # ---- temporaries ----

    def temp(self, type_: Type, init: str | None = None) -> str:
        return self.temp_c(self.layout.c_type(type_), init)

    def temp_c(self, c_type: str, init: str | None = None) -> str:
        self.temps += 1
        name = f"t{self.depth}_{self.temps}x"
        self.out.append(f"{c_type} {name};" if init is None else f"{c_type} {name} = {init};")
        return name

    def fresh(self, prefix: str) -> str:
        self.labels += 1
        return f"{prefix}_{self.labels}"

    @staticmethod
    def zero(type_: Type) -> str:
        under = underlying(type_)
        if isinstance(under, Bits):
            return "0" if under.width <= 128 else "{{0}}"
        if under in (BOOL, ERROR) or isinstance(under, EnumType):
            return "0"
        return "{0}"

    # ---- widths ----

    @staticmethod
    def compute(width: int) -> str:
        """The unsigned C type to compute in."""
        return "uint32_t" if width <= 32 else "uint64_t" if width <= 64 else "p4_u128"

    @staticmethod
    def mask(width: int) -> str:
        if width <= 64:
            value = (1 << width) - 1
            return f"{value}u" if width <= 32 else f"{value}ull"
        high = (1 << (width - 64)) - 1
        return f"P4_U128({high}ull, {2**64 - 1}ull)"

    def norm(self, text: str, width: int) -> str:
        """Reduce a C integer to `width` bits in its container."""
        c = c_int(width)
        if width in (8, 16, 32, 64, 128):
            return f"(({c})({text}))"
        return f"(({c})(({text}) & {self.mask(width)}))"

    def signed(self, text: str, width: int) -> str:
        """`text` of int<width>, width <= 128, as a signed C integer."""
        bits = 32 if width <= 32 else 64 if width <= 64 else 128
        return f"P4_SX{bits}({text}, {width})"

    def literal(self, value, type_: Type) -> str:
        under = underlying(type_)
        if isinstance(value, Symbol):
            return str(value.number)
        if under == BOOL or isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(under, EnumType) or under == ERROR:
            return str(int(value))
        if under == INT:
            under = Bits(64)
        value = int(value) & ((1 << under.width) - 1)
        if under.width <= 64:
            return str(value) if value < 2**31 else f"{value}u" if value < 2**32 else f"{value}ull"
        if under.width <= 128:
            return f"P4_U128({value >> 64}ull, {value & (2**64 - 1)}ull)"
        limbs = ", ".join(
            f"{value >> (64 * i) & (2**64 - 1)}ull" for i in range(words(under.width))
        )
        self.layout.c_type(under)
        return f"(({c_int(under.width)}){{{{{limbs}}}}})"

    def big(self, width: int) -> str:
        """The prefix of the functions for integers of this width (above 128 bits)."""
        self.layout.c_type(Bits(width))
        return c_int(width)

    def convert(self, text: str, have: Bits, want: Bits) -> str:
        """(want) text: truncate or extend, by the sign of `have`."""
        a, b = have.width, want.width
        if a == b:
            return text
        if a <= 128 and b <= 128:
            if have.signed and a < b and a:
                return self.norm(f"({self.compute(b)}){self.signed(text, a)}", b)
            return f"(({c_int(b)})({text}))" if a < b else self.norm(text, b)
        if b <= 128:
            return self.norm(f"{self.big(a)}_low({text})", b)
        big = self.big(b)
        if a <= 128:
            if have.signed and a:
                return f"{big}_mask({big}_from_signed((__int128){self.signed(text, a)}), {b})"
            return f"{big}_from({text})"
        source = self.temp(have, text)
        if a < b and have.signed:
            return f"{big}_mask({big}_of_signed({source}.w, {words(a)}, {a}), {b})"
        return f"{big}_mask({big}_of({source}.w, {words(a)}), {b})"

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

    def part(self, base: str, under: Type, name: str) -> str:
        """The C lvalue of a field of `base`."""
        if isinstance(under, Tuple):
            return f"{base}.{name}"
        return f"{base}.{self.layout.member(under, name)}"

    def _v_Member(self, e: ast.Member) -> str:
        base = e.base.type
        if isinstance(base, Special) and base.what == "the result of apply":
            hit, _ = self.apply_table(e.base)
            return hit if e.name == "hit" else f"(!{hit})"
        if isinstance(base, Stack):
            return self._stack_member(e)
        return self.part(self.value(e.base), underlying(base), e.name)

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

    def _v_Index(self, e: ast.Index) -> str:
        if isinstance(e.base.type, Tuple):
            return f"{self.value(e.base)}.f{e.index.const}"
        base = self.value(e.base) if not self.is_path(e.base) else self.left(e.base)
        return self._element(base, e)

    def _element(self, base: str, e: ast.Index) -> str:
        if e.index.const is not None:
            return f"{base}.e[{e.index.const}]"
        size = e.base.type.size
        index = self.small(e.index)
        name = self.temp_c("uint32_t", f"{index} < {size} ? (uint32_t)({index}) : {size}")
        return f"{base}.e[{name}]"

    def small(self, e: ast.Expr) -> str:
        """An unsigned number as at most 64 bits, larger values saturated."""
        text = self.value(e)
        under = underlying(e.type)
        width = under.width if isinstance(under, Bits) else 64
        if isinstance(under, Bits) and under.signed and width <= 64:
            return f"((uint64_t){self.signed(text, width)})"
        if width <= 64:
            return text
        if width <= 128:
            return f"P4_SATURATE64({text})"
        return f"{self.big(width)}_small({text})"

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

    def _v_Unary(self, e: ast.Unary) -> str:
        text = self.value(e.operand)
        if e.op == "!":
            return f"(!{text})"
        under = underlying(e.type)
        if e.op == "+":
            return text
        if under.width > 128:
            big = self.big(under.width)
            return f"{big}_mask({big}_{'not' if e.op == '~' else 'neg'}({text}), {under.width})"
        c = self.compute(under.width)
        if e.op == "~":
            return self.norm(f"~({c}){text}", under.width)
        return self.norm(f"({c})0 - ({c}){text}", under.width)

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

    # ---- operators ----

    def _v_Binary(self, e: ast.Binary) -> str:
        op = e.op
        if op in ("&&", "||"):
            return self._short_circuit(e)
        left, right = self.in_order([e.left, e.right])
        under = underlying(e.left.type)
        if op in ("==", "!="):
            text = self.equal(left, right, under)
            return f"({text})" if op == "==" else f"(!({text}))"
        if op in ("<<", ">>"):
            return self._shift(e, left)
        if op == "++":
            return self._concat(e, left, right)
        width, signed = under.width, under.signed
        if width > 128:
            return self._big_binary(op, left, right, under)
        c = self.compute(width)
        if op in ("<", ">", "<=", ">="):
            if signed:
                left, right = self.signed(left, width), self.signed(right, width)
            return f"({left} {op} {right})"
        if op in ("&", "|", "^"):
            return f"(({c_int(width)})({left} {op} {right}))"
        if op in ("/", "%"):
            right = right if e.right.const is not None else self.temp(e.right.type, right)
            return f"({right} ? ({c_int(width)})({left} {op} {right}) : 0)"
        if op in ("|+|", "|-|"):
            return self._saturating(op, left, right, under)
        return self.norm(f"({c}){left} {op} ({c}){right}", width)

    def _short_circuit(self, e: ast.Binary) -> str:
        left = self.value(e.left)
        if not self.has_effect(e.right):
            return f"({left} {e.op} {self.value(e.right)})"
        name = self.temp(BOOL, left)
        outer, self.out = self.out, []
        right = self.value(e.right)
        inner = "\n".join([*self.out, f"{name} = {right};"])
        self.out = outer
        self.out.append(f"if ({'' if e.op == '&&' else '!'}{name}) {{ {inner} }}")
        return name

    def _saturating(self, op: str, left: str, right: str, under: Bits) -> str:
        width = under.width
        name = "add" if op == "|+|" else "sub"
        size = 32 if width <= 32 else 64 if width <= 64 else 128
        if not under.signed:
            if op == "|-|":
                return f"(({c_int(width)})({left} > {right} ? {left} - {right} : 0))"
            return f"(({c_int(width)})p4_uadd_sat{size}({left}, {right}, {self.mask(width)}))"
        if width == 32:
            return f"p4_s{name}_sat_32({left}, {right})"
        a, b = self.signed(left, width), self.signed(right, width)
        return self.norm(f"p4_s{name}_sat{size}({a}, {b}, {width})", width)

    def _shift(self, e: ast.Binary, left: str) -> str:
        under = underlying(e.left.type)
        width, right_shift = under.width, e.op == ">>"
        amount = self.small(e.right)
        const = e.right.const
        if width > 128:
            big = self.big(width)
            amount = f"(({amount}) < {width} ? (uint32_t)({amount}) : {width})"
            if not right_shift:
                return f"{big}_mask({big}_shl({left}, {amount}), {width})"
            name = "sar" if under.signed else "shr"
            extra = f", {width}" if under.signed else ""
            return f"{big}_mask({big}_{name}({left}, {amount}{extra}), {width})"
        c = self.compute(width)
        if const is not None:
            if right_shift and under.signed:
                return self.norm(
                    f"{self.signed(left, width)} >> {min(const, max(width - 1, 0))}", width
                )
            if const >= width:
                return "0"
            if right_shift:
                return f"(({c_int(width)})(({c}){left} >> {const}))"
            return self.norm(f"({c}){left} << {const}", width)
        if not isinstance(e.right, ast.Name):
            amount = self.temp_c("uint64_t", amount)
        if right_shift and under.signed:
            limit = max(width - 1, 0)
            return self.norm(
                f"{self.signed(left, width)} >> ({amount} < {limit} ? {amount} : {limit})", width
            )
        if right_shift:
            return f"({amount} < {width} ? ({c_int(width)})(({c}){left} >> {amount}) : 0)"
        return f"({amount} < {width} ? {self.norm(f'({c}){left} << {amount}', width)} : 0)"

    def _concat(self, e: ast.Binary, left: str, right: str) -> str:
        a, b = underlying(e.left.type), underlying(e.right.type)
        result = Bits(a.width + b.width)
        if b.width == 0:
            return left
        if result.width <= 128:
            c = self.compute(result.width)
            return f"(({c_int(result.width)})((({c}){left} << {b.width}) | {right}))"
        big = self.big(result.width)
        high = self.convert(left, Bits(a.width), result)
        low = self.convert(right, Bits(b.width), result)
        return f"{big}_or({big}_shl({high}, {b.width}), {low})"

    def _big_binary(self, op: str, left: str, right: str, under: Bits) -> str:
        big, width = self.big(under.width), under.width
        if op in ("<", ">", "<=", ">="):
            name = "scmp" if under.signed else "cmp"
            extra = f", {width}" if under.signed else ""
            return f"({big}_{name}({left}, {right}{extra}) {op} 0)"
        if op in ("|+|", "|-|"):
            name = ("s" if under.signed else "u") + ("add" if op == "|+|" else "sub")
            return f"{big}_{name}_sat({left}, {right}, {width})"
        name = {
            "+": "add",
            "-": "sub",
            "*": "mul",
            "&": "and",
            "|": "or",
            "^": "xor",
            "/": "div",
            "%": "mod",
        }[op]
        return f"{big}_mask({big}_{name}({left}, {right}), {width})"

    def equal(self, left: str, right: str, under: Type) -> str:
        """C condition: two values of one type are equal."""
        under = underlying(under)
        if isinstance(under, Bits) and under.width > 128:
            return f"{self.big(under.width)}_cmp({left}, {right}) == 0"
        if isinstance(under, Bits | EnumType) or under in (BOOL, ERROR):
            return f"{left} == {right}"
        if isinstance(under, Varbit):
            a, b = self.temp(under, left), self.temp(under, right)
            return f"p4_varbit_equal({a}.bits, {a}.data, {b}.bits, {b}.data)"
        a, b = self.stable(left, under), self.stable(right, under)
        if isinstance(under, Stack):
            parts = [
                f"({self.equal(f'{a}.e[{i}]', f'{b}.e[{i}]', under.element)})"
                for i in range(under.size)
            ]
        else:
            parts = [
                f"({self.equal(self.part(a, under, n), self.part(b, under, n), t)})"
                for n, t in flat(under)
            ]
        both = " && ".join(parts) or "1"
        if is_header(under):
            return f"{a}.valid == {b}.valid && (!{a}.valid || ({both}))"
        return both

    def stable(self, text: str, type_: Type) -> str:
        """A name for a composite value, so that it can be mentioned many times."""
        if text.replace("_", "").replace(".", "").replace("->", "").isalnum() or "[" in text:
            return text
        return self.temp(type_, text)

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
        self.out.append(f"{target} = {text};")
        if isinstance(e, ast.Member) and is_union(e.base.type):
            self._only_valid(e, target)

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
