"""Declarations that give types names: headers, structs, enums, errors, match kinds, typedefs."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.parser.parse_expressions import parse_list
from p4engine.frontend.types import (
    BOOL,
    INT,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    Composite,
    EnumType,
    NewType,
    can_be_field,
)


class NamedTypeChecker:
    """The rules for declarations of types."""

    def __init__(
        self,
        context: Context,
        conversions: ConversionChecker,
        expressions: ExpressionChecker,
        types: TypeResolver,
        parameters: ParameterChecker,
    ) -> None:
        self.context, self.conversions, self.expressions = context, conversions, expressions
        self.types, self.parameters = types, parameters

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {
            ast.Composite: self._composite,
            ast.Enum: self._enum,
            ast.ErrorDecl: self._error,
            ast.MatchKindDecl: self._match_kind,
            ast.Typedef: self._typedef,
        }

    def _composite(self, d: ast.Composite) -> None:
        type_ = d.type = Composite(d.kind, d.name, d)
        self.context.declare(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            type_.arguments = tuple(p.type for p in d.type_parameters)
            self.context.composites.append(type_)
            for f in d.fields:
                f.type = self.types.resolve(f.target)
                if f.name in type_.fields:
                    self.context.error(f.place, f"field '{f.name}' is already declared")
                if f.type is type_:
                    f.type = self.context.error(f.place, f"{d.name} contains itself")
                elif f.type != UNKNOWN and not can_be_field(d.kind, f.type):
                    f.type = self.context.error(
                        f.place, f"a {d.kind} cannot have a field of type {f.type}"
                    )
                type_.fields[f.name] = f.type
                for mark in f.annotations:
                    if mark.name == "field_list":
                        self._field_list(f, mark)

    def _field_list(self, f: ast.Field, mark: ast.Annotation) -> None:
        """@field_list(1, NAME, E.member): the lists of v1model that a field of metadata is in."""
        for e in parse_list(mark.body, mark.place, self.context.diagnostics):
            number = self.expressions.constant(e, None, "the number of a field list")
            if isinstance(number, int) and not isinstance(number, bool):
                f.lists.append(number)
            elif number is not None:
                self.context.error(mark.place, "@field_list needs numbers")

    def _enum(self, d: ast.Enum) -> None:
        base = None
        if d.base is not None:
            given = self.types.resolve(d.base)
            if isinstance(given, Bits):
                base = given
            else:
                base = Bits(32)
                if given != UNKNOWN:
                    self.context.error(
                        d.place, f"the type of an enum must be bit<> or int<>, not {given}"
                    )
        type_ = d.type = EnumType(d.name, base)
        self.context.declare(d)
        for number, (name, place, value) in enumerate(d.members):
            if name in type_.members:
                self.context.error(place, f"'{name}' is already a member of this enum")
            if base is None:
                if value is not None:
                    self.context.error(place, "members have values only in an enum with a type")
                type_.members[name] = number
            elif value is None:
                self.context.error(place, f"member '{name}' needs a value")
                type_.members[name] = 0
            else:
                const = self.expressions.constant(value, None, "the value of an enum's member")
                self._enum_value(value, const, base)
                type_.members[name] = value.const if isinstance(value.const, int) else 0

    def _enum_value(self, value: ast.Expr, const: ast.Const | None, base: Bits) -> None:
        if value.type == INT and isinstance(const, int):
            if not base.low <= const <= base.high:
                self.context.error(value.place, f"{const} does not fit into {base}")
            value.type = base
        elif const is not None:
            self.conversions.coerce(value, base)

    def _error(self, d: ast.ErrorDecl) -> None:
        for name, place in d.members:
            if name in self.context.errors:
                self.context.error(place, f"error.{name} is already declared")
            self.context.errors.setdefault(name, len(self.context.errors))

    def _match_kind(self, d: ast.MatchKindDecl) -> None:
        for name, place in d.members:
            if name in self.context.match_kinds:
                self.context.error(place, f"match kind '{name}' is already declared")
            number = len(self.context.match_kinds)
            made = ast.Constant(
                place, name, ast.TypeBase(place, "match_kind"), ast.String(place, name)
            )
            made.type, made.const = MATCH_KIND, ast.Symbol(name, number)
            self.context.match_kinds[name] = made

    def _typedef(self, d: ast.Typedef) -> None:
        base = self.types.resolve(d.target)
        if base in (VOID, STRING, MATCH_KIND):
            base = self.context.error(d.place, f"there can be no other name for {base}")
        elif d.is_new and base != UNKNOWN and not isinstance(base, Bits | NewType) and base != BOOL:
            base = self.context.error(
                d.place, f"'type' makes new types of bit<>, int<> and bool, not of {base}"
            )
        d.type = NewType(d.name, base) if d.is_new and base != UNKNOWN else base
        self.context.declare(d)
