"""Types of expressions, and the values of those known at compile time.

`expr` gives every expression its type; `coerce` then fits it to what the context wants: integer
literals take a width, lists become structs. Operands are fitted to each other, never the result
to the operands.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_operators import OperatorChecker
from p4engine.frontend.fold import Symbol
from p4engine.frontend.types import (
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
    SetOf,
    Special,
    Stack,
    StructLiteral,
    Tuple,
    Type,
    Varbit,
    is_header,
    is_union,
    underlying,
)

SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")


class ExpressionChecker(OperatorChecker):
    """Needs from the other parts: resolve_type, check_call."""

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
            if e.name in ("push_front", "pop_front", *SIZES):
                return Special("a method", None)
        if isinstance(base, Composite):
            if e.name in ("isValid", "setValid", "setInvalid") and base.kind != "struct":
                return Special("a method", None)
            if e.name in SIZES:
                return Special("a method", None)
            names = list(base.fields)
            if base.kind != "struct":
                names += ["isValid", "setValid", "setInvalid"]
            return self.error(e.place, f"{base} has no field '{e.name}'{self.near(e.name, names)}")
        if e.name in SIZES and (isinstance(under, Bits | Varbit | Tuple) or base == BOOL):
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
            if e.name in SIZES:
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
