"""Expressions and types of P4-16, by recursive descent and precedence climbing.

Hand-written rather than generated: whether `(` opens a cast and whether `<` opens a list of type
arguments depends on which names are types, and a hand-written parser can say at each point what
it expected. The parser keeps the names of types in scope (`self.types`) for that, and tries type
arguments speculatively: `f<T>(x)` is a call only if the `>` is followed by `(`.
"""

from __future__ import annotations

import copy

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID, NUMBER, OP, STRING, parse_number
from p4engine.frontend.parser.parse_types import BASE_TYPES, SyntaxFailure, TypeParser

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


class ExpressionParser(TypeParser):
    """Tokens with a cursor, and the grammar of expressions and types."""

    def _name_path(self) -> ast.Expr:
        place = self.place
        absolute = self.accept(".")
        result = ast.Name(place, self.name(), absolute)
        while self.at("."):
            place = self.place
            self.i += 1
            result = ast.Member(place, result, self.name())
        return result

    def expression(self, minimum: int = 0) -> ast.Expr:
        place = self.place
        self.nested(place)
        left = self._binary(self._unary(), minimum)
        if minimum == 0 and self.at("?"):
            place = self.place
            self.i += 1
            yes = self.expression()
            self.expect(":", "in a conditional expression")
            left = ast.Ternary(place, left, yes, self.expression())
        self.depth -= 1
        return left

    def _binary(self, left: ast.Expr, minimum: int) -> ast.Expr:
        while True:
            op = self.join_shift()
            precedence = PRECEDENCE.get(op)
            if precedence is None or precedence <= minimum:
                return left
            place = self.place
            self.i += 2 if op == ">>" else 1
            left = ast.Binary(place, op, left, self.expression(precedence))

    def _unary(self) -> ast.Expr:
        token, place = self.token, self.place
        if token.kind == OP and token.text in ("!", "~", "-", "+"):
            self.i += 1
            self.nested(place)
            operand = self._unary()
            self.depth -= 1
            return ast.Unary(place, token.text, operand)
        if token.text == "(" and token.kind == OP and self._at_cast():
            self.i += 1
            target = self.type()
            self.expect(")", "after the type of a cast")
            self.nested(place)
            operand = self._unary()
            self.depth -= 1
            return ast.Cast(place, target, operand)
        return self._postfix(self._primary())

    def _at_cast(self) -> bool:
        start, depth = self.i, self.depth
        self.i += 1
        if not self.at_type():
            self.i = start
            return False
        self.speculating += 1
        try:
            self.type()
            if not self.at(")"):
                return False
            self.i += 1
            token = self.token
            return token.kind in (ID, NUMBER, STRING) or token.text in (
                "(",
                "{",
                "~",
                "!",
                "-",
                "+",
                ".",
            )
        except SyntaxFailure:
            return False
        finally:
            self.speculating -= 1
            self.i, self.depth = start, depth

    def _postfix(self, left: ast.Expr) -> ast.Expr:
        while True:
            place = self.place
            if self.at("."):
                self.i += 1
                place = self.place
                if self.token.kind != ID:
                    self.fail("expected a member's name")
                name = self.token.text
                self.i += 1
                left = ast.Member(place, left, name)
            elif self.at("["):
                self.i += 1
                index = self.expression()
                if self.accept(":"):
                    low = self.expression()
                    self.expect("]", "after a bit slice")
                    left = ast.Slice(place, left, index, low)
                elif self.accept("+:"):  # from bit `index` upwards
                    width = self.expression()
                    self.expect("]", "after a bit slice")
                    above = ast.Binary(place, "+", copy.deepcopy(index), width)
                    high = ast.Binary(place, "-", above, ast.Number(place, 1, None, False))
                    left = ast.Slice(place, left, high, index)
                else:
                    self.expect("]", "after an index")
                    left = ast.Index(place, left, index)
            elif self.at("("):
                left = ast.Call(_start(left), left, [], self.arguments())
            elif self.at("<") and isinstance(left, ast.Name | ast.Member | ast.TypeExpr):
                arguments = self.try_type_arguments()
                if arguments is None:
                    return left
                if isinstance(left, ast.Name) and self.is_type(left.name):
                    base = ast.TypeName(left.place, left.name, left.absolute)
                    target = ast.TypeSpecialized(left.place, base, arguments)
                    left = ast.TypeExpr(left.place, target)
                    left = ast.Call(left.place, left, [], self.arguments())
                else:
                    left = ast.Call(_start(left), left, arguments, self.arguments())
            elif self.at("{") and isinstance(left, ast.TypeExpr) and self._at_struct_body():
                value = self._braces()
                if isinstance(value, ast.StructExpr):
                    value.target = left.target
                    left = value
                else:
                    left = ast.Cast(left.place, left.target, value)
            else:
                return left

    def _at_struct_body(self) -> bool:
        return self.peek(1).kind == ID and self.peek(2).text == "="

    def arguments(self) -> list[ast.Argument]:
        """( a, name = b, _ )"""
        self.expect("(")
        arguments = []
        while not self.at(")"):
            place = self.place
            name = None
            if self.token.kind == ID and self.peek().text == "=" and self.peek().kind == OP:
                name = self.token.text
                self.i += 2
            if self.at("_") and self.peek().text in (",", ")"):
                self.i += 1
                arguments.append(ast.Argument(place, name, None))
            else:
                arguments.append(ast.Argument(place, name, self.expression()))
            if not self.accept(","):
                break
        self.expect(")", "after the arguments")
        return arguments

    def _primary(self) -> ast.Expr:
        token, place = self.token, self.place
        if token.kind == NUMBER:
            self.i += 1
            number = parse_number(token.text)
            if number is None:
                self.diagnostics.error(place, f"bad number '{token.text}'")
                return ast.Number(place, 0, None, False)
            value, width, signed = number
            if width is not None:
                if width == 0 and value:
                    self.diagnostics.error(place, "a number of width 0 can only be 0")
                limit = 1 << max(0, width - signed)
                if value >= limit and not (signed and width == 0):
                    self.diagnostics.warning(
                        place,
                        f"{token.text}: the value does not fit into {width} bits and is truncated",
                    )
                    value &= (1 << width) - 1
                    if signed and value >> (width - 1):
                        value -= 1 << width
            return ast.Number(place, value, width, signed)
        if token.kind == STRING:
            self.i += 1
            return ast.String(place, token.text[1:-1])
        if token.kind == ID:
            if token.text in ("true", "false"):
                self.i += 1
                return ast.Bool(place, token.text == "true")
            if token.text == "this":
                self.i += 1
                return ast.Name(place, "this")
            if token.text in BASE_TYPES:
                return ast.TypeExpr(place, self.type())
            if token.text == "_" or token.text == "default":
                self.i += 1
                return ast.DontCare(place)
            self.name("an expression")
            if self.is_type(token.text) and self.at("{") and self._at_struct_body():
                return ast.TypeExpr(place, ast.TypeName(place, token.text))
            if self.is_type(token.text) and self.at("<"):
                # T<..> {...}: a generic struct with its type
                start = self.i
                self.speculating += 1
                try:
                    self.i += 1
                    arguments = self._type_arguments()
                    if self.at("{"):
                        base = ast.TypeName(place, token.text)
                        return ast.TypeExpr(place, ast.TypeSpecialized(place, base, arguments))
                    self.i = start
                except SyntaxFailure:
                    self.i = start
                finally:
                    self.speculating -= 1
            return ast.Name(place, token.text)
        if token.text == ".":
            self.i += 1
            return ast.Name(place, self.name(), True)
        if token.text == "(":
            self.i += 1
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "{":
            return self._braces()
        if token.text == "...":
            self.i += 1
            return ast.DontCare(place)
        self.fail("expected an expression")
        raise AssertionError

    def _braces(self) -> ast.Expr:
        place = self.expect("{")
        if self.at("#"):
            self.i += 1
            self.expect("}")
            return ast.InvalidHeader(place)
        if self.token.kind == ID and self.peek().text == "=" and self.peek().kind == OP:
            fields, dots = [], False
            while not self.at("}"):
                if self.accept("..."):
                    dots = True
                    break
                name = self.name("a field's name")
                self.expect("=")
                fields.append((name, self.expression()))
                if not self.accept(","):
                    break
            self.expect("}", "after the fields")
            return ast.StructExpr(place, fields, None, dots)
        items, dots = [], False
        while not self.at("}"):
            if self.accept("..."):
                dots = True
                break
            items.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}", "after the list")
        return ast.ListExpr(place, items, dots)

    def keyset(self) -> ast.Expr:
        """One element of a select label or of an entry's keys."""
        place = self.place
        if self.at("_", "default") and self.peek().text in (",", ":", ")"):
            self.i += 1
            return ast.DontCare(place)
        left = self.expression()
        place = self.place
        if self.accept("&&&"):
            return ast.Mask(place, left, self.expression())
        if self.accept(".."):
            return ast.Range(place, left, self.expression())
        return left

    def keysets(self) -> list[ast.Expr]:
        """A label: one element, or several in parentheses."""
        if self.at("("):
            start, depth = self.i, self.depth
            self.speculating += 1
            try:  # (a, b) : ... is a tuple; (a) + b : ... is an expression
                items = self._keyset_tuple()
                if self.at(":"):
                    return items
            except SyntaxFailure:
                pass
            finally:
                self.speculating -= 1
            self.i, self.depth = start, depth
            if self._tuple_ahead():
                return self._keyset_tuple()
        return [self.keyset()]

    def _tuple_ahead(self) -> bool:
        depth, i = 0, self.i
        while i < len(self.tokens):
            text = self.tokens[i].text
            if text == "(":
                depth += 1
            elif text == ")":
                depth -= 1
                if depth == 0:
                    return self.tokens[min(i + 1, len(self.tokens) - 1)].text == ":"
            i += 1
        return False

    def _keyset_tuple(self) -> list[ast.Expr]:
        self.expect("(")
        items = []
        while not self.at(")"):
            items.append(self.keyset())
            if not self.accept(","):
                break
        self.expect(")")
        return items


def _start(expr: ast.Expr) -> Place:
    return expr.place
