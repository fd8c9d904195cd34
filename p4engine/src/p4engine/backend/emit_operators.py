"""Operators to C, of operands that are C texts already: by width, in C integers up to 128 bits and
in limbs above.
"""

from __future__ import annotations

from p4engine.backend.c_text import compute, integer, mask, norm, signed
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import Bits
from p4engine.middle.layout import c_int

BIG_FUNCTIONS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "&": "and",
    "|": "or",
    "^": "xor",
    "/": "div",
    "%": "mod",
}


class OperatorEmitter:
    """Unary and binary operators; && and || are not here, as they may not evaluate an operand."""

    def __init__(
        self, context: Context, numbers: NumberEmitter, composites: CompositeEmitter
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites

    def unary(self, e: ast.Unary, text: str) -> str:
        """The operator of `e` applied to `text`."""
        if e.op == "!":
            return f"(!{text})"
        if e.op == "+":
            return text
        width = integer(e.type).width
        if width > 128:
            big = self.numbers.big(width)
            return f"{big}_mask({big}_{'not' if e.op == '~' else 'neg'}({text}), {width})"
        c = compute(width)
        if e.op == "~":
            return norm(f"~({c}){text}", width)
        return norm(f"({c})0 - ({c}){text}", width)

    def binary(self, e: ast.Binary, left: str, right: str) -> str:
        """The operator of `e` applied to `left` and `right`."""
        op = e.op
        if op in ("==", "!="):
            text = self.composites.equal(left, right, e.left.type)
            return f"({text})" if op == "==" else f"(!({text}))"
        if op in ("<<", ">>"):
            return self._shift(e, left, right)
        if op == "++":
            return self._concat(e, left, right)
        under = integer(e.left.type)
        width = under.width
        if width > 128:
            return self._big_binary(op, left, right, under)
        c = compute(width)
        if op in ("<", ">", "<=", ">="):
            if under.signed:
                left, right = signed(left, width), signed(right, width)
            return f"({left} {op} {right})"
        if op in ("&", "|", "^"):
            return f"(({c_int(width)})({left} {op} {right}))"
        if op in ("/", "%"):
            right = right if e.right.const is not None else self.context.temp(e.right.type, right)
            return f"({right} ? ({c_int(width)})({left} {op} {right}) : 0)"
        if op in ("|+|", "|-|"):
            return self._saturating(op, left, right, under)
        return norm(f"({c}){left} {op} ({c}){right}", width)

    def _saturating(self, op: str, left: str, right: str, under: Bits) -> str:
        width = under.width
        name = "add" if op == "|+|" else "sub"
        size = 32 if width <= 32 else 64 if width <= 64 else 128
        if not under.signed:
            if op == "|-|":
                return f"(({c_int(width)})({left} > {right} ? {left} - {right} : 0))"
            return f"(({c_int(width)})p4_uadd_sat{size}({left}, {right}, {mask(width)}))"
        if width == 32:
            return f"p4_s{name}_sat_32({left}, {right})"
        a, b = signed(left, width), signed(right, width)
        return norm(f"p4_s{name}_sat{size}({a}, {b}, {width})", width)

    def _shift(self, e: ast.Binary, left: str, right: str) -> str:
        under = integer(e.left.type)
        width, right_shift = under.width, e.op == ">>"
        amount = self.numbers.saturated(right, e.right.type)
        if width > 128:
            big = self.numbers.big(width)
            amount = f"(({amount}) < {width} ? (uint32_t)({amount}) : {width})"
            if not right_shift:
                return f"{big}_mask({big}_shl({left}, {amount}), {width})"
            name = "sar" if under.signed else "shr"
            extra = f", {width}" if under.signed else ""
            return f"{big}_mask({big}_{name}({left}, {amount}{extra}), {width})"
        c, limit = compute(width), max(width - 1, 0)
        if e.right.const is not None:
            const = e.right.known_number
            if right_shift and under.signed:
                return norm(f"{signed(left, width)} >> {min(const, limit)}", width)
            if const >= width:
                return "0"
            if right_shift:
                return f"(({c_int(width)})(({c}){left} >> {const}))"
            return norm(f"({c}){left} << {const}", width)
        if not isinstance(e.right, ast.Name):
            amount = self.context.temp_c("uint64_t", amount)
        if right_shift and under.signed:
            limited = f"({amount} < {limit} ? {amount} : {limit})"
            return norm(f"{signed(left, width)} >> {limited}", width)
        if right_shift:
            return f"({amount} < {width} ? ({c_int(width)})(({c}){left} >> {amount}) : 0)"
        return f"({amount} < {width} ? {norm(f'({c}){left} << {amount}', width)} : 0)"

    def _concat(self, e: ast.Binary, left: str, right: str) -> str:
        a, b = integer(e.left.type), integer(e.right.type)
        result = Bits(a.width + b.width)
        if b.width == 0:
            return left
        if result.width <= 128:
            c = compute(result.width)
            return f"(({c_int(result.width)})((({c}){left} << {b.width}) | {right}))"
        big = self.numbers.big(result.width)
        high = self.numbers.convert(left, Bits(a.width), result)
        low = self.numbers.convert(right, Bits(b.width), result)
        return f"{big}_or({big}_shl({high}, {b.width}), {low})"

    def _big_binary(self, op: str, left: str, right: str, under: Bits) -> str:
        big, width = self.numbers.big(under.width), under.width
        if op in ("<", ">", "<=", ">="):
            name = "scmp" if under.signed else "cmp"
            extra = f", {width}" if under.signed else ""
            return f"({big}_{name}({left}, {right}{extra}) {op} 0)"
        if op in ("|+|", "|-|"):
            name = ("s" if under.signed else "u") + ("add" if op == "|+|" else "sub")
            return f"{big}_{name}_sat({left}, {right}, {width})"
        return f"{big}_mask({big}_{BIG_FUNCTIONS[op]}({left}, {right}), {width})"
