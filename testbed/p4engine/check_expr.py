"""Types of expressions, and the values of those known at compile time.

`expr` gives every expression its type; `coerce` then fits it to what the context wants: integer
literals take a width, lists become structs. Operands are fitted to each other, never the result to
the operands.
"""

from __future__ import annotations

from . import ast, fold
from .diagnostics import Diagnostics, Place
from .fold import FoldError, Symbol
from .types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    INVALID,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    ListOf,
    NewType,
    SetOf,
    Special,
    Stack,
    StructLiteral,
    Tuple,
    Type,
    TypeVar,
    Varbit,
    is_header,
    is_union,
    underlying,
    width_of,
)

ARITHMETIC = {"+", "-", "*", "/", "%", "|+|", "|-|"}
BITWISE = {"&", "|", "^"}
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


class ExpressionChecker:
    """Needs from the other parts: self.scope, self.globals, self.errors, resolve_type,
    check_call."""

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

    # ---- expressions ----

    def expr(self, e: ast.Expr, want: Type | None = None) -> Type:
        """Check `e`; with `want`, fit it to that type. Returns its type."""
        method = getattr(self, "_x_" + type(e).__name__, None)
        if method is None:
            e.type = self.error(e.place, "this cannot stand here")
        else:
            e.type = method(e) or UNKNOWN
        if want is not None:
            if isinstance(e.type, Special):
                return self.error(e.place, f"{e.type} cannot be used as a value")
            if not self.coerce(e, want):
                return UNKNOWN
        return e.type

    def value(self, e: ast.Expr, want: Type | None = None) -> Type:
        """As expr, but `e` must be a value (no table, action, extern...)."""
        got = self.expr(e, want)
        if isinstance(got, Special | BlockType | ExternType) or got == VOID:
            e.type = self.error(e.place, f"{got} cannot be used as a value")
            return e.type
        return got

    def constant(self, e: ast.Expr, want: Type | None, what: str):
        """The compile-time value of `e`, or None after reporting."""
        if self.value(e, want) == UNKNOWN:
            return None
        if e.const is None:
            self.error(e.place, f"{what} must be known at compile time")
        return e.const

    def _x_Number(self, e: ast.Number) -> Type:
        e.const = e.value
        return INT if e.width is None else Bits(e.width, e.signed)

    def _x_Bool(self, e: ast.Bool) -> Type:
        e.const = e.value
        return BOOL

    def _x_String(self, e: ast.String) -> Type:
        e.const = e.value
        return STRING

    def _x_DontCare(self, e: ast.DontCare) -> Type:
        return DONT_CARE

    def _x_InvalidHeader(self, e: ast.InvalidHeader) -> Type:
        return INVALID

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

    def _x_Name(self, e: ast.Name) -> Type:
        decl = self.lookup(e.name, e.absolute, e.place)
        e.decl = decl
        if decl is None:
            return UNKNOWN
        if isinstance(decl, list):
            return Special("function", decl)
        if isinstance(decl, ast.Constant):
            e.const = decl.const
            return decl.type or UNKNOWN
        if isinstance(decl, ast.Variable | ast.Parameter | ast.Instance | ast.ValueSet):
            return decl.type or UNKNOWN
        if isinstance(decl, ast.Table):
            return Special("a table", decl)
        if isinstance(decl, ast.Action):
            return Special("an action", decl)
        if isinstance(decl, ast.State):
            return Special("a state", decl)
        if isinstance(decl, ast.Parser | ast.Control | ast.Package):
            return Special("a type", BlockType(decl))
        return Special("a type", decl.type)

    def _x_TypeExpr(self, e: ast.TypeExpr) -> Type:
        return Special("a type", self.resolve_type(e.target))

    def _x_Member(self, e: ast.Member) -> Type:
        base = self.expr(e.base)
        if base == UNKNOWN:
            return UNKNOWN
        if isinstance(base, Special):
            return self._special_member(e, base)
        under = underlying(base)
        if isinstance(under, Composite | StructLiteral) and e.name in under.fields:
            if isinstance(e.base.const, dict):
                e.const = e.base.const.get(e.name)
            elif isinstance(e.base.const, list):
                e.const = e.base.const[list(under.fields).index(e.name)]
            return under.fields[e.name]
        if isinstance(base, Stack):
            stack = is_header(base.element) or is_union(base.element)
            if e.name != "size" and not stack:
                return self.error(e.place, f"an array has no member '{e.name}'")
            if e.name in ("next", "last"):
                if not self.in_parser:
                    return self.error(e.place, f".{e.name} can only be used in a parser")
                return base.element
            if e.name == "lastIndex":
                if not self.in_parser:
                    return self.error(e.place, ".lastIndex can only be used in a parser")
                return Bits(32)
            if e.name == "size":
                e.const = base.size
                return Bits(32)
            if e.name in ("push_front", "pop_front"):
                return Special("a method", None)
        if isinstance(base, Composite):
            if e.name in ("isValid", "setValid", "setInvalid") and base.kind != "struct":
                return Special("a method", None)
            if e.name in ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"):
                return Special("a method", None)
            names = list(base.fields)
            if base.kind != "struct":
                names += ["isValid", "setValid", "setInvalid"]
            return self.error(e.place, f"{base} has no field '{e.name}'{self.near(e.name, names)}")
        sizes = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
        if (isinstance(under, Bits | Varbit) or base == BOOL) and e.name in sizes:
            return Special("a method", None)
        if isinstance(base, ExternType):
            methods = [
                m for m in base.decl.methods if m.name == e.name and m.name != base.decl.name
            ]
            if methods:
                return Special("a method", methods)
            names = {m.name for m in base.decl.methods}
            return self.error(e.place, f"{base} has no method '{e.name}'{self.near(e.name, names)}")
        if isinstance(base, BlockType) and e.name == "apply":
            return Special("a method", None)
        if isinstance(base, Stack):
            return self.error(e.place, f"a header stack has no member '{e.name}'")
        return self.error(e.place, f"{base} has no member '{e.name}'")

    def _special_member(self, e: ast.Member, base: Special) -> Type:
        if base.what == "a type":
            target = base.decl
            if isinstance(target, EnumType):
                if e.name not in target.members:
                    return self.error(
                        e.place,
                        f"enum {target} has no member '{e.name}'"
                        f"{self.near(e.name, target.members)}",
                    )
                number = target.members[e.name]
                e.const = number if target.base is not None else Symbol(e.name, number)
                return target
            if target == ERROR:
                if e.name not in self.errors:
                    return self.error(
                        e.place, f"error.{e.name} is not declared{self.near(e.name, self.errors)}"
                    )
                e.const = Symbol(e.name, self.errors[e.name])
                return ERROR
            if isinstance(target, BlockType) and e.name == "apply":
                return Special("a method", None)
            if e.name in ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"):
                return Special("a method", None)
            return self.error(e.place, f"the type {target} has no member '{e.name}'")
        if base.what == "a table" and e.name == "apply":
            return Special("a method", None)
        if base.what == "the result of apply":
            if e.name in ("hit", "miss"):
                return BOOL
            if e.name == "action_run":
                return Special("action_run", base.decl)
            return self.error(e.place, f"apply() gives hit, miss and action_run, not '{e.name}'")
        return self.error(e.place, f"{base.what} has no member '{e.name}'")

    def _x_Index(self, e: ast.Index) -> Type:
        base = self.value(e.base)
        index = self.value(e.index)
        if UNKNOWN in (base, index):
            return UNKNOWN
        if isinstance(base, Tuple):
            if e.index.const is None:
                return self.error(
                    e.index.place, "the index of a tuple must be known at compile time"
                )
            if not 0 <= e.index.const < len(base.elements):
                return self.error(
                    e.index.place,
                    f"index {e.index.const} is outside of {len(base.elements)} elements",
                )
            if isinstance(e.base.const, list):
                e.const = e.base.const[e.index.const]
            return base.elements[e.index.const]
        if not isinstance(base, Stack):
            return self.error(e.place, f"{base} cannot be indexed")
        if index == INT:
            self.coerce(e.index, Bits(32))
        elif not isinstance(underlying(index), Bits):
            return self.error(e.index.place, f"an index must be a number, not {index}")
        if e.index.const is not None and not 0 <= e.index.const < base.size:
            return self.error(
                e.index.place, f"index {e.index.const} is outside of a stack of {base.size}"
            )
        return base.element

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

    def _x_ListExpr(self, e: ast.ListExpr) -> Type:
        types = tuple(self.value(i) for i in e.items)
        if all(i.const is not None for i in e.items) and not e.dots:
            e.const = [i.const for i in e.items]
        return Tuple(types)

    def _x_StructExpr(self, e: ast.StructExpr) -> Type:
        for _, value in e.fields:
            self.value(value)
        if e.target is not None:
            target = self.resolve_type(e.target)
            if target == UNKNOWN:
                return UNKNOWN
            if not isinstance(target, Composite):
                return self.error(e.place, f"{target} has no fields")
            e.type = StructLiteral({n: v.type for n, v in e.fields})
            self._coerce_struct(e, target)
            return target
        return StructLiteral({n: v.type for n, v in e.fields})

    def _x_Mask(self, e: ast.Mask) -> Type:
        return self._set(e, e.value, e.mask)

    def _x_Range(self, e: ast.Range) -> Type:
        return self._set(e, e.low, e.high)

    def _set(self, e: ast.Expr, a: ast.Expr, b: ast.Expr) -> Type:
        left, right = self.value(a), self.value(b)
        if UNKNOWN in (left, right):
            return UNKNOWN
        if left == INT and right != INT:
            self.coerce(a, right)
        elif right == INT and left != INT:
            self.coerce(b, left)
        elif not self.same(left, right):
            return self.error(e.place, f"the two parts have different types, {left} and {right}")
        return SetOf(a.type)

    def _x_Call(self, e: ast.Call) -> Type:
        return self.check_call(e)

    # ---- left values ----

    def left_value(self, e: ast.Expr) -> bool:
        """Report unless `e` can be assigned to."""
        if e.type == UNKNOWN:
            return False
        if isinstance(e, ast.Name):
            decl = e.decl
            if isinstance(decl, ast.Variable):
                return True
            if isinstance(decl, ast.Parameter):
                if decl.direction in ("out", "inout"):
                    return True
                if isinstance(decl.type, ExternType):
                    return True
                kind = (
                    "an 'in' parameter"
                    if decl.direction == "in"
                    else "a parameter without direction"
                )
                self.error(e.place, f"'{e.name}' is {kind} and cannot be changed")
                return False
            what = "a constant" if isinstance(decl, ast.Constant) else "no variable"
            self.error(e.place, f"'{e.name}' is {what} and cannot be changed")
            return False
        if isinstance(e, ast.Member):
            if isinstance(e.base.type, Stack) and e.name in ("lastIndex", "size"):
                self.error(e.place, f".{e.name} cannot be changed")
                return False
            if isinstance(e.base.type, Special):
                self.error(e.place, "this cannot be assigned to")
                return False
            return self.left_value(e.base)
        if isinstance(e, ast.Index):
            if isinstance(e.base.type, Tuple):
                self.error(e.place, "elements of a tuple cannot be changed")
                return False
            return self.left_value(e.base)
        if isinstance(e, ast.Slice):
            return self.left_value(e.base)
        self.error(e.place, "this cannot be assigned to")
        return False

    def bits_of(self, type_: Type) -> int | None:
        return width_of(type_)
