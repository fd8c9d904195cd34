"""Operators to C: by width, in C integers up to 128 bits and in limbs above; equality of composite
values.
"""

from __future__ import annotations

from p4engine.backend.emit_text import TextEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    Composite,
    EnumType,
    Stack,
    Tuple,
    Type,
    Varbit,
    is_header,
    underlying,
)
from p4engine.middle.layout import c_int


def flat(under: Type) -> list[tuple[str, Type]]:
    """Names and types of the parts of a composite or tuple."""
    if isinstance(under, Composite):
        return list(under.fields.items())
    if isinstance(under, Tuple):
        return [(f"f{i}", t) for i, t in enumerate(under.elements)]
    return []


class OperatorEmitter(TextEmitter):
    """Unary and binary operators, and `equal`."""

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
            return self._shift(e, left, right)
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

    def _shift(self, e: ast.Binary, left: str, right: str) -> str:
        under = underlying(e.left.type)
        width, right_shift = under.width, e.op == ">>"
        amount = self.saturated(right, e.right.type)
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
