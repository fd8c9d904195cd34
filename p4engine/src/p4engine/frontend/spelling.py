"""Expressions in P4 spelling: names of keys, and texts of a trace."""

from __future__ import annotations

from dataclasses import fields

from p4engine.frontend import ast


def spell(e: ast.Expr) -> str:
    """The expression as P4 source; "key" for what has no short spelling."""
    if isinstance(e, ast.Name):
        return e.name
    if isinstance(e, ast.Member):
        return f"{spell(e.base)}.{e.name}"
    if isinstance(e, ast.Index):
        return f"{spell(e.base)}[{spell(e.index)}]"
    if isinstance(e, ast.Slice):
        return f"{spell(e.base)}[{spell(e.high)}:{spell(e.low)}]"
    if isinstance(e, ast.Call):
        return f"{spell(e.function)}()"
    if isinstance(e, ast.Number):
        return str(e.value)
    if isinstance(e, ast.Cast):
        return spell(e.operand)
    if isinstance(e, ast.Binary):
        return f"{spell(e.left)} {e.op} {spell(e.right)}"
    if isinstance(e, ast.Unary):
        return f"{e.op}{spell(e.operand)}"
    return "key"


def same(a: object, b: object) -> bool:
    """Are the two expressions spelled alike, but for spaces and parentheses?"""
    if isinstance(a, ast.Node) and isinstance(b, ast.Node):
        names = [f.name for f in fields(a) if f.init and f.name != "place"]
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in names)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b
