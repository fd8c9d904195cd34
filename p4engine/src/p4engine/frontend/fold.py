"""Arithmetic on values known at compile time, by the widths and signs of the specification.

What a value known at compile time is in Python: see `Const` in ast.py.
"""

from __future__ import annotations

from p4engine.frontend.ast import Const
from p4engine.frontend.types import INT, Bits, Type


class FoldError(Exception):
    """The operation has no value; the message says why."""


MAX_BITS = 1 << 16


def saturate(value: int, type_: Bits) -> int:
    """The value of the type that is nearest to `value`."""
    return max(type_.low, min(type_.high, value))


def binary(op: str, a: Const, b: Const, type_: Type) -> Const:
    """a op b, where `type_` is the type of the left operand (of the result for arithmetic)."""
    if op == "==":
        return a == b
    if op == "!=":
        return a != b
    if op == "&&":
        return a and b
    if op == "||":
        return a or b
    assert isinstance(a, int) and isinstance(b, int)
    if op == "<":
        return a < b
    if op == ">":
        return a > b
    if op == "<=":
        return a <= b
    if op == ">=":
        return a >= b
    if op in ("|+|", "|-|"):
        if not isinstance(type_, Bits):
            raise FoldError(f"{op} needs operands with a width")
        return saturate(a + b if op == "|+|" else a - b, type_)
    if op in ("<<", ">>"):
        if b < 0:
            raise FoldError("shift by a negative amount")
        if op == "<<" and b > MAX_BITS and type_ == INT:
            raise FoldError("the shift is too large")
        if op == ">>":
            result = a >> min(b, MAX_BITS)
        else:
            result = a << b if type_ == INT else (a << b if b <= MAX_BITS else 0)
    elif op in ("/", "%"):
        if b == 0:
            raise FoldError("division by zero")
        if a < 0 or b < 0:
            raise FoldError(f"'{op}' is not defined for negative numbers")
        result = a // b if op == "/" else a % b
    elif op == "+":
        result = a + b
    elif op == "-":
        result = a - b
    elif op == "*":
        result = a * b
    elif op == "&":
        result = a & b
    elif op == "|":
        result = a | b
    else:
        assert op == "^"
        result = a ^ b
    return type_.wrap(result) if isinstance(type_, Bits) else result


def unary(op: str, a: Const, type_: Type) -> Const:
    """op a, where `type_` is the type of the operand."""
    if op == "!":
        return not a
    assert isinstance(a, int)
    result = -a if op == "-" else ~a if op == "~" else +a
    return type_.wrap(result) if isinstance(type_, Bits) else result
