"""Literals, names, members, elements and operators: their types, and their values where known."""

from __future__ import annotations

from p4engine.frontend import ast, fold
from p4engine.frontend.checker.check_types import resolve
from p4engine.frontend.checker.check_values import (
    check_value,
    coerce,
    coerce_struct,
    constant,
    known_at_instantiation,
    list_value,
    same_type,
)
from p4engine.frontend.checker.checker import Checker, ExpressionRules
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.fold import FoldError
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    INVALID,
    STRING,
    UNKNOWN,
    ActionMeant,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    FunctionsMeant,
    NewType,
    SetOf,
    Special,
    Stack,
    StructLiteral,
    TableMeant,
    Tuple,
    Type,
    TypeMeant,
    TypeVar,
    Varbit,
    has_dots,
    is_header,
    is_union,
    number_type,
    underlying,
)

SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
VALIDITY = ("isValid", "setValid", "setInvalid")

# ---- literals: numbers and the like, lists, structs, and sets of values (masks and ranges) ----


def _number(c: Checker, e: ast.Number) -> Type:
    e.const = e.value
    return INT if e.width is None else Bits(e.width, e.signed)


def _bool(c: Checker, e: ast.Bool) -> Type:
    e.const = e.value
    return BOOL


def _string(c: Checker, e: ast.String) -> Type:
    e.const = e.value
    return STRING


def _invalid_header(c: Checker, e: ast.InvalidHeader) -> Type:
    e.const = ast.INVALID_HEADER
    return INVALID


def _list(c: Checker, e: ast.ListExpr) -> Type:
    types = tuple(check_value(c, i) for i in e.items)
    e.const = list_value(e)
    return Tuple(types)


def _struct(c: Checker, e: ast.StructExpr) -> Type:
    for _, value in e.fields:
        check_value(c, value)
    literal = StructLiteral({n: v.type for n, v in e.fields})
    if e.target is None:
        return literal
    target = resolve(c, e.target)
    if target == UNKNOWN:
        return UNKNOWN
    if not isinstance(target, Composite):
        return c.error(e.place, f"{target} has no fields")
    e.type = literal
    coerce_struct(c, e, target)
    return target


def _mask(c: Checker, e: ast.Mask) -> Type:
    return _set(c, e, e.value, e.mask)


def _range(c: Checker, e: ast.Range) -> Type:
    return _set(c, e, e.low, e.high)


def _set(c: Checker, e: ast.Expr, a: ast.Expr, b: ast.Expr) -> Type:
    left, right = check_value(c, a), check_value(c, b)
    if UNKNOWN in (left, right):
        return UNKNOWN
    for side in (a, b):
        if not isinstance(underlying(side.type), Bits) and side.type != INT:
            return c.error(side.place, f"a number is needed, not {side.type}")
    if left != right:  # a serializable enum becomes a number where the other part is one
        left, right = number_type(left), number_type(right)
    if left == INT and right != INT:
        coerce(c, a, right)
        left = a.type
    elif right == INT and left != INT:
        coerce(c, b, left)
    elif not same_type(left, right):
        return c.error(e.place, f"the two parts have different types, {left} and {right}")
    return SetOf(left)


# ---- names ----


_TYPED = ast.Constant | ast.Variable | ast.Parameter | ast.Instance | ast.ValueSet


def _name(c: Checker, e: ast.Name) -> Type:
    decl = e.decl = c.lookup(e.name, e.absolute, e.place)
    if decl is None:
        return UNKNOWN
    if isinstance(decl, list):
        return FunctionsMeant("function", decl)
    if isinstance(decl, ast.Constant):
        e.const = decl.const
    if isinstance(decl, _TYPED):
        return UNKNOWN if decl.type is ast.UNCHECKED else decl.type
    if isinstance(decl, ast.Table):
        return TableMeant("a table", decl)
    if isinstance(decl, ast.Action):
        return ActionMeant("an action", decl)
    if isinstance(decl, ast.Parser | ast.Control | ast.Package):
        return TypeMeant("a type", BlockType(decl))
    return TypeMeant("a type", decl.type)


