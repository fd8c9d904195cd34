"""Single changes of a P4 file, found by the tokens of the engine's own lexer.

Most files in p4/ are pieces that other files include, so they cannot be parsed alone; tokens are
enough to tell statements from declarations. Code in macros is changed, too. What makes a program
that the compiler refuses is no mutant, and is found out when it is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.lexer import ID, NEWLINE, NUMBER, OP, Token, tokenize

from tests.support.mutants.change import (
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

OPERATORS = {
    **{"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    **{"&&": "||", "||": "&&", "&": "|", "|": "&", "^": "&"},
    **{"+": "-", "-": "+", "*": "+", "/": "*", "<<": ">>", ">>": "<<"},
    **{"!": "", "~": ""},
}
SHARED = (ROOT / "labs" / "common",)  # of programs that are not in p4/
DIRECTIVES = {"ifdef": "ifndef", "ifndef": "ifdef"}
GENERIC = ("bit", "int", "varbit", "register", "counter", "meter")
NAMED = re.compile(r"[A-Z][A-Z0-9_]+")
CONST = re.compile(r"^const\s+(\S+)\s+(\w+)\s*=", re.MULTILINE)
# What begins no statement though a name follows it.
NO_STATEMENT = {
    *("if", "else", "switch", "select", "transition", "state", "action", "table", "control"),
    *("parser", "const", "typedef", "header", "struct", "apply", "key", "actions", "size"),
    *("default_action", "default", "register", "counter", "meter", "bit"),
}


def changes(file: str, text: str | None = None) -> list[Change]:
    """All changes of `file`, its path in the checkout, or of a text that takes its place."""
    return numbered(_Changes(file, text or (ROOT / file).read_text()).all())


def _families(folder: Path) -> dict[str, str]:
    """For each named constant the next one of its type in its list (of lines without a gap), the
    first after the last."""
    following = {}
    for path in sorted(folder.glob("*.p4")):
        for block in re.split(r"\n(?!const)", path.read_text()):
            by_type: dict[str, list[str]] = {}
            for kind, name in CONST.findall(block):
                by_type.setdefault(kind, []).append(name)
            for names in by_type.values():
                if len(names) > 1:
                    following |= dict(zip(names, [*names[1:], names[0]], strict=True))
    return following


class _Changes:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.starts = [0, *(n + 1 for n, character in enumerate(text) if character == "\n")]
        folders = [ROOT / "p4"] if file.startswith("p4/") else [(ROOT / file).parent, *SHARED]
        self.families = {k: v for folder in folders for k, v in _families(folder).items()}

    def all(self) -> Iterator[Change]:
        line: list[Token] = []
        code: list[Token] = []
        for token in tokenize(self.text, 0, Diagnostics()):
            if token.kind != NEWLINE:
                line.append(token)
                continue
            if line and line[0].text == "#":
                yield from self._directive(line)
            else:
                code += line
            line = []
        yield from self._code(code, executed=True)

    def _directive(self, line: list[Token]) -> Iterator[Change]:
        if len(line) < 2:
            return
        name, rest = line[1].text, line[2:]
        if name in DIRECTIVES and not rest[0].text.endswith("_P4"):  # no include guard
            yield self._change(BRANCH, line[1], line[1], DIRECTIVES[name], 0, 0)
        elif name in ("if", "elif"):
            yield from self._tokens(rest, 0, 0)
        elif name == "define":
            closing = 0
            if len(rest) > 1 and rest[1].text == "(" and not rest[1].spaced:
                closing = next(i for i, token in enumerate(rest) if token.text == ")")
            yield from self._code(rest[closing + 1 :], executed=False)

    def _code(self, tokens: list[Token], executed: bool) -> Iterator[Change]:
        """Changes in statements, conditions and declarations."""
        braces: list[str] = []  # the owner of each open {
        begin = 0
        place = 0
        while place < len(tokens):
            text = tokens[place].text
            opens = text == "("
            if text == "{" and place and tokens[place - 1].text != "=" or text == "}":
                head = tokens[begin].text
                yield from self._plain(tokens[begin:place], executed, braces)
                if text == "{":
                    braces.append(head)
                elif braces:
                    braces.pop()
                begin = place + 1
            elif text == "{":  # a list
                place = closing(tokens, place)
            elif text == ";":
                yield from self._plain(tokens[begin : place + 1], executed, braces)
                begin = place + 1
            elif text in ("if", "switch") and tokens[place + 1].text == "(":
                end = closing(tokens, place + 1)
                yield from self._condition(tokens[place + 1 : end + 1], executed)
                begin, place = end + 1, end
            elif opens:
                place = closing(tokens, place)
            place += 1
        yield from self._plain(tokens[begin:], executed, braces)

    def _condition(self, tokens: list[Token], executed: bool) -> Iterator[Change]:
        """`tokens` from ( to ). Its branches swapped is the condition negated."""
        lines = self._lines(tokens) if executed else (0, 0)
        inside = self.text[self._at(tokens[0]) : self._end(tokens[-1])]
        yield self._change(BRANCH, tokens[0], tokens[-1], f"(!{inside})", *lines)
        compared = [t for t in tokens if t.text in ("==", "!=", "<", ">", "<=", ">=", "&&", "||")]
        negated = len(compared) == 1 and compared[0].text in ("==", "!=")
        for change in self._tokens(tokens, *lines):
            if not (negated and change.start == self._at(compared[0])):  # the same once more
                yield change

    def _plain(self, tokens: list[Token], executed: bool, braces: list[str]) -> Iterator[Change]:
        """A statement with its semicolon, a declaration, or the head of a block."""
        while tokens and tokens[0].text in ("else", "apply"):
            tokens = tokens[1:]
        if not tokens:
            return
        first = tokens[0].text
        in_table = "table" in braces
        in_type = bool(braces) and braces[-1] in ("struct", "header")
        statement = (
            len(tokens) > 2
            and tokens[-1].text == ";"
            and tokens[0].kind == ID
            and first not in NO_STATEMENT
            and tokens[1].text in (".", "(", "=", "##")
            and (tokens[1].text != "(" or tokens[-2].text == ")")  # no instance of a control
            and not in_table
            and not in_type
        ) or [t.text for t in tokens] == ["return", ";"]
        selects = bool(braces) and braces[-1] == "transition"
        lines = self._lines(tokens) if executed and (statement or first == "transition") else (0, 0)
        if statement:
            whole = self.text[self._at(tokens[0]) : self._end(tokens[-1])]
            yield self._change(REMOVED, tokens[0], tokens[-1], f"{blank(whole)};", *lines)
        if first in ("size", "typedef", "key", "actions") or in_type:
            return
        if in_table and first != "default_action" and not selects:
            return
        skipped = 0
        if first == "const":
            skipped = next((i for i, t in enumerate(tokens) if t.text == "="), 0)
        yield from self._tokens(tokens[skipped:], *lines)

    def _tokens(self, tokens: list[Token], first: int, last: int) -> Iterator[Change]:
        """Operators and constants."""
        skip_to = 0
        for place, token in enumerate(tokens):
            if place < skip_to:
                continue
            before = tokens[place - 1] if place else None
            if token.text == "<" and before is not None and before.text in GENERIC:
                skip_to = _closing_angle(tokens, place)
            elif token.text == "@":
                skip_to = place + 3
            elif token.kind == OP and token.text in OPERATORS:
                yield self._change(OPERATOR, token, token, OPERATORS[token.text], first, last)
            elif token.kind == NUMBER and (before is None or before.text not in ("[", ":", "##")):
                yield self._change(CONSTANT, token, token, _other(token.text), first, last)
            elif token.text in ("true", "false"):
                new = "false" if token.text == "true" else "true"
                yield self._change(CONSTANT, token, token, new, first, last)
            elif token.kind == ID and NAMED.fullmatch(token.text) and token.text in self.families:
                new = self.families[token.text]
                yield self._change(CONSTANT, token, token, new, first, last)

    def _change(
        self, kind: str, begin: Token, end: Token, new: str, first: int, last: int
    ) -> Change:
        start, stop = self._at(begin), self._end(end)
        words = worded(self.text, start, stop, new)
        line = begin.place.line
        return Change(self.file, kind, start, stop, new, first, last, line, words)

    def _at(self, token: Token) -> int:
        return self.starts[token.place.line - 1] + token.place.column - 1

    def _end(self, token: Token) -> int:
        return self._at(token) + len(token.text)

    @staticmethod
    def _lines(tokens: list[Token]) -> tuple[int, int]:
        return tokens[0].place.line, tokens[-1].place.line


def _closing_angle(tokens: list[Token], place: int) -> int:
    """The token behind the > that closes the < at `place`."""
    depth = 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].text == "<") - (tokens[at].text == ">") - 2 * (tokens[at].text == ">>")
        if depth <= 0:
            return at + 1
    return len(tokens)


def _other(number: str) -> str:
    """Another number, written as this one."""
    width, letter, digits = number.partition("w")
    if letter:
        return f"{width}w{_other(digits)}"
    if number in ("0", "1"):
        return "10"[int(number)]
    if number.lower().startswith("0x"):
        return f"0x{int(number, 16) + 1:0{len(number) - 2}x}"
    return str(int(number) + 1)
