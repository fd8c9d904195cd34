"""Does a value fit a type, and what is a name: what every other part of the checker asks.

Numbers without a width and lists without a type take the type of the place where they stand;
`coerce` is where that happens, and where the message is made if they cannot.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Place
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

MAX_WIDTH = 1 << 16


class Scope:
    """Names visible at a point; `names` maps to a declaration, or a list of overloaded
    functions."""

    def __init__(self, parent: Scope | None, kind: str = "block"):
        self.parent, self.kind = parent, kind
        self.names: dict[str, object] = {}

    def find(self, name: str):
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


class FitChecker:
    """Names, equality of types, coercion."""

    diagnostics: Diagnostics
    scope: Scope
    globals: Scope
    errors: dict[str, int]

    def error(self, place: Place, message: str) -> Type:
        self.diagnostics.error(place, message)
        return UNKNOWN

    # ---- fitting ----

    def same(self, a: Type, b: Type) -> bool:
        if a is b or a == b or UNKNOWN in (a, b):
            return True
        if isinstance(a, Tuple) and isinstance(b, Tuple):
            return len(a.elements) == len(b.elements) and all(
                self.same(x, y) for x, y in zip(a.elements, b.elements, strict=True)
            )
        return False

    def coerce(self, expr: ast.Expr, want: Type, what: str = "") -> bool:
        """Make `expr` a value of type `want`, or report. `what` completes "... cannot be used
        as"."""
        have = expr.type
        if have is want or have == want:
            return True
        if UNKNOWN in (have, want) or have is None:
            return have is not None
        base = underlying(want) if not isinstance(want, EnumType | NewType) else want
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
            return self._coerce_struct(expr, base)
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
        self.error(expr.place, f"{what or 'expected'} {want}, but this is {have}{hint}")
        return False

    def _fix_width(self, expr: ast.Expr, want: Bits) -> None:
        """An `int` (always a compile-time value) takes the width `want`."""
        expr.type = want
        if expr.const is None:
            return
        if isinstance(expr.const, int):
            value = want.wrap(expr.const)
            negated = expr.const < 0 and -expr.const <= want.high + 1 and want.width
            if value != expr.const and not want.low <= expr.const <= want.high and not negated:
                self.diagnostics.warning(
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
            self.error(
                expr.place,
                f"{len(expr.items)} values given where {want} has {len(targets)}",
            )
            expr.type = UNKNOWN
            return True
        good = all(
            [self.coerce(i, t) for i, t in zip(expr.items, targets, strict=False)]  # report all
        )
        expr.type = want if good else UNKNOWN
        if good and all(i.const is not None for i in expr.items) and not expr.dots:
            expr.const = [i.const for i in expr.items]
        return True

    def _coerce_struct(self, expr: ast.StructExpr, want: Composite) -> bool:
        given = set()
        for name, value in expr.fields:
            if name not in want.fields:
                self.error(
                    value.place, f"{want} has no field '{name}'{self.near(name, want.fields)}"
                )
            elif name in given:
                self.error(value.place, f"field '{name}' is given twice")
            else:
                self.coerce(value, want.fields[name], f"field '{name}' needs")
            given.add(name)
        missing = [n for n in want.fields if n not in given]
        if missing and not expr.dots:
            self.error(expr.place, f"no value for field '{missing[0]}' of {want}")
        expr.type = want
        if not missing and all(v.const is not None for _, v in expr.fields):
            expr.const = {n: v.const for n, v in expr.fields}
        return True

    @staticmethod
    def near(name: str, names) -> str:
        """ "; did you mean 'x'?" or nothing."""
        import difflib

        close = difflib.get_close_matches(name, list(names), 1, 0.7)
        return f"; did you mean '{close[0]}'?" if close else ""

    def lookup(self, name: str, absolute: bool, place: Place):
        decl = (self.globals if absolute else self.scope).find(name)
        if decl is None:
            names: set[str] = set()
            scope: Scope | None = self.scope
            while scope:
                names |= scope.names.keys()
                scope = scope.parent
            self.error(place, f"'{name}' is not declared{self.near(name, names)}")
        return decl