def _type(c: Checker, e: ast.TypeExpr) -> Type:
    return TypeMeant("a type", resolve(c, e.target))


# ---- members ----


def _member(c: Checker, e: ast.Member) -> Type:
    base = c.check(e.base)
    if base == UNKNOWN:
        return UNKNOWN
    if isinstance(base, Special):
        return _special_member(c, e, base)
    under = underlying(base)
    if e.called and e.name in (*SIZES, *VALIDITY) and isinstance(base, Composite):
        under = base  # a field may have the name of a method, but cannot be called
    elif isinstance(under, Composite | StructLiteral) and e.name in under.fields:
        if isinstance(e.base.const, dict):
            e.const = e.base.const.get(e.name)
        elif isinstance(e.base.const, list):
            e.const = e.base.const[list(under.fields).index(e.name)]
        return under.fields[e.name]
    if isinstance(base, Stack):
        return _stack_member(c, e, base)
    if isinstance(base, Composite):
        names = list(base.fields)
        if base.kind != "struct":
            names += VALIDITY
        if e.name in SIZES or (e.name in VALIDITY and base.kind != "struct"):
            return Special("a method")
        return c.error(e.place, f"{base} has no field '{e.name}'{did_you_mean(e.name, names)}")
    if e.name in SIZES and (isinstance(under, Bits | Varbit | Tuple) or base == BOOL):
        return Special("a method")
    if isinstance(base, ExternType):
        methods = [m for m in base.decl.methods if m.name == e.name and m.name != base.decl.name]
        if methods:
            return FunctionsMeant("a method", methods)
        hint = did_you_mean(e.name, {m.name for m in base.decl.methods})
        return c.error(e.place, f"{base} has no method '{e.name}'{hint}")
    if isinstance(base, BlockType) and e.name == "apply":
        return Special("a method")
    return c.error(e.place, f"{base} has no member '{e.name}'")


def _stack_member(c: Checker, e: ast.Member, base: Stack) -> Type:
    if e.name == "size":
        e.const = base.size
        return Bits(32)
    if not (is_header(base.element) or is_union(base.element)):
        return c.error(e.place, f"an array has no member '{e.name}'")
    if e.name in ("next", "last", "lastIndex"):
        if not c.in_parser:
            return c.error(e.place, f".{e.name} can only be used in a parser")
        return Bits(32) if e.name == "lastIndex" else base.element
    if e.name in ("push_front", "pop_front", *SIZES):
        return Special("a method")
    return c.error(e.place, f"a header stack has no member '{e.name}'")


def _special_member(c: Checker, e: ast.Member, base: Special) -> Type:
    if isinstance(base, TypeMeant):
        return _type_member(c, e, base.type)
    if isinstance(base, TableMeant):
        if base.what == "a table" and e.name == "apply":
            return Special("a method")
        if base.what == "the result of apply":
            if e.name in ("hit", "miss"):
                return BOOL
            if e.name == "action_run":
                return TableMeant("action_run", base.decl)
            return c.error(e.place, f"apply() gives hit, miss and action_run, not '{e.name}'")
    return c.error(e.place, f"{base.what} has no member '{e.name}'")


def _type_member(c: Checker, e: ast.Member, target: Type) -> Type:
    if isinstance(target, EnumType):
        if e.name not in target.members:
            hint = did_you_mean(e.name, target.members)
            return c.error(e.place, f"enum {target} has no member '{e.name}'{hint}")
        number = target.members[e.name]
        e.const = number if target.base is not None else ast.Symbol(e.name, number)
        return target
    if target == ERROR:
        if e.name not in c.errors:
            hint = did_you_mean(e.name, c.errors)
            return c.error(e.place, f"error.{e.name} is not declared{hint}")
        e.const = ast.Symbol(e.name, c.errors[e.name])
        return ERROR
    if e.name in SIZES or (isinstance(target, BlockType) and e.name == "apply"):
        return Special("a method")
    return c.error(e.place, f"the type {target} has no member '{e.name}'")


