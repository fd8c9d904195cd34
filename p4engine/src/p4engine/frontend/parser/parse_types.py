"""The stream of tokens, and types as written.

Which names are types must be known while parsing, because `(a) -b` and `f<a>(b)` mean different
things for types and values; `types` is the stack of scopes of such names.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Fatal, Place
from p4engine.frontend.lexer import END, ID, NUMBER, OP, STRING, Token

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
MAX_DEPTH = 120


class SyntaxFailure(Exception):
    """A syntax error that was reported; the parser resumes at the next statement or declaration."""


class TypeParser:
    """Tokens one by one, and types."""

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
