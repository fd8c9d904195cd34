"""Values in general: what type they must have, whether they are known at compile time, left values.

Numbers without a width and lists without a type take the type of the place where they stand.
`coerce` does that, and reports where it cannot be done. Operands are fitted to each other, never
the result to the operands.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    INT,
    INVALID,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    ListOf,
    NewType,
    Special,
    Stack,
    Tuple,
    Type,
    is_header,
    is_union,
    underlying,
)

# ---- conversions ----


def same_type(a: Type, b: Type) -> bool:
    """Are the types equal, as far as they are known?"""
    if a is b or a == b or UNKNOWN in (a, b):
        return True
    if isinstance(a, ExternType) and isinstance(b, ExternType):
        return a.decl is b.decl and all(
            DONT_CARE in (x, y) or same_type(x, y)
            for x, y in zip(a.arguments, b.arguments, strict=False)
        )
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.elements) == len(b.elements) and all(
            same_type(x, y) for x, y in zip(a.elements, b.elements, strict=True)
        )
    return False


def coerce(c: Checker, expr: ast.Expr, want: Type, what: str = "") -> bool:
    """Make `expr` a value of type `want`, or report; the message begins with `what`."""
    have = expr.type
    if have is want or have == want:
        return True
    if have is ast.UNCHECKED:
        return False
    if UNKNOWN in (have, want) or want == DONT_CARE:  # a type argument `_` takes any value
        return True
    if isinstance(have, ExternType) and same_type(have, want):
        return True
    base = want if isinstance(want, EnumType | NewType) else underlying(want)
    if have == INT and isinstance(want, Bits):
        _fix_width(c, expr, want)
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
    if isinstance(expr, ast.ListExpr) and _coerce_list(c, expr, base):
        return True
    if isinstance(expr, ast.StructExpr) and isinstance(base, Composite):
        coerce_struct(c, expr, base)
        return True
    if isinstance(have, Tuple) and isinstance(base, Tuple) and same_type(have, base):
        return True
    if isinstance(expr, ast.Ternary):
        if coerce(c, expr.yes, want, what) and coerce(c, expr.no, want, what):
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
    c.error(expr.place, f"{what or 'expected'} {want}, but this is {have}{hint}")
    return False


def _fix_width(c: Checker, expr: ast.Expr, want: Bits) -> None:
    """An `int` (always a compile-time value) takes the width `want`."""
    expr.type = want
    if isinstance(expr.const, int):
        value = want.wrap(expr.const)
        negated = expr.const < 0 and -expr.const <= want.high + 1 and want.width
        if value != expr.const and not want.low <= expr.const <= want.high and not negated:
            c.warning(expr.place, f"{expr.const} does not fit into {want} and becomes {value}")
        expr.const = value


def _coerce_list(c: Checker, expr: ast.ListExpr, want: Type) -> bool:
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
        expr.type = c.error(
            expr.place, f"{len(expr.items)} values given where {want} has {len(targets)}"
        )
        return True
    good = all(
        [coerce(c, i, t) for i, t in zip(expr.items, targets, strict=False)]  # report all
    )
    expr.type = want if good else UNKNOWN
    if good:
        expr.const = list_value(expr)
    return True


def coerce_struct(c: Checker, expr: ast.StructExpr, want: Composite) -> None:
    """Make `expr` a value of the struct or header `want`; reports fields that do not fit."""
    given = set()
    for name, value in expr.fields:
        if name not in want.fields:
            c.error(value.place, f"{want} has no field '{name}'{did_you_mean(name, want.fields)}")
        elif name in given:
            c.error(value.place, f"field '{name}' is given twice")
        else:
            coerce(c, value, want.fields[name], f"field '{name}' needs")
        given.add(name)
    missing = [n for n in want.fields if n not in given]
    if missing and not expr.dots:
        c.error(expr.place, f"no value for field '{missing[0]}' of {want}")
    expr.type = want
    if not missing:
        values = {n: v.const for n, v in expr.fields if v.const is not None}
        if len(values) == len({n for n, _ in expr.fields}):
            expr.const = values


def list_value(expr: ast.ListExpr) -> ast.Const | None:
    """The value of a list, if all its elements are known at compile time."""
    values = [i.const for i in expr.items if i.const is not None]
    return values if len(values) == len(expr.items) and not expr.dots else None


# ---- demands on values ----


def check_value(c: Checker, e: ast.Expr, want: Type | None = None) -> Type:
    """Check `e`, which must be a value (no table, action, extern...); with `want`, fit it to that
    type. Returns its type."""
    got = c.check(e)
    if want is not None:
        if isinstance(got, Special):
            return c.error(e.place, f"{got} cannot be used as a value")
        if not coerce(c, e, want):
            return UNKNOWN
        got = e.type
    if isinstance(got, Special | BlockType | ExternType) or got == VOID:
        e.type = c.error(e.place, f"{got} cannot be used as a value")
        return e.type
    return got


def constant(c: Checker, e: ast.Expr, want: Type | None, what: str) -> ast.Const | None:
    """The compile-time value of `e`, or None after reporting."""
    if check_value(c, e, want) == UNKNOWN:
        return None
    if e.const is None:
        c.error(e.place, f"{what} must be known at compile time")
    return e.const


def left_value(c: Checker, e: ast.Expr) -> bool:
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
            return left_value(c, e.base)
    elif isinstance(e, ast.Index | ast.Slice):
        return left_value(c, e.base)
    c.error(e.place, message)
    return False


def known_at_instantiation(value: ast.Expr) -> bool:
    """True if the value is known at compile time when those of the constructor's parameters are."""
    known = known_at_instantiation
    if value.const is not None:
        return True
    if isinstance(value, ast.Name):
        return isinstance(value.decl, ast.Parameter) and value.decl.known
    if isinstance(value, ast.Binary):
        return known(value.left) and known(value.right)
    if isinstance(value, ast.Unary | ast.Cast):
        return known(value.operand)
    if isinstance(value, ast.Ternary):
        return known(value.condition) and known(value.yes) and known(value.no)
    if isinstance(value, ast.Member | ast.Slice):
        return known(value.base)
    if isinstance(value, ast.Index):
        return known(value.base) and known(value.index)
    if isinstance(value, ast.ListExpr):
        return not value.dots and all(map(known, value.items))
    if isinstance(value, ast.StructExpr):
        return not value.dots and all(known(v) for _, v in value.fields)
    return False
