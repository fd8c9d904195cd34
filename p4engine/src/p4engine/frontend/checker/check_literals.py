"""Literals: numbers and the like, lists, structs, and sets of values (masks and ranges)."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker, list_value
from p4engine.frontend.checker.check_expressions import ExpressionChecker, ExpressionRules
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    INT,
    INVALID,
    STRING,
    UNKNOWN,
    Bits,
    Composite,
    SetOf,
    StructLiteral,
    Tuple,
    Type,
    number_type,
    underlying,
)


class LiteralChecker:
    """The rules for expressions that are not made of names, operators and calls."""

    def __init__(
        self,
        context: Context,
        conversions: ConversionChecker,
        expressions: ExpressionChecker,
        types: TypeResolver,
    ) -> None:
        self.context, self.conversions = context, conversions
        self.expressions, self.types = expressions, types

    def rules(self) -> ExpressionRules:
        """The rules to add to the checker of expressions."""
        return {
            ast.Number: self._number,
            ast.Bool: self._bool,
            ast.String: self._string,
            ast.DontCare: lambda e: DONT_CARE,
            ast.InvalidHeader: self._invalid_header,
            ast.ListExpr: self._list,
            ast.StructExpr: self._struct,
            ast.Mask: self._mask,
            ast.Range: self._range,
        }

    def _number(self, e: ast.Number) -> Type:
        e.const = e.value
        return INT if e.width is None else Bits(e.width, e.signed)

    def _bool(self, e: ast.Bool) -> Type:
        e.const = e.value
        return BOOL

    def _string(self, e: ast.String) -> Type:
        e.const = e.value
        return STRING

    def _invalid_header(self, e: ast.InvalidHeader) -> Type:
        e.const = ast.INVALID_HEADER
        return INVALID

    def _list(self, e: ast.ListExpr) -> Type:
        types = tuple(self.expressions.value(i) for i in e.items)
        e.const = list_value(e)
        return Tuple(types)

    def _struct(self, e: ast.StructExpr) -> Type:
        for _, value in e.fields:
            self.expressions.value(value)
        literal = StructLiteral({n: v.type for n, v in e.fields})
        if e.target is None:
            return literal
        target = self.types.resolve(e.target)
        if target == UNKNOWN:
            return UNKNOWN
        if not isinstance(target, Composite):
            return self.context.error(e.place, f"{target} has no fields")
        e.type = literal
        self.conversions.coerce_struct(e, target)
        return target

    def _mask(self, e: ast.Mask) -> Type:
        return self._set(e, e.value, e.mask)

    def _range(self, e: ast.Range) -> Type:
        return self._set(e, e.low, e.high)

    def _set(self, e: ast.Expr, a: ast.Expr, b: ast.Expr) -> Type:
        left, right = self.expressions.value(a), self.expressions.value(b)
        if UNKNOWN in (left, right):
            return UNKNOWN
        for side in (a, b):
            if not isinstance(underlying(side.type), Bits) and side.type != INT:
                return self.context.error(side.place, f"a number is needed, not {side.type}")
        if left != right:  # a serializable enum becomes a number where the other part is one
            left, right = number_type(left), number_type(right)
        if left == INT and right != INT:
            self.conversions.coerce(a, right)
            left = a.type
        elif right == INT and left != INT:
            self.conversions.coerce(b, left)
        elif not self.conversions.same(left, right):
            return self.context.error(
                e.place, f"the two parts have different types, {left} and {right}"
            )
        return SetOf(left)
