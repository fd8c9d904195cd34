"""Declarations that give types names: headers, structs, enums, errors, match kinds, typedefs."""

from __future__ import annotations

from p4engine.frontend import ast
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
    BlockType,
    Composite,
    EnumType,
    ExternType,
    ListOf,
    NewType,
    Stack,
    Type,
    TypeVar,
    Varbit,
    is_header,
    underlying,
)


class NamedTypeChecker:
    """The rules for declarations of types."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        types: TypeResolver,
        parameters: ParameterChecker,
    ) -> None:
        self.context, self.expressions = context, expressions
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
                elif f.type != UNKNOWN and not _can_be_field(d.kind, f.type):
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
            given = underlying(self.types.resolve(d.base))
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
                const = self.expressions.constant(value, base, "the value of an enum's member")
                type_.members[name] = const if isinstance(const, int) else 0

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
        d.type = NewType(d.name, base) if d.is_new and base != UNKNOWN else base
        self.context.declare(d)


def _can_be_field(kind: str, type_: Type) -> bool:
    if isinstance(type_, TypeVar):
        return True
    if kind == "header":
        return isinstance(type_, Varbit) or _fixed_in_headers(type_)
    if kind == "header_union":
        return is_header(type_)
    return not isinstance(type_, ExternType | BlockType | ListOf) and type_ not in (
        VOID,
        INT,
        STRING,
        MATCH_KIND,
    )


def _fixed_in_headers(type_: Type) -> bool:
    """Can a header have a field of this type, which has a fixed size?"""
    under = underlying(type_)
    if isinstance(under, Stack):
        return _fixed_in_headers(under.element)
    if isinstance(under, Composite):
        return under.kind == "struct" and all(map(_fixed_in_headers, under.fields.values()))
    return isinstance(under, Bits | TypeVar) or under == BOOL
