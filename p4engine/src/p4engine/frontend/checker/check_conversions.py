"""Does a value fit a type?

Numbers without a width and lists without a type take the type of the place where they stand;
`coerce` is where that happens, and where the message is made if they cannot.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    INT,
    INVALID,
    UNKNOWN,
    Bits,
    Composite,
    EnumType,
    ListOf,
    NewType,
    Stack,
    Tuple,
    Type,
    is_header,
    is_union,
    underlying,
)


class ConversionChecker:
    """Equality of types, and implicit conversions of values."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def same(self, a: Type, b: Type) -> bool:
        """Are the types equal, as far as they are known?"""
        if a is b or a == b or UNKNOWN in (a, b):
            return True
        if isinstance(a, Tuple) and isinstance(b, Tuple):
            return len(a.elements) == len(b.elements) and all(
                self.same(x, y) for x, y in zip(a.elements, b.elements, strict=True)
            )
        return False

    def coerce(self, expr: ast.Expr, want: Type, what: str = "") -> bool:
        """Make `expr` a value of type `want`, or report; the message begins with `what`."""
        have = expr.type
        if have is want or have == want:
            return True
        if have is ast.UNCHECKED:
            return False
        if UNKNOWN in (have, want):
            return True
        base = want if isinstance(want, EnumType | NewType) else underlying(want)
        if have == INT and isinstance(want, Bits):
            self._fix_width(expr, want)
            return True
        if want == INT and isinstance(have, Bits) and expr.const is not None:
            expr.type = INT
            return True
        if isinstance(have, EnumType) and have.base is not None and have.base == want:
            expr.type = want
            return True
        if have == DONT_CARE:
            expr.type = want
            return True
        if have == INVALID and (is_header(want) or is_union(want)):
            expr.type = want
            return True
        if isinstance(expr, ast.ListExpr) and self._coerce_list(expr, base):
            return True
        if isinstance(expr, ast.StructExpr) and isinstance(base, Composite):
            self.coerce_struct(expr, base)
            return True
        if isinstance(have, Tuple) and isinstance(base, Tuple) and self.same(have, base):
            return True
        if isinstance(expr, ast.Ternary):
            if self.coerce(expr.yes, want, what) and self.coerce(expr.no, want, what):
                expr.type = want
                return True
            return False
        hint = ""
        if (
            isinstance(have, Bits)
            and isinstance(want, Bits)
            or have == BOOL
            and want == Bits(1)
            or have == Bits(1)
            and want == BOOL
        ):
            hint = f"; a cast ({want}) is needed"
        self.context.error(expr.place, f"{what or 'expected'} {want}, but this is {have}{hint}")
        return False

    def _fix_width(self, expr: ast.Expr, want: Bits) -> None:
        """An `int` (always a compile-time value) takes the width `want`."""
        expr.type = want
        if isinstance(expr.const, int):
            value = want.wrap(expr.const)
            negated = expr.const < 0 and -expr.const <= want.high + 1 and want.width
            if value != expr.const and not want.low <= expr.const <= want.high and not negated:
                self.context.warning(
                    expr.place, f"{expr.const} does not fit into {want} and becomes {value}"
                )
            expr.const = value

    def _coerce_list(self, expr: ast.ListExpr, want: Type) -> bool:
        if isinstance(want, Composite) and want.kind != "header_union":
            targets = list(want.fields.values())
        elif isinstance(want, Tuple):
            targets = list(want.elements)
        elif isinstance(want, Stack):
            targets = [want.element] * want.size
            if len(expr.items) < want.size and not expr.dots:
                targets = targets[: len(expr.items)]
        elif isinstance(want, ListOf):
            targets = [want.element] * len(expr.items)
        else:
            return False
        if len(expr.items) > len(targets) or (len(expr.items) < len(targets) and not expr.dots):
            expr.type = self.context.error(
                expr.place,
                f"{len(expr.items)} values given where {want} has {len(targets)}",
            )
            return True
        good = all(
            [self.coerce(i, t) for i, t in zip(expr.items, targets, strict=False)]  # report all
        )
        expr.type = want if good else UNKNOWN
        if good:
            expr.const = list_value(expr)
        return True

    def coerce_struct(self, expr: ast.StructExpr, want: Composite) -> None:
        """Make `expr` a value of the struct or header `want`; reports fields that do not fit."""
        given = set()
        for name, value in expr.fields:
            if name not in want.fields:
                self.context.error(
                    value.place,
                    f"{want} has no field '{name}'{did_you_mean(name, want.fields)}",
                )
            elif name in given:
                self.context.error(value.place, f"field '{name}' is given twice")
            else:
                self.coerce(value, want.fields[name], f"field '{name}' needs")
            given.add(name)
        missing = [n for n in want.fields if n not in given]
        if missing and not expr.dots:
            self.context.error(expr.place, f"no value for field '{missing[0]}' of {want}")
        expr.type = want
        if not missing:
            values = {n: v.const for n, v in expr.fields if v.const is not None}
            if len(values) == len({n for n, _ in expr.fields}):
                expr.const = values


def list_value(expr: ast.ListExpr) -> ast.Const | None:
    """The value of a list, if all its elements are known at compile time."""
    values = [i.const for i in expr.items if i.const is not None]
    return values if len(values) == len(expr.items) and not expr.dots else None
