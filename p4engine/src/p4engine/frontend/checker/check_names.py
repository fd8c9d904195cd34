"""Names and members of what they mean; elements of stacks and tuples."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker, ExpressionRules
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    UNKNOWN,
    ActionMeant,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    FunctionsMeant,
    Special,
    Stack,
    StructLiteral,
    TableMeant,
    Tuple,
    Type,
    TypeMeant,
    Varbit,
    is_header,
    is_union,
    number_type,
    underlying,
)

SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
VALIDITY = ("isValid", "setValid", "setInvalid")


class NameChecker:
    """The rules for names, members and indices."""

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
            ast.Name: self._name,
            ast.TypeExpr: self._type,
            ast.Member: self._member,
            ast.Index: self._index,
        }

    def _name(self, e: ast.Name) -> Type:
        decl = e.decl = self.context.lookup(e.name, e.absolute, e.place)
        if decl is None:
            return UNKNOWN
        if isinstance(decl, list):
            return FunctionsMeant("function", decl)
        if isinstance(decl, ast.Constant):
            e.const = decl.const
        if isinstance(
            decl, ast.Constant | ast.Variable | ast.Parameter | ast.Instance | ast.ValueSet
        ):
            return UNKNOWN if decl.type is ast.UNCHECKED else decl.type
        if isinstance(decl, ast.Table):
            return TableMeant("a table", decl)
        if isinstance(decl, ast.Action):
            return ActionMeant("an action", decl)
        if isinstance(decl, ast.Parser | ast.Control | ast.Package):
            return TypeMeant("a type", BlockType(decl))
        return TypeMeant("a type", decl.type)

    def _type(self, e: ast.TypeExpr) -> Type:
        return TypeMeant("a type", self.types.resolve(e.target))

    # ---- members ----

    def _member(self, e: ast.Member) -> Type:
        base = self.expressions.check(e.base)
        if base == UNKNOWN:
            return UNKNOWN
        if isinstance(base, Special):
            return self._special_member(e, base)
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
            return self._stack_member(e, base)
        if isinstance(base, Composite):
            names = list(base.fields)
            if base.kind != "struct":
                names += VALIDITY
            if e.name in SIZES or (e.name in VALIDITY and base.kind != "struct"):
                return Special("a method")
            return self.context.error(
                e.place, f"{base} has no field '{e.name}'{did_you_mean(e.name, names)}"
            )
        if e.name in SIZES and (isinstance(under, Bits | Varbit | Tuple) or base == BOOL):
            return Special("a method")
        if isinstance(base, ExternType):
            methods = [
                m for m in base.decl.methods if m.name == e.name and m.name != base.decl.name
            ]
            if methods:
                return FunctionsMeant("a method", methods)
            hint = did_you_mean(e.name, {m.name for m in base.decl.methods})
            return self.context.error(e.place, f"{base} has no method '{e.name}'{hint}")
        if isinstance(base, BlockType) and e.name == "apply":
            return Special("a method")
        return self.context.error(e.place, f"{base} has no member '{e.name}'")

    def _stack_member(self, e: ast.Member, base: Stack) -> Type:
        if e.name == "size":
            e.const = base.size
            return Bits(32)
        if not (is_header(base.element) or is_union(base.element)):
            return self.context.error(e.place, f"an array has no member '{e.name}'")
        if e.name in ("next", "last", "lastIndex"):
            if not self.context.in_parser:
                return self.context.error(e.place, f".{e.name} can only be used in a parser")
            return Bits(32) if e.name == "lastIndex" else base.element
        if e.name in ("push_front", "pop_front", *SIZES):
            return Special("a method")
        return self.context.error(e.place, f"a header stack has no member '{e.name}'")

    def _special_member(self, e: ast.Member, base: Special) -> Type:
        if isinstance(base, TypeMeant):
            return self._type_member(e, base.type)
        if isinstance(base, TableMeant):
            if base.what == "a table" and e.name == "apply":
                return Special("a method")
            if base.what == "the result of apply":
                if e.name in ("hit", "miss"):
                    return BOOL
                if e.name == "action_run":
                    return TableMeant("action_run", base.decl)
                return self.context.error(
                    e.place, f"apply() gives hit, miss and action_run, not '{e.name}'"
                )
        return self.context.error(e.place, f"{base.what} has no member '{e.name}'")

    def _type_member(self, e: ast.Member, target: Type) -> Type:
        if isinstance(target, EnumType):
            if e.name not in target.members:
                hint = did_you_mean(e.name, target.members)
                return self.context.error(e.place, f"enum {target} has no member '{e.name}'{hint}")
            number = target.members[e.name]
            e.const = number if target.base is not None else ast.Symbol(e.name, number)
            return target
        if target == ERROR:
            if e.name not in self.context.errors:
                hint = did_you_mean(e.name, self.context.errors)
                return self.context.error(e.place, f"error.{e.name} is not declared{hint}")
            e.const = ast.Symbol(e.name, self.context.errors[e.name])
            return ERROR
        if e.name in SIZES or (isinstance(target, BlockType) and e.name == "apply"):
            return Special("a method")
        return self.context.error(e.place, f"the type {target} has no member '{e.name}'")

    # ---- elements ----

    def _index(self, e: ast.Index) -> Type:
        base, index = self.expressions.value(e.base), self.expressions.value(e.index)
        if UNKNOWN in (base, index):
            return UNKNOWN
        if isinstance(base, Tuple):
            number = e.index.const
            if number is None:
                return self.context.error(
                    e.index.place, "the index of a tuple must be known at compile time"
                )
            if not isinstance(number, int):
                return self.context.error(e.index.place, f"an index must be a number, not {index}")
            if not 0 <= number < len(base.elements):
                return self.context.error(
                    e.index.place,
                    f"index {number} is outside of {len(base.elements)} elements",
                )
            if isinstance(e.base.const, list):
                e.const = e.base.const[number]
            return base.elements[number]
        if not isinstance(base, Stack):
            return self.context.error(e.place, f"{base} cannot be indexed")
        if isinstance(e.index.const, int) and e.index.const < 0:
            return self.context.error(e.index.place, f"index {e.index.const} is negative")
        if index == INT:
            self.conversions.coerce(e.index, Bits(32))
        elif not isinstance(number_type(index), Bits):
            return self.context.error(e.index.place, f"an index must be a number, not {index}")
        number = e.index.const
        if isinstance(number, int) and not 0 <= number < base.size:
            return self.context.error(
                e.index.place, f"index {number} is outside of a stack of {base.size}"
            )
        if isinstance(e.base.const, list) and isinstance(number, int):
            e.const = e.base.const[number]
        return base.element
