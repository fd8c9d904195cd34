"""Types as written."""

from __future__ import annotations

from typing import Protocol

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID, NUMBER
from p4engine.frontend.parser.token_stream import TokenStream


class ExpressionGrammar(Protocol):
    """The expressions that types need: widths and sizes."""

    def expression(self, minimum: int = 0) -> ast.Expr: ...

    def primary(self) -> ast.Expr: ...

    def name_path(self) -> ast.Expr: ...


class TypeParser:
    """The grammar of types."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionGrammar) -> None:
        self.tokens, self.expressions = tokens, expressions

    def type(self) -> ast.Node:
        """A type."""
        self.tokens.enter(self.tokens.place)
        result = self.dimensions(self._plain())
        self.tokens.leave()
        return result

    def dimensions(self, element: ast.Node) -> ast.Node:
        """[n] behind the type `element`, or behind a declared name."""
        while self.tokens.at("["):
            place = self.tokens.advance().place
            size = self.expressions.expression()
            self.tokens.expect("]", "after the number of elements")
            element = ast.TypeStack(place, element, size)
        return element

    def _plain(self) -> ast.Node:
        token, place = self.tokens.token, self.tokens.place
        if token.kind == ID and token.text in ("bit", "int", "varbit"):
            self.tokens.advance()
            return ast.TypeBase(place, token.text, self._width(token.text, place))
        if token.text in ("tuple", "list") and self.tokens.at_base_type():
            self.tokens.advance()
            self.tokens.expect("<")
            elements = self._arguments()
            if token.text == "tuple":
                return ast.TypeTuple(place, elements)
            if len(elements) != 1:
                self.tokens.fail("list<> takes one type", place)
            return ast.TypeList(place, elements[0])
        if self.tokens.at_base_type() or (token.kind == ID and token.text == "_"):
            self.tokens.advance()
            return ast.TypeBase(place, token.text)
        absolute = self.tokens.accept(".")
        result = ast.TypeName(place, self.tokens.name("a type"), absolute)
        if self.tokens.accept("<"):
            return ast.TypeSpecialized(place, result, self._arguments())
        return result

    def _width(self, kind: str, place: Place) -> ast.Expr | None:
        if self.tokens.accept("<"):
            if self.tokens.accept("("):
                width = self.expressions.expression()
                self.tokens.expect(")")
            elif self.tokens.token.kind == NUMBER:
                width = self.expressions.primary()
            else:
                width = self.expressions.name_path()
            self.tokens.expect(">", f"after the width of {kind}")
            return width
        if kind == "varbit":
            self.tokens.fail("expected '<' and the maximum width after 'varbit'")
        return ast.Number(place, 1, None, False) if kind == "bit" else None

    def _arguments(self) -> list[ast.Node]:
        """Types up to and including the closing `>`."""
        arguments = []
        while not self.tokens.at(">"):
            arguments.append(self.type())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(">", "after the type arguments")
        return arguments

    def try_arguments(self, before: str) -> list[ast.Node] | None:
        """Type arguments at `<`, if this is a list of them followed by the token `before`; else
        None, unmoved."""

        def parse() -> list[ast.Node] | None:
            self.tokens.advance()
            arguments = self._arguments()
            return arguments if self.tokens.at(before) else None

        return self.tokens.attempt(parse)
