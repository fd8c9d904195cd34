"""The stream of tokens that all parts of the parser read from.

Which names are types must be known while parsing, because `(a) -b` and `f<a>(b)` mean different
things for types and values; the stream keeps scopes of such names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from p4engine.frontend.diagnostics import Diagnostics, Fatal, Place
from p4engine.frontend.lexer import END, ID, OP, OTHER, STRING, Token

BASE_TYPES = frozenset(
    ["bit", "int", "varbit", "bool", "error", "match_kind", "string", "void", "tuple", "list"]
)
# `list` is a keyword only before `<`; apply, key, actions, state, entries, type and priority are
# keywords only where they mean something.
_RESERVED = """
    _ abstract action break const continue control default else enum exit extern false for header
    header_union if in inout out package parser return select struct switch table this transition
    true typedef value_set
"""
RESERVED = BASE_TYPES - {"list"} | frozenset(_RESERVED.split())
MAX_DEPTH = 120
T = TypeVar("T")


class SyntaxFailure(Exception):
    """A syntax error that was reported; the parser resumes at the next statement or declaration."""


class TokenStream:
    """Tokens with a position, names of types in scope, and recovery behind errors."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.diagnostics = diagnostics
        self.position = 0
        self._depth = 0
        self._speculating = 0
        self._types: list[set[str]] = [set()]

    # ---- tokens ----

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    @property
    def place(self) -> Place:
        """The place of the next token."""
        return self.tokens[self.position].place

    @property
    def at_end(self) -> bool:
        """Are there no more tokens?"""
        return self.tokens[self.position].kind == END

    def peek(self, ahead: int = 1) -> Token:
        """The token that is `ahead` tokens behind the next one."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """True if the next token is one of `texts`."""
        token = self.tokens[self.position]
        return token.text in texts and token.kind not in (STRING, END)

    def at_assignment(self) -> bool:
        """Do a name and `=` follow?"""
        after = self.peek()
        return self.token.kind == ID and after.text == "=" and after.kind == OP

    def advance(self, count: int = 1) -> Token:
        """Go past `count` tokens; returns the first of them."""
        token = self.tokens[self.position]
        self.position += count
        return token

    def accept(self, text: str) -> bool:
        """Go past the next token if it is `text`."""
        token = self.tokens[self.position]
        if token.text != text or token.kind in (STRING, END):
            return False
        self.position += 1
        return True

    def expect(self, text: str, where: str = "") -> Place:
        """Go past the next token, which must be `text`; returns its place."""
        if not self.at(text):
            self.fail(f"expected '{text}'{' ' + where if where else ''}")
        return self.advance().place

    def word(self, what: str) -> str:
        """Go past a word, reserved or not; `what` is for the message."""
        if self.token.kind != ID:
            self.fail(f"expected {what}")
        return self.advance().text

    def name(self, what: str = "a name") -> str:
        """Go past a name that is not reserved; `what` is for the message."""
        token = self.token
        if token.kind != ID or token.text in RESERVED:
            if token.kind == ID and token.text != "_":
                self.fail(f"expected {what}; '{token.text}' is a reserved word", token.place)
            self.fail(f"expected {what}")
        self.position += 1
        return token.text

    def operator(self) -> str:
        """The operator that is next, or ""; `>` `>` side by side is a shift of two tokens."""
        token = self.token
        if token.kind != OP:
            return ""
        if token.text == ">":
            after = self.peek()
            if after.text in (">", ">=") and not after.spaced:
                return ">>" if after.text == ">" else ">>="
        return token.text

    # ---- errors ----

    def fail(self, message: str, place: Place | None = None) -> NoReturn:
        """Report a syntax error at `place`, or at the next token, and raise SyntaxFailure."""
        if not self._speculating:
            token = self.token
            found = "the end of the file" if token.kind == END else f"'{token.text}'"
            if token.kind == OTHER and token.text == '"':
                place, message = token.place, "this string is never closed"
            elif token.kind == OTHER:
                place, message = token.place, f"unexpected character {token.text!r}"
            elif place is None:
                message += f", found {found}"
            self.diagnostics.error(place or token.place, message)
        raise SyntaxFailure

    def report(self, place: Place, message: str) -> None:
        """Report an error behind which parsing can go on."""
        if not self._speculating:
            self.diagnostics.error(place, message)

    def enter(self, place: Place) -> None:
        """Count a level of nesting, until `leave`; reports too many."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.diagnostics.error(place, f"nested more than {MAX_DEPTH} levels deep")
            raise Fatal

    def leave(self) -> None:
        """End a level of nesting."""
        self._depth -= 1

    def attempt(self, parse: Callable[[], T | None]) -> T | None:
        """The result of parse(); if it fails or returns None: None, without a message or a move."""
        start, depth = self.position, self._depth
        self._speculating += 1
        try:
            result = parse()
        except SyntaxFailure:
            result = None
        finally:
            self._speculating -= 1
        if result is None:
            self.position, self._depth = start, depth
        return result

    def ahead(self, parse: Callable[[], bool]) -> bool:
        """True if parse() is true of the tokens that follow. It neither reports nor moves."""
        start, depth = self.position, self._depth
        found = self.attempt(parse)
        self.position, self._depth = start, depth
        return bool(found)

    def repeat(self, parse: Callable[[], T], stop: str = "}") -> list[T]:
        """parse() until `stop`, resuming behind errors; goes past `stop`."""
        items = []
        while not self.at(stop):
            if self.at_end:
                self.fail(f"expected '{stop}'")
            with self.recovery():
                items.append(parse())
        self.position += 1
        return items

    @contextmanager
    def recovery(self) -> Iterator[None]:
        """After a syntax error in the block, go on behind the statement that began here."""
        start, depth, scopes = self.position, self._depth, len(self._types)
        try:
            yield
        except SyntaxFailure:
            if self._speculating:
                raise
            self._depth = depth
            del self._types[scopes:]
            self._skip_statement(start)

    def _skip_statement(self, start: int) -> None:
        level, i = 0, start
        while i < len(self.tokens) - 1:
            text = self.tokens[i].text
            if text == "{":
                level += 1
            elif text == "}":
                if level == 0:
                    break
                level -= 1
                if level == 0 and i >= self.position:
                    i += 1
                    break
            elif text == ";" and level == 0 and i >= self.position:
                i += 1
                break
            i += 1
        self.position = max(i, start + (self.tokens[start].text != "}"))

    def skip_declaration(self, start: int) -> None:
        """Go behind the `}` or `;` that ends the top-level declaration which began at `start`."""
        self._depth = 0
        del self._types[1:]
        level, i = 0, start
        while i < len(self.tokens) - 1:
            text = self.tokens[i].text
            if text == "{":
                level += 1
            elif text == "}":
                level -= 1
                if level <= 0 and i >= self.position:
                    i += 1
                    break
            elif text == ";" and level <= 0 and i >= self.position:
                i += 1
                break
            i += 1
        self.position = i

    # ---- names of types ----

    def is_type(self, name: str) -> bool:
        """True if `name` is the name of a type here."""
        return any(name in scope for scope in self._types)

    def at_base_type(self) -> bool:
        """True if a type follows that begins with a keyword."""
        token = self.token
        if token.text == "list":
            return token.kind == ID and self.peek().text == "<"
        return token.kind == ID and token.text in BASE_TYPES

    def at_type(self) -> bool:
        """True if a type follows."""
        token = self.token
        if token.kind != ID:
            return token.text == "."
        return self.at_base_type() or self.is_type(token.text)

    def add_type(self, name: str) -> None:
        """`name` is a type in the whole program."""
        self._types[0].add(name)

    def add_local_type(self, name: str) -> None:
        """`name` is a type in the innermost scope."""
        self._types[-1].add(name)

    @contextmanager
    def type_scope(self) -> Iterator[None]:
        """A scope of names of types."""
        scopes = len(self._types)
        self._types.append(set())
        try:
            yield
        finally:
            del self._types[scopes:]
