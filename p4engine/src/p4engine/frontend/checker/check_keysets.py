"""What is matched against a value: elements of an entry's keys and of a select's labels."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import (
    DONT_CARE,
    INT,
    UNKNOWN,
    Bits,
    Composite,
    SetOf,
    Special,
    Type,
    number_type,
    width_of,
)


class KeysetChecker:
    """Checks single values, masks, ranges, value sets and `_`."""

    def __init__(
        self, context: Context, conversions: ConversionChecker, expressions: ExpressionChecker
    ) -> None:
        self.context, self.conversions, self.expressions = context, conversions, expressions

    def check(self, value: ast.Expr, want: Type, kind: str) -> None:
        """Check `value` against the type it is compared with; `kind` is the match kind of the
        table's key, "" in a select."""
        got = self.expressions.check(value)
        if got == DONT_CARE:
            if kind == "exact":
                self.context.error(value.place, "an exact key needs a value")
        elif got == UNKNOWN:
            return
        elif isinstance(value, ast.Mask):
            self._parts(value.value, value.mask, want)
            self._mask(value, want, kind)
        elif isinstance(value, ast.Range):
            self._parts(value.low, value.high, want)
            self._range(value, kind)
        elif isinstance(got, SetOf):
            self._value_set(value, got.element, want, kind)
        elif isinstance(got, Special):
            self.context.error(value.place, f"{got} cannot stand here")
        elif self.conversions.coerce(value, want, "the key needs"):
            self._constant(value)

    def _parts(self, first: ast.Expr, second: ast.Expr, want: Type) -> None:
        for part in (first, second):
            # Masks and ranges of a serializable enum may be written as numbers.
            as_number = part.type == INT or isinstance(part.type, Bits)
            self.conversions.coerce(part, number_type(want) if as_number else want)
            if part.type != UNKNOWN:
                self._constant(part)

    def _constant(self, e: ast.Expr) -> None:
        if e.const is None:
            self.context.error(e.place, "this must be known at compile time")

    def _mask(self, e: ast.Mask, want: Type, kind: str) -> None:
        if kind == "exact":
            self.context.error(e.place, "an exact key needs a single value")
        elif kind in ("range", "optional"):
            self.context.error(e.place, f"a mask cannot be matched by a key of kind {kind}")
        elif kind == "lpm" and isinstance(e.mask.const, int):
            inverse = ~e.mask.const & ((1 << (width_of(want) or 0)) - 1)
            if inverse & (inverse + 1):
                self.context.error(e.place, "the mask of an lpm key must be a prefix")

    def _range(self, e: ast.Range, kind: str) -> None:
        low, high = e.low.const, e.high.const
        if kind == "exact":
            self.context.error(e.place, "an exact key needs a single value")
        elif kind not in ("range", ""):
            self.context.error(e.place, f"a range cannot be matched by a key of kind {kind}")
        elif isinstance(low, int) and isinstance(high, int) and low > high:
            self.context.error(e.place, "the range is empty")

    def _value_set(self, e: ast.Expr, element: Type, want: Type, kind: str) -> None:
        if kind:
            self.context.error(e.place, "a value_set cannot be a key")
        elif not self.conversions.same(element, want):
            fields = tuple(element.fields.values()) if isinstance(element, Composite) else ()
            if fields != (want,):
                self.context.error(e.place, f"this value_set holds {element}, not {want}")
