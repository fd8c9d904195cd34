"""Operators: the types of their operands and results, and their values where these are known."""

from __future__ import annotations

from p4engine.frontend import ast, fold
from p4engine.frontend.checker.check_fit import FitChecker
from p4engine.frontend.fold import FoldError, Symbol
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
    StructLiteral,
    Tuple,
    Type,
    TypeVar,
    underlying,
)


class OperatorChecker(FitChecker):
    """Slices, unary and binary operators, casts, ?:."""

    def _x_Slice(self, e: ast.Slice) -> Type:
        base = self.value(e.base)
        high = self.constant(e.high, None, "a bound of a slice")
        low = self.constant(e.low, None, "a bound of a slice")
        if base == UNKNOWN or high is None or low is None:
            return UNKNOWN
        under = underlying(base)
        if base == INT and e.base.const is not None and isinstance(high, int):
            under = Bits(max(high + 1, 1))
        if not isinstance(under, Bits):
            return self.error(e.place, f"bits can be taken of bit<> and int<>, not of {base}")
        if not (isinstance(high, int) and isinstance(low, int)):
            return self.error(e.place, "the bounds of a slice must be numbers")
        if low < 0 or high < low or high >= under.width:
            return self.error(e.place, f"[{high}:{low}] is not within {under}")
        if e.base.const is not None:
            e.const = (e.base.const >> low) & ((1 << (high - low + 1)) - 1)
        return Bits(high - low + 1)

    def _x_Unary(self, e: ast.Unary) -> Type:
        operand = self.value(e.operand)
        if operand == UNKNOWN:
            return UNKNOWN
        if e.op == "!":
            if operand != BOOL:
                return self.error(e.place, f"'!' needs a bool, not {operand}")
            result: Type = BOOL
        else:
            result = underlying(operand) if isinstance(operand, EnumType) else operand
            if not isinstance(underlying(result), Bits) and (result != INT or e.op == "~"):
                if result == INT:
                    return self.error(e.place, "'~' needs an operand with a width")
                return self.error(e.place, f"'{e.op}' needs a number, not {operand}")
        if e.operand.const is not None:
            e.const = fold.unary(e.op, e.operand.const, underlying(result))
        return result

    def _x_Binary(self, e: ast.Binary) -> Type:
        left, right = self.value(e.left), self.value(e.right)
        if UNKNOWN in (left, right):
            return UNKNOWN
        op = e.op
        if op in ("&&", "||"):
            for side in (e.left, e.right):
                if side.type != BOOL:
                    return self.error(side.place, f"'{op}' needs bools, not {side.type}")
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
            if side.type != INT and not isinstance(underlying(side.type), Bits):
                return self.error(side.place, f"'{op}' needs numbers, not {side.type}")
        if left == INT and right != INT:
            self.coerce(e.left, right)
            left = e.left.type
        elif right == INT and left != INT:
            self.coerce(e.right, left)
            right = e.right.type
        if left != right:
            return self.error(
                e.place,
                f"the operands of '{op}' have different types, {left} and {right};"
                " a cast is needed",
            )
        if isinstance(left, NewType) and op not in ("<", ">", "<=", ">="):
            return self.error(e.place, f"'{op}' is not defined for {left}; cast to its type first")
        under = underlying(left)
        if op in ("/", "%") and isinstance(under, Bits) and under.signed:
            return self.error(e.place, f"'{op}' is not defined for signed numbers")
        if op in ("/", "%") and left != INT and e.right.const is None:
            # The specification wants both compile-time values; BMv2 divides at run time.
            pass
        if op in ("/", "%") and e.right.const == 0:
            return self.error(e.right.place, "division by zero")
        result = BOOL if op in ("<", ">", "<=", ">=") else left
        return self._fold(e, under, result)

    def _fold(self, e: ast.Binary, under: Type, result: Type) -> Type:
        if e.left.const is not None and e.right.const is not None:
            try:
                e.const = fold.binary(e.op, e.left.const, e.right.const, under)
            except FoldError as error:
                return self.error(e.place, str(error))
        return result

    def _equality(self, e: ast.Binary) -> Type:
        left, right = e.left.type, e.right.type
        if isinstance(left, Tuple | StructLiteral) and isinstance(right, Composite | Tuple | Stack):
            if isinstance(e.left, ast.ListExpr | ast.StructExpr):
                self.coerce(e.left, right)
        elif isinstance(right, Tuple | StructLiteral) and isinstance(
            left, Composite | Tuple | Stack
        ):
            if isinstance(e.right, ast.ListExpr | ast.StructExpr):
                self.coerce(e.right, left)
        elif right == INVALID:
            self.coerce(e.right, left)
        elif left == INVALID:
            self.coerce(e.left, right)
        elif left == INT and right != INT:
            if not isinstance(underlying(right), Bits):
                return self.error(e.place, f"{left} cannot be compared with {right}")
            self.coerce(e.left, underlying(right))
        elif right == INT and left != INT:
            if not isinstance(underlying(left), Bits):
                return self.error(e.place, f"{left} cannot be compared with {right}")
            self.coerce(e.right, underlying(left))
        left, right = e.left.type, e.right.type
        if UNKNOWN in (left, right):
            return UNKNOWN
        if not self.same(left, right):
            same_base = underlying(left) == underlying(right) and (
                isinstance(left, EnumType) != isinstance(right, EnumType)
                or isinstance(left, Bits) != isinstance(right, Bits)
            )
            if not same_base:
                return self.error(e.place, f"{left} cannot be compared with {right}")
        if left == STRING or isinstance(left, ExternType):
            return self.error(e.place, f"values of {left} cannot be compared")
        if e.left.const is not None and e.right.const is not None:
            e.const = (e.left.const == e.right.const) == (e.op == "==")
        return BOOL

    def _shift(self, e: ast.Binary) -> Type:
        left, right = e.left.type, e.right.type
        under = underlying(left)
        if left != INT and not isinstance(under, Bits):
            return self.error(e.left.place, f"'{e.op}' needs a number, not {left}")
        amount = underlying(right)
        if right != INT and not isinstance(amount, Bits):
            return self.error(e.right.place, f"a shift needs a number, not {right}")
        if isinstance(amount, Bits) and amount.signed:
            return self.error(e.right.place, "the amount of a shift must be unsigned")
        if right == INT and e.right.const is not None and e.right.const < 0:
            return self.error(e.right.place, "shift by a negative amount")
        if left == INT and e.right.const is None:
            return self.error(
                e.left.place, "a number that is shifted by a variable amount needs a width"
            )
        if (
            isinstance(under, Bits)
            and e.right.const is not None
            and e.right.const >= under.width > 0
        ) and (e.op == "<<" or not under.signed):
            self.diagnostics.warning(
                e.place, f"shifting {left} by {e.right.const} leaves nothing of it"
            )
        return self._fold(e, under, under if isinstance(left, EnumType) else left)

    def _concat(self, e: ast.Binary) -> Type:
        for side in (e.left, e.right):
            if side.type == INT:
                return self.error(side.place, "'++' needs operands with a width")
            if not isinstance(underlying(side.type), Bits):
                return self.error(side.place, f"'++' needs numbers, not {side.type}")
        left, right = underlying(e.left.type), underlying(e.right.type)
        result = Bits(left.width + right.width, left.signed)
        if e.left.const is not None and e.right.const is not None:
            low = e.right.const & ((1 << right.width) - 1)
            e.const = result.wrap((e.left.const << right.width) | low)
        return result

    def _x_Cast(self, e: ast.Cast) -> Type:
        target = self.resolve_type(e.target)
        have = self.value(e.operand)
        if UNKNOWN in (target, have):
            return target
        if isinstance(e.operand, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.DontCare):
            self.coerce(e.operand, target)
            e.const = e.operand.const
            return target
        if have == target:
            e.const = e.operand.const
            return target
        a, b = underlying(have), underlying(target)
        const = e.operand.const
        good = (
            (isinstance(b, Bits) and (have == INT or isinstance(a, Bits)))
            or (b == BOOL and (a == Bits(1) or have == INT))
            or (a == BOOL and b == Bits(1))
            or (target == INT and isinstance(a, Bits) and const is not None)
            or (a == b)
            or (isinstance(a, Tuple) and isinstance(b, Tuple | Composite))
        )
        if isinstance(target, TypeVar) or isinstance(have, TypeVar):
            good = True
        if not good:
            return self.error(e.place, f"{have} cannot be cast to {target}")
        if const is not None and not isinstance(const, Symbol):
            if isinstance(b, Bits):
                e.const = b.wrap(int(const))
            elif b == BOOL:
                if int(const) not in (0, 1):
                    return self.error(e.place, "only 0 and 1 can be cast to bool")
                e.const = bool(const)
            else:
                e.const = const
            if have == INT:
                e.operand.type = target if isinstance(target, Bits) else e.operand.type
                if isinstance(b, Bits):
                    e.operand.type, e.operand.const = b, e.const
        return target

    def _x_Ternary(self, e: ast.Ternary) -> Type:
        self.value(e.condition, BOOL)
        yes, no = self.value(e.yes), self.value(e.no)
        if UNKNOWN in (yes, no):
            return UNKNOWN
        if yes == INT and no != INT:
            self.coerce(e.yes, no)
        elif no == INT and yes != INT:
            self.coerce(e.no, yes)
        elif yes != no:
            if isinstance(e.yes, ast.ListExpr | ast.StructExpr | ast.InvalidHeader):
                self.coerce(e.yes, no)
            else:
                self.coerce(e.no, yes, "both results must have one type; expected")
        if e.condition.const is not None:
            e.const = (e.yes if e.condition.const else e.no).const
        elif e.yes.type == INT:
            return self.error(e.place, "one of the results of '?:' needs a width")
        return e.yes.type