# ---- elements ----


def _index(c: Checker, e: ast.Index) -> Type:
    base, index = check_value(c, e.base), check_value(c, e.index)
    if UNKNOWN in (base, index):
        return UNKNOWN
    if isinstance(base, Tuple):
        number = e.index.const
        if number is None:
            return c.error(e.index.place, "the index of a tuple must be known at compile time")
        if not isinstance(number, int):
            return c.error(e.index.place, f"an index must be a number, not {index}")
        if not 0 <= number < len(base.elements):
            return c.error(
                e.index.place, f"index {number} is outside of {len(base.elements)} elements"
            )
        if isinstance(e.base.const, list):
            e.const = e.base.const[number]
        return base.elements[number]
    if not isinstance(base, Stack):
        return c.error(e.place, f"{base} cannot be indexed")
    if isinstance(e.index.const, int) and e.index.const < 0:
        return c.error(e.index.place, f"index {e.index.const} is negative")
    if index == INT:
        coerce(c, e.index, Bits(32))
    elif not isinstance(number_type(index), Bits):
        return c.error(e.index.place, f"an index must be a number, not {index}")
    number = e.index.const
    if isinstance(number, int) and not 0 <= number < base.size:
        return c.error(e.index.place, f"index {number} is outside of a stack of {base.size}")
    if isinstance(e.base.const, list) and isinstance(number, int):
        e.const = e.base.const[number]
    return base.element


# ---- operators ----


def _slice(c: Checker, e: ast.Slice) -> Type:
    base = check_value(c, e.base)
    high = constant(c, e.high, None, "a bound of a slice")
    low = constant(c, e.low, None, "a bound of a slice")
    if base == UNKNOWN or high is None or low is None:
        return UNKNOWN
    under = number_type(base)
    if base == INT and e.base.const is not None and isinstance(high, int):
        under = Bits(max(high + 1, 1))
    if not isinstance(under, Bits):
        return c.error(e.place, f"bits can be taken of bit<> and int<>, not of {base}")
    if not (isinstance(high, int) and isinstance(low, int)):
        return c.error(e.place, "the bounds of a slice must be numbers")
    if low < 0 or high < low or high >= under.width:
        return c.error(e.place, f"[{high}:{low}] is not within {under}")
    if isinstance(e.base.const, int):
        e.const = (e.base.const >> low) & ((1 << (high - low + 1)) - 1)
    return Bits(high - low + 1)


def _unary(c: Checker, e: ast.Unary) -> Type:
    operand = check_value(c, e.operand)
    if operand == UNKNOWN:
        return UNKNOWN
    if e.op == "!":
        if operand != BOOL:
            return c.error(e.place, f"'!' needs a bool, not {operand}")
        result: Type = BOOL
    else:
        result = number_type(operand)
        if not isinstance(result, Bits) and (result != INT or e.op == "~"):
            if result == INT:
                return c.error(e.place, "'~' needs an operand with a width")
            return c.error(e.place, f"'{e.op}' needs a number, not {operand}")
    if e.operand.const is not None:
        e.const = fold.unary(e.op, e.operand.const, underlying(result))
    return result


