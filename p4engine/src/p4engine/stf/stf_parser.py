"""The simple test format (STF) of the P4 community: text to statements.

A test is a list of statements, one per line: packets in, packets expected, table entries, and
commands of BMv2's command line. The format has no document of its own; what p4c's parser accepts
is accepted here, and a few friendly spellings more: positional parameters, addresses, lpm and
range values, data over several lines. Everything is checked here as far as it can be without the
program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from p4engine.frontend.diagnostics import did_you_mean
from p4engine.values.numbers import ControlError

# Statements that are commands of BMv2's command line, passed on as they are.
DIRECT = (
    "counter_read",
    "counter_reset",
    "counter_write",
    "mc_mgrp_create",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_update",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "register_read",
    "register_reset",
    "register_write",
)
PACKETS = ("packet", "expect")
OTHERS = ("add", "setdefault", "no_packet", "check_counter", "wait", "remove")
KEYWORDS = (*PACKETS, *OTHERS, *DIRECT)
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")

_TOKEN = re.compile(
    r'"[^"]*"'
    r"|(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![0-9a-zA-Z])"
    r"|\d+\.\d+\.\d+\.\d+"
    r"|0[xX][0-9a-fA-F*]+|0[bB][01*]+|0[oO][0-7*]+|\d+\.\d+(?!\.)|\d+"
    r"|[A-Za-z_$][\w$]*"
    r"|&&&|->|\.\.|==|!=|<=|>=|\S"
)


class StfError(ControlError):
    """A test that cannot be understood or run; the message begins with file and line."""


@dataclass(frozen=True)
class Value:
    """The pattern for a key: `text`, or two numbers joined by `join` ("/", "&&&", "->")."""

    text: str
    join: str = ""
    second: str = ""


@dataclass(frozen=True)
class Statement:
    """One statement; which fields are used depends on `kind`.

    packet, expect: port, data (hexadecimal digits; an expected packet also `*`, and `$` at its end;
    None where only a packet is expected). add, setdefault: table, priority, matches, action,
    arguments (name or None, value). check_counter: table (the counter's name), words (index, what,
    comparison, number). All others: words, the command as it stands.
    """

    line: int
    kind: str
    port: int = 0
    data: str | None = None
    table: str = ""
    priority: int | None = None
    matches: tuple[tuple[str, Value], ...] = ()
    action: str = ""
    arguments: tuple[tuple[str | None, str], ...] = ()
    words: tuple[str, ...] = ()
    entry: str | None = None


def parse(text: str, name: str = "") -> list[Statement]:
    """All statements of a test. Raises StfError for the first that cannot be understood."""
    made = []
    for line, keyword, rest in _lines(text, name):
        try:
            made.append(_statement(line, keyword, rest))
        except StfError as error:
            raise StfError(f"{name}:{line}: {error}\n    {keyword} {rest.strip()}") from None
    return made


def _lines(text: str, name: str) -> list[tuple[int, str, str]]:
    """(line number, keyword in lower case, rest); continued lines are joined."""
    found: list[list[Any]] = []
    for count, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw).strip().lstrip("\ufeff")
        if not line:
            continue
        parts = re.match(r"(\w+)(.*)", line, re.DOTALL)
        word = parts[1].lower() if parts else ""
        if parts and word in KEYWORDS:
            found.append([count, word, parts[2]])
            continue
        previous = found[-1] if found else None
        if previous and _continues(previous[1], previous[2], line):
            previous[2] += " " + line
            continue
        hint = did_you_mean(word, KEYWORDS)
        raise StfError(f"{name}:{count}: there is no statement {word or line!r}{hint}\n    {line}")
    return [(line, word, rest) for line, word, rest in found]


def _without_comment(line: str) -> str:
    quoted = False
    for i, c in enumerate(line):
        if c == '"':
            quoted = not quoted
        elif not quoted and (c == "#" or line.startswith("//", i)):
            return line[:i]
    return line


def _continues(keyword: str, so_far: str, line: str) -> bool:
    if keyword in PACKETS:
        return re.fullmatch(r"[0-9a-fA-F*$\s]+", line) is not None
    opened, closed = so_far.count("("), so_far.count(")")
    return keyword in ("add", "setdefault") and (not opened or opened > closed)


def _statement(line: int, keyword: str, rest: str) -> Statement:
    if keyword in PACKETS:
        return _packet(line, keyword, rest)
    if keyword in DIRECT:
        return Statement(line, keyword, words=tuple(_direct_words(rest)))
    tokens = _Tokens(_TOKEN.findall(rest))
    if keyword == "add":
        return _add(line, tokens)
    if keyword == "setdefault":
        table = tokens.name("the table's name")
        action, arguments = _action(tokens)
        tokens.end()
        return Statement(line, keyword, table=table, action=action, arguments=arguments)
    if keyword == "check_counter":
        return _check_counter(line, tokens)
    return Statement(line, keyword, words=tuple(tokens.rest()))


def _packet(line: int, keyword: str, rest: str) -> Statement:
    parts = rest.split()
    if not parts or not parts[0].isdigit():
        raise StfError(f"{keyword} needs the number of a port first")
    port = int(parts[0])
    data = "".join(p[2:] if p[:2] in ("0x", "0X") else p for p in parts[1:]).upper()
    allowed = r"[0-9A-F]*" if keyword == "packet" else r"[0-9A-F*]*\$?"
    if not re.fullmatch(allowed, data):
        wrong = re.sub(r"[0-9A-F]" if keyword == "packet" else r"[0-9A-F*]", "", data)
        raise StfError(f"{wrong[:1]!r} cannot stand in the data of a {keyword}")
    if keyword == "packet" and not data:
        raise StfError("a packet needs data")
    return Statement(line, keyword, port=port, data=data or None)


def _direct_words(rest: str) -> list[str]:
    """The words of a command; blanks around the colon of a rate are allowed."""
    return re.sub(r"\s*:\s*", ":", rest.replace('"', "")).split()


class _Tokens:
    """The tokens of one statement, taken from the left."""

    def __init__(self, tokens: list[str]):
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    def take(self, what: str = "something more") -> str:
        token = self.peek()
        if not token:
            raise StfError(f"{what} is missing at the end")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        got = self.take(repr(token))
        if got != token:
            raise StfError(f"{token!r} is expected where {got!r} stands")

    def rest(self) -> list[str]:
        made, self.at = self.tokens[self.at :], len(self.tokens)
        return made

    def end(self) -> None:
        if self.peek():
            raise StfError(f"{self.peek()!r} stands behind the end of the statement")

    def is_name(self) -> bool:
        return re.match(r'["A-Za-z_$.]', self.peek()) is not None

    def is_number(self) -> bool:
        return re.match(r"\d|-|[0-9a-fA-F]{2}:", self.peek()) is not None

    def name(self, what: str) -> str:
        """A.b[1].c, with any part quoted."""
        token = self.take(what)
        if not re.match(r'["A-Za-z_$.]', token):
            raise StfError(f"{what} is expected where {token!r} stands")
        made = token.strip('"')
        while True:
            if self.peek() == "[":
                while self.peek() != "]":
                    made += self.take("']'")
                made += self.take()
            elif made.endswith(".") and self.is_name():
                made += self.take().strip('"')
            elif self.peek() == ".":
                made += self.take()
            elif self.peek() == "(" and self.peek(1) == ")" and self.peek(2) == ":":
                made += self.take() + self.take()  # hdr.h.isValid():1
            else:
                return made.lstrip(".")

    def number(self, what: str) -> str:
        token = self.take(what)
        if token == "-":
            return "-" + self.take(what)
        if not re.match(r"\d|[0-9a-fA-F]{2}:", token) and token not in ("true", "false"):
            raise StfError(f"{what} is expected where {token!r} stands")
        return {"true": "1", "false": "0"}.get(token, token)

    def value(self) -> Value:
        first = "0x*" if self.accept("*") else self.number("a value")
        for mark, join in (("/", "/"), ("&&&", "&&&"), ("->", "->"), ("..", "->")):
            if self.accept(mark):
                return Value(first, join, self.number("a value"))
        return Value(first)


def _add(line: int, tokens: _Tokens) -> Statement:
    table = tokens.name("the table's name")
    priority = None
    if tokens.is_number():
        text = tokens.number("a priority")
        try:
            priority = int(text, 0) if not text.isdigit() else int(text)
        except ValueError:
            raise StfError(f"the priority {text!r} is not a whole number") from None
    matches = []
    while True:
        name = tokens.name("a key or the action")
        if not tokens.accept(":"):
            break
        matches.append((name, tokens.value()))
    action, arguments = _action(tokens, name)
    entry = tokens.name("a name for the entry") if tokens.accept("=") else None
    tokens.end()
    return Statement(
        line,
        "add",
        table=table,
        priority=priority,
        matches=tuple(matches),
        action=action,
        arguments=arguments,
        entry=entry,
    )


def _action(
    tokens: _Tokens, name: str | None = None
) -> tuple[str, tuple[tuple[str | None, str], ...]]:
    action = name or tokens.name("the action")
    arguments: list[tuple[str | None, str]] = []
    if tokens.accept("("):
        while not tokens.accept(")"):
            named = tokens.is_name() and tokens.peek() not in ("true", "false")
            label = tokens.name("a parameter") if named else None
            if named:
                tokens.expect("=" if tokens.peek() == "=" else ":")
            arguments.append((label, tokens.number("a value")))
            if not tokens.accept(","):
                tokens.expect(")")
                break
    return action, tuple(arguments)


def _check_counter(line: int, tokens: _Tokens) -> Statement:
    name = tokens.name("the counter's name")
    index = "0"
    if tokens.accept("("):
        index = tokens.take("an index")
        tokens.expect(")")
    elif name.endswith("]"):  # cnt[3] for cnt(3)
        name, _, index = name[:-1].rpartition("[")
    words = [index]
    if tokens.peek():
        kind = tokens.take().lower()
        if kind not in ("packets", "bytes"):
            raise StfError(f"'packets' or 'bytes' is expected where {kind!r} stands")
        comparison = tokens.take("a comparison")
        if comparison not in COMPARISONS:
            raise StfError(f"a comparison is expected where {comparison!r} stands")
        words += [kind, comparison, tokens.number("a number")]
    tokens.end()
    return Statement(line, "check_counter", table=name, words=tuple(words))
