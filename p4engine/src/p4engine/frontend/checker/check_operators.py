"""Operators: the types of their operands and results, and their values where these are known."""

from __future__ import annotations

from p4engine.frontend import ast, fold
from p4engine.frontend.checker.check_constructors import known_at_instantiation
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker, ExpressionRules
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.fold import FoldError
from p4engine.frontend.types import (
    BOOL,
    INT,
    INVALID,
    STRING,
    UNKNOWN,
    Bits,
    Composite,
    EnumType,
    ExternType,
    NewType,
    Stack,
    Tuple,
    Type,
    TypeVar,
    has_dots,
    number_type,
    underlying,
)


class OperatorChecker:
    """The rules for slices, unary and binary operators, casts, ?:."""

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
            ast.Slice: self._slice,
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.Cast: self._cast,
            ast.Ternary: self._ternary,
        }

    def _slice(self, e: ast.Slice) -> Type:
        base = self.expressions.value(e.base)
        high = self.expressions.constant(e.high, None, "a bound of a slice")
        low = self.expressions.constant(e.low, None, "a bound of a slice")
        if base == UNKNOWN or high is None or low is None:
            return UNKNOWN
        under = number_type(base)
        if base == INT and e.base.const is not None and isinstance(high, int):
            under = Bits(max(high + 1, 1))
        if not isinstance(under, Bits):
            return self.context.error(
                e.place, f"bits can be taken of bit<> and int<>, not of {base}"
            )
        if not (isinstance(high, int) and isinstance(low, int)):
            return self.context.error(e.place, "the bounds of a slice must be numbers")
        if low < 0 or high < low or high >= under.width:
            return self.context.error(e.place, f"[{high}:{low}] is not within {under}")
        if isinstance(e.base.const, int):
            e.const = (e.base.const >> low) & ((1 << (high - low + 1)) - 1)
        return Bits(high - low + 1)

    def _unary(self, e: ast.Unary) -> Type:
        operand = self.expressions.value(e.operand)
        if operand == UNKNOWN:
            return UNKNOWN
        if e.op == "!":
            if operand != BOOL:
                return self.context.error(e.place, f"'!' needs a bool, not {operand}")
            result: Type = BOOL
        else:
            result = number_type(operand)
            if not isinstance(result, Bits) and (result != INT or e.op == "~"):
                if result == INT:
                    return self.context.error(e.place, "'~' needs an operand with a width")
                return self.context.error(e.place, f"'{e.op}' needs a number, not {operand}")
        if e.operand.const is not None:
            e.const = fold.unary(e.op, e.operand.const, underlying(result))
        return result

    def _binary(self, e: ast.Binary) -> Type:
        left, right = self.expressions.value(e.left), self.expressions.value(e.right)
        if UNKNOWN in (left, right):
            return UNKNOWN
        op = e.op
        if op in ("&&", "||"):
            for side in (e.left, e.right):
                if side.type != BOOL:
                    return self.context.error(side.place, f"'{op}' needs bools, not {side.type}")
            if e.left.const is not None:
                if (op == "&&") == (e.left.const is False):
                    e.const = e.left.const
                elif e.right.const is not None:
                    e.const = e.right.const
            return BOOL
        if op in ("==", "!="):
            return self._equality(e)
        if op in ("<<", ">>"):
            return self._shift(e)
        if op == "++":
            return self._concat(e)
        if isinstance(left, EnumType) and left.base is not None:
            left = e.left.type = left.base
        if isinstance(right, EnumType) and right.base is not None:
            right = e.right.type = right.base
        for side in (e.left, e.right):
            if isinstance(side.type, NewType):
                return self.context.error(
                    side.place, f"'{op}' is not defined for {side.type}; cast to its type first"
                )
            if side.type != INT and not isinstance(side.type, Bits):
                return self.context.error(side.place, f"'{op}' needs numbers, not {side.type}")
        if left == INT and right != INT:
            self.conversions.coerce(e.left, right)
            left = e.left.type
        elif right == INT and left != INT:
            self.conversions.coerce(e.right, left)
            right = e.right.type
        if left != right:
            return self.context.error(
                e.place,
                f"the operands of '{op}' have different types, {left} and {right};"
                " a cast is needed",
            )
        under = underlying(left)
        if op in ("/", "%") and isinstance(under, Bits) and under.signed:
            return self.context.error(e.place, f"'{op}' is not defined for signed numbers")
        # The specification wants compile-time values to divide; BMv2 also divides at run time.
        if op in ("/", "%") and e.right.const == 0:
            return self.context.error(e.right.place, "division by zero")
        result = BOOL if op in ("<", ">", "<=", ">=") else left
        return self._fold(e, under, result)

    def _fold(self, e: ast.Binary, under: Type, result: Type) -> Type:
        if e.left.const is not None and e.right.const is not None:
            try:
                e.const = fold.binary(e.op, e.left.const, e.right.const, under)
            except FoldError as error:
                return self.context.error(e.place, str(error))
        return result

    def _equality(self, e: ast.Binary) -> Type:
        left, right = e.left.type, e.right.type
        whole = Composite | Tuple | Stack
        if isinstance(e.right, ast.ListExpr | ast.StructExpr) and isinstance(left, whole):
            self.conversions.coerce(e.right, left)
        elif isinstance(e.left, ast.ListExpr | ast.StructExpr) and isinstance(right, whole):
            self.conversions.coerce(e.left, right)
        elif right == INVALID:
            self.conversions.coerce(e.right, left)
        elif left == INVALID:
            self.conversions.coerce(e.left, right)
        elif left == INT and right != INT:
            if not isinstance(number_type(right), Bits):
                return self.context.error(e.place, f"{left} cannot be compared with {right}")
            self.conversions.coerce(e.left, number_type(right))
        elif right == INT and left != INT:
            if not isinstance(number_type(left), Bits):
                return self.context.error(e.place, f"{left} cannot be compared with {right}")
            self.conversions.coerce(e.right, number_type(left))
        left, right = e.left.type, e.right.type
        if UNKNOWN in (left, right):
            return UNKNOWN
        if not self.conversions.same(number_type(left), number_type(right)):
            return self.context.error(e.place, f"{left} cannot be compared with {right}")
        if left == STRING or isinstance(left, ExternType):
            return self.context.error(e.place, f"values of {left} cannot be compared")
        if e.left.const is not None and e.right.const is not None:
            e.const = (e.left.const == e.right.const) == (e.op == "==")
        return BOOL

    def _shift(self, e: ast.Binary) -> Type:
        left, right = e.left.type, e.right.type
        under = number_type(left)
        if left != INT and not isinstance(under, Bits):
            return self.context.error(e.left.place, f"'{e.op}' needs a number, not {left}")
        amount = number_type(right)
        if right != INT and not isinstance(amount, Bits):
            return self.context.error(e.right.place, f"a shift needs a number, not {right}")
        if isinstance(amount, Bits) and amount.signed:
            return self.context.error(e.right.place, "the amount of a shift must be unsigned")
        by = e.right.const
        assert by is None or isinstance(by, int)
        if right == INT and by is not None and by < 0:
            return self.context.error(e.right.place, "shift by a negative amount")
        if left == INT and by is None:
            return self.context.error(
                e.left.place, "a number that is shifted by a variable amount needs a width"
            )
        limit = under.width if isinstance(under, Bits) else 0
        kept = isinstance(under, Bits) and under.signed and e.op == ">>"  # the sign remains
        if by is not None and by >= limit > 0 and not kept:
            self.context.warning(e.place, f"shifting {left} by {by} leaves nothing of it")
        return self._fold(e, under, under if isinstance(left, EnumType) else left)

    def _concat(self, e: ast.Binary) -> Type:
        if e.left.type == e.right.type == STRING:
            if isinstance(e.left.const, str) and isinstance(e.right.const, str):
                e.const = e.left.const + e.right.const
            return STRING
        parts = []
        for side in (e.left, e.right):
            side_type = number_type(side.type)
            if side.type == INT:
                return self.context.error(side.place, "'++' needs operands with a width")
            if not isinstance(side_type, Bits):
                return self.context.error(side.place, f"'++' needs numbers, not {side.type}")
            parts.append(side_type)
        left, right = parts
        result = Bits(left.width + right.width, left.signed)
        if isinstance(e.left.const, int) and isinstance(e.right.const, int):
            low = e.right.const & ((1 << right.width) - 1)
            e.const = result.wrap((e.left.const << right.width) | low)
        return result

    def _cast(self, e: ast.Cast) -> Type:
        target = self.types.resolve(e.target)
        have = self.expressions.value(e.operand)
        if UNKNOWN in (target, have):
            return target
        if isinstance(e.operand, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.DontCare):
            self.conversions.coerce(e.operand, target)
            e.const = e.operand.const
            return target
        if have == target:
            e.const = e.operand.const
            return target
        a, b = underlying(have), underlying(target)
        const = e.operand.const
        good = (
            (isinstance(b, Bits) and (have == INT or isinstance(a, Bits) and _castable(a, b)))
            or (b == BOOL and (a == Bits(1) or have == INT))
            or (a == BOOL and b == Bits(1))
            or (target == INT and isinstance(a, Bits) and const is not None)
            or (a == b)
            or (isinstance(a, Tuple) and isinstance(b, Tuple | Composite))
        )
        if isinstance(target, TypeVar) or isinstance(have, TypeVar):
            good = True
        if not good:
            return self.context.error(e.place, f"{have} cannot be cast to {target}")
        if const is not None and not isinstance(const, ast.Symbol):
            if isinstance(const, int) and isinstance(b, Bits):
                e.const = b.wrap(int(const))
            elif isinstance(const, int) and b == BOOL:
                if const not in (0, 1):
                    return self.context.error(e.place, "only 0 and 1 can be cast to bool")
                e.const = bool(const)
            else:
                e.const = const
            if have == INT and isinstance(b, Bits):
                e.operand.type, e.operand.const = b, e.const
        return target

    def _ternary(self, e: ast.Ternary) -> Type:
        self.expressions.value(e.condition, BOOL)
        yes, no = self.expressions.value(e.yes), self.expressions.value(e.no)
        if UNKNOWN in (yes, no):
            return UNKNOWN
        if any(map(has_dots, (yes, no))) and all(t == INT or has_dots(t) for t in (yes, no)):
            return self.context.error(e.place, "one of the results of '?:' needs a type")
        if yes == INT and no != INT:
            self.conversions.coerce(e.yes, no)
        elif no == INT and yes != INT:
            self.conversions.coerce(e.no, yes)
        elif yes != no:
            if isinstance(e.yes, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.DontCare):
                self.conversions.coerce(e.yes, no)
            else:
                self.conversions.coerce(e.no, yes, "both results must have one type; expected")
        if e.condition.const is not None:
            e.const = (e.yes if e.condition.const else e.no).const
        elif e.yes.type == INT and not known_at_instantiation(e.condition):
            return self.context.error(e.place, "one of the results of '?:' needs a width")
        return e.yes.type


def _castable(a: Bits, b: Bits) -> bool:
    """A cast changes the width or the sign, not both."""
    return a.width == b.width or a.signed == b.signed