def _binary(c: Checker, e: ast.Binary) -> Type:
    left, right = check_value(c, e.left), check_value(c, e.right)
    if UNKNOWN in (left, right):
        return UNKNOWN
    op = e.op
    if op in ("&&", "||"):
        for side in (e.left, e.right):
            if side.type != BOOL:
                return c.error(side.place, f"'{op}' needs bools, not {side.type}")
        if e.left.const is not None:
            if (op == "&&") == (e.left.const is False):
                e.const = e.left.const
            elif e.right.const is not None:
                e.const = e.right.const
        return BOOL
    if op in ("==", "!="):
        return _equality(c, e)
    if op in ("<<", ">>"):
        return _shift(c, e)
    if op == "++":
        return _concat(c, e)
    if isinstance(left, EnumType) and left.base is not None:
        left = e.left.type = left.base
    if isinstance(right, EnumType) and right.base is not None:
        right = e.right.type = right.base
    for side in (e.left, e.right):
        if isinstance(side.type, NewType):
            return c.error(
                side.place, f"'{op}' is not defined for {side.type}; cast to its type first"
            )
        if side.type != INT and not isinstance(side.type, Bits):
            return c.error(side.place, f"'{op}' needs numbers, not {side.type}")
    if left == INT and right != INT:
        coerce(c, e.left, right)
        left = e.left.type
    elif right == INT and left != INT:
        coerce(c, e.right, left)
        right = e.right.type
    if left != right:
        return c.error(
            e.place,
            f"the operands of '{op}' have different types, {left} and {right}; a cast is needed",
        )
    under = underlying(left)
    if op in ("/", "%") and isinstance(under, Bits) and under.signed:
        return c.error(e.place, f"'{op}' is not defined for signed numbers")
    # The specification wants compile-time values to divide; BMv2 also divides at run time.
    if op in ("/", "%") and e.right.const == 0:
        return c.error(e.right.place, "division by zero")
    result = BOOL if op in ("<", ">", "<=", ">=") else left
    return _fold(c, e, under, result)


def _fold(c: Checker, e: ast.Binary, under: Type, result: Type) -> Type:
    if e.left.const is not None and e.right.const is not None:
        try:
            e.const = fold.binary(e.op, e.left.const, e.right.const, under)
        except FoldError as error:
            return c.error(e.place, str(error))
    return result


def _equality(c: Checker, e: ast.Binary) -> Type:
    left, right = e.left.type, e.right.type
    whole = Composite | Tuple | Stack
    if isinstance(e.right, ast.ListExpr | ast.StructExpr) and isinstance(left, whole):
        coerce(c, e.right, left)
    elif isinstance(e.left, ast.ListExpr | ast.StructExpr) and isinstance(right, whole):
        coerce(c, e.left, right)
    elif right == INVALID:
        coerce(c, e.right, left)
    elif left == INVALID:
        coerce(c, e.left, right)
    elif left == INT and right != INT:
        if not isinstance(number_type(right), Bits):
            return c.error(e.place, f"{left} cannot be compared with {right}")
        coerce(c, e.left, number_type(right))
    elif right == INT and left != INT:
        if not isinstance(number_type(left), Bits):
            return c.error(e.place, f"{left} cannot be compared with {right}")
        coerce(c, e.right, number_type(left))
    left, right = e.left.type, e.right.type
    if UNKNOWN in (left, right):
        return UNKNOWN
    if not same_type(number_type(left), number_type(right)):
        return c.error(e.place, f"{left} cannot be compared with {right}")
    if left == STRING or isinstance(left, ExternType):
        return c.error(e.place, f"values of {left} cannot be compared")
    if e.left.const is not None and e.right.const is not None:
        e.const = (e.left.const == e.right.const) == (e.op == "==")
    return BOOL


def _shift(c: Checker, e: ast.Binary) -> Type:
    left, right = e.left.type, e.right.type
    under = number_type(left)
    if left != INT and not isinstance(under, Bits):
        return c.error(e.left.place, f"'{e.op}' needs a number, not {left}")
    amount = number_type(right)
    if right != INT and not isinstance(amount, Bits):
        return c.error(e.right.place, f"a shift needs a number, not {right}")
    if isinstance(amount, Bits) and amount.signed:
        return c.error(e.right.place, "the amount of a shift must be unsigned")
    by = e.right.const
    assert by is None or isinstance(by, int)
    if right == INT and by is not None and by < 0:
        return c.error(e.right.place, "shift by a negative amount")
    if left == INT and by is None:
        return c.error(e.left.place, "a number that is shifted by a variable amount needs a width")
    limit = under.width if isinstance(under, Bits) else 0
    kept = isinstance(under, Bits) and under.signed and e.op == ">>"  # the sign remains
    if by is not None and by >= limit > 0 and not kept:
        c.warning(e.place, f"shifting {left} by {by} leaves nothing of it")
    return _fold(c, e, under, under if isinstance(left, EnumType) else left)


