"""Expressions in general: `check` gives each its type, by the rule for its class.

The rules are those of check_literals, check_names, check_operators and check_calls. A rule returns
the type and sets `const` where the value is known at compile time; `coerce` (check_conversions)
then fits the expression to what the context wants. Operands are fitted to each other, never the
result to the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import (
    UNKNOWN,
    VOID,
    BlockType,
    ExternType,
    Special,
    Stack,
    Type,
)

# For a class of nodes, the method that checks such a node. The key is the class of the argument.
ExpressionRules: TypeAlias = Mapping[type[ast.Expr], Callable[[Any], Type]]


class ExpressionChecker:
    """Checks expressions, values, constants and left values."""

    def __init__(self, context: Context, conversions: ConversionChecker) -> None:
        self.context, self.conversions = context, conversions
        self._rules: dict[type[ast.Expr], Callable[[Any], Type]] = {}

    def add(self, rules: ExpressionRules) -> None:
        """Add the rules for some classes of nodes."""
        self._rules.update(rules)

    def check(self, e: ast.Expr, want: Type | None = None) -> Type:
        """Check `e`; with `want`, fit it to that type. Returns its type."""
        rule = self._rules.get(type(e))
        e.type = self.context.error(e.place, "this cannot stand here") if rule is None else rule(e)
        if want is not None:
            if isinstance(e.type, Special):
                return self.context.error(e.place, f"{e.type} cannot be used as a value")
            if not self.conversions.coerce(e, want):
                return UNKNOWN
        return e.type

    def value(self, e: ast.Expr, want: Type | None = None) -> Type:
        """As `check`, but `e` must be a value (no table, action, extern...)."""
        got = self.check(e, want)
        if isinstance(got, Special | BlockType | ExternType) or got == VOID:
            e.type = self.context.error(e.place, f"{got} cannot be used as a value")
            return e.type
        return got

    def constant(self, e: ast.Expr, want: Type | None, what: str) -> ast.Const | None:
        """The compile-time value of `e`, or None after reporting."""
        if self.value(e, want) == UNKNOWN:
            return None
        if e.const is None:
            self.context.error(e.place, f"{what} must be known at compile time")
        return e.const

    def left_value(self, e: ast.Expr) -> bool:
        """Can the checked expression `e` be assigned to? Reports if not."""
        if e.type == UNKNOWN:
            return False
        message = "this cannot be assigned to"
        if isinstance(e, ast.Name):
            decl = e.decl
            if isinstance(decl, ast.Variable):
                return True
            if isinstance(decl, ast.Parameter):
                if decl.direction in ("out", "inout") or isinstance(decl.type, ExternType):
                    return True
                if decl.direction == "in":
                    what = "an 'in' parameter"
                else:
                    what = "a parameter without direction"
            else:
                what = "a constant" if isinstance(decl, ast.Constant) else "no variable"
            message = f"'{e.name}' is {what} and cannot be changed"
        elif isinstance(e, ast.Member):
            if isinstance(e.base.type, Stack) and e.name in ("last", "lastIndex", "size"):
                message = f".{e.name} cannot be changed"
            elif not isinstance(e.base.type, Special):
                return self.left_value(e.base)
        elif isinstance(e, ast.Index | ast.Slice):
            return self.left_value(e.base)
        self.context.error(e.place, message)
        return False
