"""Expressions and types of P4-16, by recursive descent and precedence climbing.

Hand-written rather than generated: whether `(` opens a cast and whether `<` opens a list of type
arguments depends on which names are types, and a hand-written parser can say at each point what it
expected. The parser keeps the names of types in scope (`self.types`) for that, and tries type
arguments speculatively: `f<T>(x)` is a call only if the `>` is followed by `(`.
"""

from __future__ import annotations

import copy

from . import ast
from .diagnostics import Diagnostics, Fatal, Place
from .lexer import END, ID, NUMBER, OP, STRING, Token, parse_number

BASE_TYPES = {
    "bit",
    "int",
    "varbit",
    "bool",
    "error",
    "match_kind",
    "string",
    "void",
    "tuple",
    "list",
}
RESERVED = BASE_TYPES | set(
    [
        "abstract",
        "action",
        "apply_",
        "const",
        "control",
        "default",
        "else",
        "enum",
        "exit",
        "extern",
        "false",
        "for",
        "header",
        "header_union",
        "if",
        "in",
        "inout",
        "out",
        "package",
        "parser",
        "return",
        "select",
        "state_",
        "struct",
        "switch",
        "table_",
        "this",
        "transition",
        "true",
        "type_",
        "typedef",
        "value_set",
        "break",
        "continue",
    ]
)
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
MAX_DEPTH = 120


class SyntaxFailure(Exception):
    """A syntax error that was reported; the parser resumes at the next statement or declaration."""


class ExpressionParser:
    """Tokens with a cursor, and the grammar of expressions and types."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics):
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.i = 0
        self.depth = 0
        self.speculating = 0
        self.types: list[set[str]] = [set()]

    # ---- tokens ----

    @property
    def token(self) -> Token:
        return self.tokens[self.i]

    @property
    def place(self) -> Place:
        return self.tokens[self.i].place

    def at(self, *texts: str) -> bool:
        token = self.tokens[self.i]
        return token.text in texts and token.kind not in (STRING, END)

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.i + ahead, len(self.tokens) - 1)]

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.i += 1
            return True
        return False

    def expect(self, text: str, where: str = "") -> Place:
        if not self.at(text):
            self.fail(f"expected '{text}'{' ' + where if where else ''}")
        place = self.place
        self.i += 1
        return place

    def fail(self, message: str, place: Place | None = None) -> None:
        if not self.speculating:
            token = self.token
            found = "the end of the file" if token.kind == END else f"'{token.text}'"
            if place is None:
                message += f", found {found}"
            self.diagnostics.error(place or token.place, message)
        raise SyntaxFailure

    def name(self, what: str = "a name") -> str:
        token = self.token
        if token.kind == ID and token.text == "list":  # a keyword, but only before types
            self.i += 1
            return token.text
        if token.kind != ID or token.text in RESERVED or token.text == "_":
            if token.kind == ID and token.text in RESERVED:
                self.fail(f"expected {what}; '{token.text}' is a reserved word", token.place)
            self.fail(f"expected {what}")
        self.i += 1
        return token.text

    def join_shift(self) -> str:
        """The binary operator at the cursor; `>` `>` side by side is a shift."""
        token = self.token
        if token.kind != OP:
            return ""
        if token.text == ">":
            after = self.peek()
            if after.text in (">", ">=") and not after.spaced:
                return ">>" if after.text == ">" else ">>="
        return token.text

    def is_type(self, name: str) -> bool:
        return any(name in scope for scope in self.types)

    def nested(self, place: Place) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.diagnostics.error(place, f"nested more than {MAX_DEPTH} levels deep")
            raise Fatal

    # ---- types ----

    def at_type(self) -> bool:
        token = self.token
        if token.kind != ID:
            return token.text == "."
        return token.text in BASE_TYPES or self.is_type(token.text)

    def type(self) -> ast.Node:
        place = self.place
        self.nested(place)
        result = self._plain_type()
        result = self.dimensions(result)
        self.depth -= 1
        return result

    def dimensions(self, element: ast.Node) -> ast.Node:
        """[n] behind a type, or behind a declared name."""
        while self.at("["):
            place = self.place
            self.i += 1
            size = self.expression()
            self.expect("]", "after the number of elements")
            element = ast.TypeStack(place, element, size)
        return element

    def _plain_type(self) -> ast.Node:
        token, place = self.token, self.place
        if token.kind == ID and token.text in ("bit", "int", "varbit"):
            self.i += 1
            width = None
            if self.accept("<"):
                if self.accept("("):
                    width = self.expression()
                    self.expect(")")
                elif self.token.kind == NUMBER:
                    width = self._primary()
                else:
                    width = self._name_path()
                self.expect(">", f"after the width of {token.text}")
            elif token.text == "varbit":
                self.fail("expected '<' and the maximum width after 'varbit'")
            elif token.text == "bit":
                width = ast.Number(place, 1, None, False)
            return ast.TypeBase(place, token.text, width)
        if token.kind == ID and token.text in ("tuple", "list"):
            self.i += 1
            self.expect("<")
            elements = self._type_arguments()
            if token.text == "tuple":
                return ast.TypeTuple(place, elements)
            if len(elements) != 1:
                self.fail("list<> takes one type", place)
            return ast.TypeList(place, elements[0])
        if token.kind == ID and token.text in BASE_TYPES | {"_"}:
            self.i += 1
            return ast.TypeBase(place, token.text)
        absolute = self.accept(".")
        name = self.name("a type")
        result = ast.TypeName(place, name, absolute)
        if self.at("<"):
            self.i += 1
            return ast.TypeSpecialized(place, result, self._type_arguments())
        return result

    def _type_arguments(self) -> list:
        """Types up to and including the closing `>`."""
        arguments = []
        while not self.at(">"):
            arguments.append(self.type())
            if not self.accept(","):
                break
        self.expect(">", "after the type arguments")
        return arguments

    def _name_path(self) -> ast.Expr:
        place = self.place
        absolute = self.accept(".")
        result = ast.Name(place, self.name(), absolute)
        while self.at("."):
            place = self.place
            self.i += 1
            result = ast.Member(place, result, self.name())
        return result

    def try_type_arguments(self) -> list | None:
        """At `<`: the type arguments if this is a list of them followed by `(`; else None,
        unmoved."""
        start, depth = self.i, self.depth
        self.speculating += 1
        try:
            self.i += 1
            arguments = self._type_arguments()
            if self.at("("):
                return arguments
        except SyntaxFailure:
            pass
        finally:
            self.speculating -= 1
        self.i, self.depth = start, depth
        return None

    # ---- expressions ----

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