def _concat(c: Checker, e: ast.Binary) -> Type:
    if e.left.type == e.right.type == STRING:
        if isinstance(e.left.const, str) and isinstance(e.right.const, str):
            e.const = e.left.const + e.right.const
        return STRING
    parts = []
    for side in (e.left, e.right):
        side_type = number_type(side.type)
        if side.type == INT:
            return c.error(side.place, "'++' needs operands with a width")
        if not isinstance(side_type, Bits):
            return c.error(side.place, f"'++' needs numbers, not {side.type}")
        parts.append(side_type)
    left, right = parts
    result = Bits(left.width + right.width, left.signed)
    if isinstance(e.left.const, int) and isinstance(e.right.const, int):
        low = e.right.const & ((1 << right.width) - 1)
        e.const = result.wrap((e.left.const << right.width) | low)
    return result


def _cast(c: Checker, e: ast.Cast) -> Type:
    target = resolve(c, e.target)
    have = check_value(c, e.operand)
    if UNKNOWN in (target, have):
        return target
    if isinstance(e.operand, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.DontCare):
        coerce(c, e.operand, target)
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
        return c.error(e.place, f"{have} cannot be cast to {target}")
    if const is not None and not isinstance(const, ast.Symbol):
        if isinstance(const, int) and isinstance(b, Bits):
            e.const = b.wrap(int(const))
        elif isinstance(const, int) and b == BOOL:
            if const not in (0, 1):
                return c.error(e.place, "only 0 and 1 can be cast to bool")
            e.const = bool(const)
        else:
            e.const = const
        if have == INT and isinstance(b, Bits):
            e.operand.type, e.operand.const = b, e.const
    return target


def _ternary(c: Checker, e: ast.Ternary) -> Type:
    check_value(c, e.condition, BOOL)
    yes, no = check_value(c, e.yes), check_value(c, e.no)
    if UNKNOWN in (yes, no):
        return UNKNOWN
    if any(map(has_dots, (yes, no))) and all(t == INT or has_dots(t) for t in (yes, no)):
        return c.error(e.place, "one of the results of '?:' needs a type")
    if yes == INT and no != INT:
        coerce(c, e.yes, no)
    elif no == INT and yes != INT:
        coerce(c, e.no, yes)
    elif yes != no:
        if isinstance(e.yes, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.DontCare):
            coerce(c, e.yes, no)
        else:
            coerce(c, e.no, yes, "both results must have one type; expected")
    if e.condition.const is not None:
        e.const = (e.yes if e.condition.const else e.no).const
    elif e.yes.type == INT and not known_at_instantiation(e.condition):
        return c.error(e.place, "one of the results of '?:' needs a width")
    return e.yes.type


def _castable(a: Bits, b: Bits) -> bool:
    """A cast changes the width or the sign, not both."""
    return a.width == b.width or a.signed == b.signed


EXPRESSIONS: ExpressionRules = {
    ast.Number: _number,
    ast.Bool: _bool,
    ast.String: _string,
    ast.DontCare: lambda c, e: DONT_CARE,
    ast.InvalidHeader: _invalid_header,
    ast.ListExpr: _list,
    ast.StructExpr: _struct,
    ast.Mask: _mask,
    ast.Range: _range,
    ast.Name: _name,
    ast.TypeExpr: _type,
    ast.Member: _member,
    ast.Index: _index,
    ast.Slice: _slice,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Cast: _cast,
    ast.Ternary: _ternary,
}
