"""Arithmetic on values known at compile time, by the widths and signs of the specification.

Values: int for bit<>, int<>, int and serializable enums; bool; `Symbol` for errors and plain
enums; list for lists, tuples and structs without names; dict for structs.
"""

from __future__ import annotations

from dataclasses import dataclass

from p4engine.frontend.types import INT, Bits, Type


@dataclass(frozen=True)
class Symbol:
    """A member of `error` or of an enum without a base; `number` is its value in generated code."""

    name: str
    number: int


class FoldError(Exception):
    """The operation has no value; the message says why."""


MAX_BITS = 1 << 16


def saturate(value: int, type_: Bits) -> int:
    return max(type_.low, min(type_.high, value))


def binary(op: str, a, b, type_: Type):
    """a op b, where `type_` is the type of the left operand (of the result for arithmetic)."""
    if op == "==":
        return a == b
    if op == "!=":
        return a != b
    if op == "&&":
        return a and b
    if op == "||":
        return a or b
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
    else:
        result = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "&": lambda: a & b,
            "|": lambda: a | b,
            "^": lambda: a ^ b,
        }[op]()
    return type_.wrap(result) if isinstance(type_, Bits) else result


def unary(op: str, a, type_: Type):
    if op == "!":
        return not a
    result = {"-": lambda: -a, "~": lambda: ~a, "+": lambda: a}[op]()
    return type_.wrap(result) if isinstance(type_, Bits) else result
