"""Single changes of a C file of the engine's runtime, found by its tokens.

Bodies of functions and macros are changed. Types are unknown to it, so some changes do not compile;
they are no mutants. Tests are not told apart by the lines that they execute: all of a file's tests
(campaign.OF_RUNTIME) may notice each of its changes.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from tests.support.mutants.change import (
    BRACKETS,
    BRANCH,
    CONSTANT,
    OPERATOR,
    REMOVED,
    Change,
    blank,
    closing,
    numbered,
    worded,
)
from tests.support.paths import ROOT

TOKEN = re.compile(
    r"(?P<skipped>\s+|\\\n|/\*.*?\*/|//[^\n]*)"
    r"|(?P<directive>^\#(?:/\*.*?\*/|\\\n|[^\n])*)"
    r"|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<number>0[xX]\w+|\.?\d(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><<=|>>=|->|\+\+|--|&&|\|\||\#\#|<<|>>|[-+*/%&|^=!<>]=|.)",
    re.DOTALL | re.MULTILINE,
)
DEFINE = re.compile(r"#\s*define\s+\w+(\([^)]*\))?")
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)([uUlL]*)")
COMPARED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPERATORS = {
    **COMPARED,
    **{"&&": "||", "||": "&&", "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<"},
    **{"+": "-", "-": "+", "*": "+", "/": "*", "%": "/"},
    **{"+=": "-=", "-=": "+=", "*=": "+=", "|=": "&=", "&=": "|=", "^=": "&="},
    **{"<<=": ">>=", ">>=": "<<="},
}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


def changes(file: str, text: str | None = None) -> list[Change]:
    """All changes of `file`, its path in the checkout, or of a text that takes its place."""
    return numbered(_Changes(file, text or (ROOT / file).read_text()).all())


class _Changes:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    def all(self) -> Iterator[Change]:
        tokens = self._tokens(0, len(self.text))
        yield from self._functions([t for t in tokens if t.kind != "directive"])
        for token in tokens:
            head = DEFINE.match(token.text)
            if head is None:
                continue
            body = self._tokens(token.start + head.end(), token.end)
            if any(t.text == "{" for t in body):
                yield from self._functions(body)
            else:
                yield from self._expression(body)

    def _tokens(self, start: int, end: int) -> list[Token]:
        found = []
        while start < end:
            match = TOKEN.match(self.text, start, end)
            assert match is not None and match.lastgroup is not None
            if match.lastgroup != "skipped":
                found.append(Token(match.lastgroup, match[0], start, match.end()))
            start = match.end()
        return found

    def _functions(self, tokens: list[Token]) -> Iterator[Change]:
        """The bodies of functions; not the members of types, nor data."""
        place = 0
        while place < len(tokens):
            if tokens[place].text == "{":
                end = closing(tokens, place)
                if place and tokens[place - 1].text == ")":
                    yield from self._block(tokens[place + 1 : end])
                place = end
            place += 1

    def _block(self, tokens: list[Token]) -> Iterator[Change]:
        place = 0
        while place < len(tokens):
            place = yield from self._statement(tokens, place)

    def _statement(
        self, tokens: list[Token], place: int, branch: bool = False
    ) -> Generator[Change, None, int]:
        """Changes of the statement at `place`; returns the place behind it. branch: it is that of a
        condition or loop, so that it can be removed whole."""
        first = tokens[place].text
        second = tokens[place + 1].text if place + 1 < len(tokens) else ""
        if first == "{":
            end = closing(tokens, place)
            inside = tokens[place + 1 : end]
            if branch and (sum(t.text == ";" for t in inside) > 1 or inside[0].text == "return"):
                yield self._remove(tokens[place : end + 1], "{}")
            yield from self._block(inside)
            return end + 1
        if first in ("if", "while", "for", "switch"):
            end = closing(tokens, place + 1)
            if first in ("for", "switch"):
                yield from self._expression(tokens[place + 2 : end])
            else:
                yield from self._condition(tokens[place + 1 : end + 1])
            place = yield from self._statement(tokens, end + 1, branch=first != "switch")
            if first == "if" and place < len(tokens) and tokens[place].text == "else":
                place = yield from self._statement(tokens, place + 1, branch=True)
            return place
        if first == "do":
            place = yield from self._statement(tokens, place + 1)
            end = closing(tokens, place + 1)
            yield from self._condition(tokens[place + 1 : end + 1])
            return end + 2
        if first in ("case", "default") or second == ":":
            return next(n for n in range(place, len(tokens)) if tokens[n].text == ":") + 1
        end = place
        while end < len(tokens) - 1 and tokens[end].text != ";":
            end = closing(tokens, end) + 1 if tokens[end].text in BRACKETS else end + 1
        yield from self._plain(tokens[place : end + 1], branch)
        return end + 1

    def _plain(self, tokens: list[Token], branch: bool) -> Iterator[Change]:
        """A statement with its semicolon, or a declaration."""
        texts = [token.text for token in tokens]
        if texts[0] in (";", "(") and "void" in texts[:2]:
            return
        jump = texts[0] in ("return", "break", "continue", "goto")
        declared = not jump and tokens[0].kind == "name" and len(tokens) > 1
        declared = declared and (tokens[1].kind == "name" or texts[1] in ("*", "##"))
        if declared:  # what follows an array's size or a name
            tokens = tokens[texts.index("=") :] if "=" in texts else []
        elif texts[0] != "return" or branch or len(tokens) == 2:
            yield self._remove(tokens, ";")
        yield from self._expression(tokens)

    def _condition(self, tokens: list[Token]) -> Iterator[Change]:
        """`tokens` from ( to ). Its branches swapped is the condition negated."""
        inside = self.text[tokens[0].start : tokens[-1].end]
        if len(tokens) > 3 or tokens[1].kind != "number":  # not an endless loop
            yield self._change(BRANCH, tokens[0].start, tokens[-1].end, f"(!{inside})")
        joined = [t for t in tokens if t.text in COMPARED or t.text in ("&&", "||")]
        negated = joined if len(joined) == 1 and joined[0].text in ("==", "!=") else []
        for change in self._expression(tokens):
            if not any(change.start == token.start for token in negated):  # the same once more
                yield change

    def _expression(self, tokens: list[Token]) -> Iterator[Change]:
        """Operators and numbers."""
        for place, token in enumerate(tokens):
            before = tokens[place - 1] if place else None
            after = tokens[place + 1].text if place + 1 < len(tokens) else ""
            value = before is not None and (
                before.text in (")", "]", "}")
                or (before.kind != "operator" and before.text not in ("return", "sizeof"))
            )
            pointer = token.text == "*" and after in ("*", ")")  # a cast
            if token.kind == "number":
                new = _other(token.text)
                if new is not None:
                    yield self._change(CONSTANT, token.start, token.end, new)
            elif token.text in ("!", "~"):
                yield self._change(OPERATOR, token.start, token.end, "")
            elif token.text in OPERATORS and value and not pointer:
                yield self._change(OPERATOR, token.start, token.end, OPERATORS[token.text])

    def _remove(self, tokens: list[Token], left: str) -> Change:
        start, end = tokens[0].start, tokens[-1].end
        return self._change(REMOVED, start, end, blank(self.text[start:end]) + left)

    def _change(self, kind: str, start: int, end: int, new: str) -> Change:
        words = worded(self.text, start, end, new)
        line = self.text.count("\n", 0, start) + 1
        return Change(self.file, kind, start, end, new, 0, 0, line, words)


def _other(number: str) -> str | None:
    """The next whole number, written as this one, or 0 for 1; None: it is not whole."""
    match = INTEGER.fullmatch(number)
    if match is None:
        return None
    value = int(match[1], 16 if match[1][:2].lower() == "0x" else 10)
    value = {0: 1, 1: 0}.get(value, value + 1)
    return (f"{value:#x}" if "x" in match[1].lower() else str(value)) + match[2]
