"""Declarations that give types names: headers, structs, enums, errors, match kinds, typedefs."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_parameters import ParameterParser
from p4engine.frontend.parser.token_stream import TokenStream


class NamedTypeParser:
    """The grammar of declarations of types."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionParser,
        parameters: ParameterParser,
        declaration: Callable[[], ast.Decl],
    ) -> None:
        """`declaration` parses a type that a typedef declares on the way."""
        self.tokens, self.expressions, self.types = tokens, expressions, expressions.types
        self.parameters, self.declaration = parameters, declaration

    def composite(self) -> ast.Composite:
        """header, header_union or struct N { fields }"""
        kind = self.tokens.advance().text
        place = self.tokens.place
        name = self.tokens.name(f"the name of the {kind}")
        self.tokens.add_type(name)
        with self.tokens.type_scope():
            type_parameters = self.parameters.type_parameters()
            self.tokens.expect("{", f"after the name of the {kind}")
            fields = self.tokens.repeat(self._field)
        return ast.Composite(place, name, kind, type_parameters, fields)

    def _field(self) -> ast.Field:
        annotations = parse_annotations(self.tokens)
        target = self.types.type()
        place = self.tokens.place
        name = self.tokens.name("a field's name")
        target = self.types.dimensions(target)
        self.tokens.expect(";", "after a field")
        return ast.Field(place, name, target, annotations=annotations)

    def enum(self) -> ast.Enum:
        """enum N { a, b } or enum T N { a = 1, b = 2 }"""
        self.tokens.expect("enum")
        base = None
        text = self.tokens.token.text
        if text in ("bit", "int") or (self.tokens.is_type(text) and self.tokens.peek().kind == ID):
            base = self.types.type()
        place = self.tokens.place
        name = self.tokens.name("the enum's name")
        self.tokens.add_type(name)
        self.tokens.expect("{")
        members = []
        while not self.tokens.at("}"):
            parse_annotations(self.tokens)
            where = self.tokens.place
            member = self.tokens.name("a member's name")
            value = self.expressions.expression() if self.tokens.accept("=") else None
            members.append((member, where, value))
            if not self.tokens.accept(","):
                break
        if not members:
            self.tokens.report(place, f"enum {name} needs a member")
        self.tokens.expect("}", "after the members of the enum")
        return ast.Enum(place, name, base, members)

    def error(self) -> ast.ErrorDecl:
        """error { names }"""
        place = self.tokens.advance().place
        return ast.ErrorDecl(place, "error", self._names())

    def match_kind(self) -> ast.MatchKindDecl:
        """match_kind { names }"""
        place = self.tokens.advance().place
        return ast.MatchKindDecl(place, "match_kind", self._names())

    def _names(self) -> list[tuple[str, Place]]:
        self.tokens.expect("{")
        members = []
        while not self.tokens.at("}"):
            where = self.tokens.place
            members.append((self.tokens.name("a name"), where))
            if not self.tokens.accept(","):
                break
        place = self.tokens.expect("}")
        if not members:
            self.tokens.report(place, "expected a name")
        return members

    def typedef(self) -> ast.Typedef:
        """typedef T name; or type T name;"""
        is_new = self.tokens.advance().text == "type"
        target: ast.Node
        if self.tokens.at("header", "struct", "enum", "header_union"):
            target = self.declaration()
        else:
            target = self.types.type()
        place = self.tokens.place
        name = self.tokens.name("the new name of the type")
        target = self.types.dimensions(target)
        self.tokens.add_type(name)
        self.tokens.expect(";", "after the typedef")
        return ast.Typedef(place, name, target, is_new)
