"""Expressions of P4-16, by recursive descent and precedence climbing.

Hand-written rather than generated: whether `(` opens a cast and whether `<` opens a list of type
arguments depends on which names are types, and a hand-written parser can say at each point what
it expected. Type arguments are tried: `f<T>(x)` is a call only if the `>` is followed by `(`.
"""

from __future__ import annotations

import copy

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.lexer import (
    END,
    ID,
    NEWLINE,
    NUMBER,
    OP,
    STRING,
    Token,
    parse_number,
    tokenize,
)
from p4engine.frontend.parser.parse_types import TypeParser
from p4engine.frontend.parser.token_stream import SyntaxFailure, TokenStream

PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 4,
    "!=": 4,
    "<": 5,
    ">": 5,
    "<=": 5,
    ">=": 5,
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "++": 10,
    "|+|": 10,
    "|-|": 10,
    "*": 11,
    "/": 11,
    "%": 11,
}
_POSTFIX = frozenset(".[(<{")
_AFTER_CAST = ("(", "{", "~", "!", "-", "+", ".")


class ExpressionParser:
    """The grammar of expressions."""

    def __init__(self, tokens: TokenStream) -> None:
        self.tokens = tokens
        self.types = TypeParser(tokens, self)

    def name_path(self) -> ast.Expr:
        """a.b.c"""
        place = self.tokens.place
        absolute = self.tokens.accept(".")
        result: ast.Expr = ast.Name(place, self.tokens.name(), absolute)
        while self.tokens.at("."):
            place = self.tokens.place
            self.tokens.advance()
            result = ast.Member(place, result, self.tokens.name())
        return result

    def expression(self, minimum: int = 0) -> ast.Expr:
        """An expression of operators that bind more tightly than `minimum`; 0 for any."""
        place = self.tokens.place
        self.tokens.enter(place)
        left = self._binary(self.unary(), minimum)
        if minimum == 0 and self.tokens.at("?"):
            place = self.tokens.place
            self.tokens.advance()
            yes = self.expression()
            self.tokens.expect(":", "in a conditional expression")
            left = ast.Ternary(place, left, yes, self.expression())
        self.tokens.leave()
        return left

    def _binary(self, left: ast.Expr, minimum: int) -> ast.Expr:
        while True:
            op = self.tokens.operator()
            precedence = PRECEDENCE.get(op)
            if precedence is None or precedence <= minimum:
                return left
            place = self.tokens.place
            self.tokens.advance(2 if op == ">>" else 1)
            left = ast.Binary(place, op, left, self.expression(precedence))

    def unary(self) -> ast.Expr:
        """An expression without binary operators."""
        token, place = self.tokens.token, self.tokens.place
        if token.kind == OP and token.text in ("!", "~", "-", "+"):
            self.tokens.advance()
            self.tokens.enter(place)
            operand = self.unary()
            self.tokens.leave()
            return ast.Unary(place, token.text, operand)
        if token.text == "(" and token.kind == OP and self.tokens.ahead(self._at_cast):
            self.tokens.advance()
            target = self.types.type()
            self.tokens.expect(")", "after the type of a cast")
            self.tokens.enter(place)
            operand = self.unary()
            self.tokens.leave()
            return ast.Cast(place, target, operand)
        return self._postfix(self.primary())

    def _at_cast(self) -> bool:
        self.tokens.advance()
        if not self.tokens.at_type():
            return False
        self.types.type()
        if not self.tokens.accept(")"):
            return False
        token = self.tokens.token
        return token.kind in (ID, NUMBER, STRING) or token.text in _AFTER_CAST

    def _postfix(self, left: ast.Expr) -> ast.Expr:
        while True:
            kind, text, place, _ = self.tokens.token
            if kind != OP or text not in _POSTFIX:
                return left
            if self.tokens.accept("."):
                place = self.tokens.place
                left = ast.Member(place, left, self.tokens.word("a member's name"))
            elif self.tokens.accept("["):
                left = self._element(place, left)
            elif self.tokens.at("("):
                left = ast.Call(left.place, left, [], self.arguments())
            elif self.tokens.at("<") and isinstance(left, ast.Name | ast.Member | ast.TypeExpr):
                names_type = isinstance(left, ast.Name) and self.tokens.is_type(left.name)
                arguments = self.types.try_arguments("(")
                applied = None  # C<bit<8>>.apply(..)
                if arguments is None and names_type:
                    applied = arguments = self.types.try_arguments(".")
                if arguments is None:
                    return left
                if isinstance(left, ast.Name) and names_type:
                    base = ast.TypeName(left.place, left.name, left.absolute)
                    target = ast.TypeSpecialized(left.place, base, arguments)
                    left, arguments = ast.TypeExpr(left.place, target), []
                if applied is not None:
                    continue
                left = ast.Call(left.place, left, arguments, self.arguments())
            elif self.tokens.at("{") and isinstance(left, ast.TypeExpr) and self._at_struct_body():
                value = self._braces()
                if isinstance(value, ast.StructExpr):
                    value.target = left.target
                    left = value
                else:
                    left = ast.Cast(left.place, left.target, value)
            else:
                return left

    def _element(self, place: Place, base: ast.Expr) -> ast.Expr:
        """The rest of `base[`: an index, or a slice with either kind of bounds."""
        index = self.expression()
        if self.tokens.accept(":"):
            low = self.expression()
            self.tokens.expect("]", "after a bit slice")
            return ast.Slice(place, base, index, low)
        if self.tokens.accept("+:"):  # from bit `index` upwards
            width = self.expression()
            self.tokens.expect("]", "after a bit slice")
            above = ast.Binary(place, "+", copy.deepcopy(index), width)
            high = ast.Binary(place, "-", above, ast.Number(place, 1, None, False))
            return ast.Slice(place, base, high, index)
        self.tokens.expect("]", "after an index")
        return ast.Index(place, base, index)

    def _at_struct_body(self) -> bool:
        return self.tokens.peek(1).kind == ID and self.tokens.peek(2).text == "="

    def arguments(self) -> list[ast.Argument]:
        """( a, name = b, _ )"""
        self.tokens.expect("(")
        arguments = []
        while not self.tokens.at(")"):
            place = self.tokens.place
            name = None
            if self.tokens.at_assignment():
                name = self.tokens.advance(2).text
            if self.tokens.at("_") and self.tokens.peek().text in (",", ")"):
                self.tokens.advance()
                arguments.append(ast.Argument(place, name, None))
            else:
                arguments.append(ast.Argument(place, name, self.expression()))
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "after the arguments")
        return arguments

    def primary(self) -> ast.Expr:
        """A literal, a name, a type, or something in brackets."""
        token, place = self.tokens.token, self.tokens.place
        if token.kind == NUMBER:
            return self._number()
        if token.kind == STRING:
            self.tokens.advance()
            return ast.String(place, token.text[1:-1])
        if token.kind == ID:
            if token.text in ("true", "false"):
                self.tokens.advance()
                return ast.Bool(place, token.text == "true")
            if token.text == "this":
                self.tokens.advance()
                return ast.Name(place, "this")
            if self.tokens.at_base_type():
                return ast.TypeExpr(place, self.types.type())
            if token.text == "_":
                self.tokens.fail(
                    "'_' is no value: it can only be the argument of an 'out' parameter", place
                )
            self.tokens.name("an expression")
            if self.tokens.is_type(token.text) and self.tokens.at("{") and self._at_struct_body():
                return ast.TypeExpr(place, ast.TypeName(place, token.text))
            if self.tokens.is_type(token.text) and self.tokens.at("<"):
                # T<..> {...}: a generic struct with its type
                arguments = self.types.try_arguments("{")
                if arguments is not None:
                    base = ast.TypeName(place, token.text)
                    return ast.TypeExpr(place, ast.TypeSpecialized(place, base, arguments))
            return ast.Name(place, token.text)
        if token.text == ".":
            self.tokens.advance()
            return ast.Name(place, self.tokens.name(), True)
        if token.text == "(":
            self.tokens.advance()
            inner = self.expression()
            self.tokens.expect(")")
            return inner
        if token.text == "{":
            return self._braces()
        if token.text == "...":
            self.tokens.advance()
            return ast.DontCare(place)
        self.tokens.fail("expected an expression")

    def _number(self) -> ast.Number:
        _, text, place, _ = self.tokens.advance()
        diagnostics = self.tokens.diagnostics
        number = parse_number(text)
        if number is None:
            diagnostics.error(place, f"bad number '{text}'")
            return ast.Number(place, 0, None, False)
        value, width, signed = number
        if width is not None:
            if width == 0 and value:
                diagnostics.error(place, "a number of width 0 can only be 0")
            limit = 1 << max(0, width - signed)
            if value >= limit and not (signed and width == 0):
                diagnostics.warning(
                    place, f"{text}: the value does not fit into {width} bits and is truncated"
                )
                value &= (1 << width) - 1
                if signed and value >> (width - 1):
                    value -= 1 << width
        return ast.Number(place, value, width, signed)

    def _braces(self) -> ast.Expr:
        place = self.tokens.expect("{")
        if self.tokens.at("#"):
            self.tokens.advance()
            self.tokens.expect("}")
            return ast.InvalidHeader(place)
        if self.tokens.at_assignment():
            return self._struct(place)
        items, dots = [], False
        while not self.tokens.at("}"):
            if self.tokens.accept("..."):
                dots = True
                break
            items.append(self.expression())
            if not self.tokens.accept(","):
                break
        self.tokens.expect("}", "after the list")
        return ast.ListExpr(place, items, dots)

    def _struct(self, place: Place) -> ast.StructExpr:
        """a = 1, b = 2 }"""
        fields, dots = [], False
        while not self.tokens.at("}"):
            if self.tokens.accept("..."):
                dots = True
                break
            name = self.tokens.name("a field's name")
            self.tokens.expect("=")
            fields.append((name, self.expression()))
            if not self.tokens.accept(","):
                break
        self.tokens.expect("}", "after the fields")
        return ast.StructExpr(place, fields, None, dots)


def parse_list(texts: list[str], place: Place, diagnostics: Diagnostics) -> list[ast.Expr]:
    """The expressions in the body of an annotation; errors are reported at `place`."""
    tokens = [t._replace(place=place) for t in tokenize(" ".join(texts), place.file, diagnostics)]
    tokens = [t for t in tokens if t.kind != NEWLINE]
    stream = TokenStream([*tokens, Token(END, "", place)], diagnostics)
    parser = ExpressionParser(stream)
    result = []
    try:
        while not stream.at_end:
            result.append(parser.expression())
            if not stream.at_end:
                stream.expect(",")
    except SyntaxFailure:
        return []
    return result
