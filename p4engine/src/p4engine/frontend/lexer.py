"""Text to tokens.

The preprocessor needs tokens (to expand macros where they stand, and to paste with ##), so
lexing comes first and the preprocessor maps tokens to tokens; every token keeps the place that a
message should name.

A token is a plain tuple (kind, text, place, spaced): thousands are made even when the compiled
program comes from the cache. `>` is never joined with what follows except in `>=`, because
`bit<bit<8>>` closes two lists; the parser joins `>` `>` by their columns.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from p4engine.frontend.diagnostics import Diagnostics, Place

ID, NUMBER, STRING, OP, NEWLINE, END = "id", "number", "string", "op", "newline", "end"
OTHER = (
    "other"  # a character that begins no token; only annotations and text that is skipped have it
)


class Token(NamedTuple):
    """`spaced`: white space stood before it (only the preprocessor cares)."""

    kind: str
    text: str
    place: Place
    spaced: bool = False


_PATTERN = re.compile(
    r"""
    (?P<space>(?:[ \t\r\f\v]|\\\r?\n)+)
  | (?P<newline>\n)
  | (?P<id>[A-Za-z_]\w*)
  | (?P<number>\d\w*)
  | (?P<line>//(?:\\\r?\n|[^\n])*)
  | (?P<block>/\*.*?\*/)
  | (?P<string>"(?:[^"\\\n]|\\.|\n(?![ \t]*\#))*")  # may go over lines, not over directives
  | (?P<op>\|\+\|=|\|-\|=|<<=|&&&|\|\+\||\|-\||\.\.\.|\#\#|\.\.|\+\+|&&|\|\||==|!=|<=|>=|<<
      |\+:|\+=|-=|\*=|/=|%=|&=|\|=|\^=|[-+*/%&|^~!<>=?:;,.(){}\[\]@\#])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokenize(text: str, file: int, diagnostics: Diagnostics) -> list[Token]:
    """All tokens of one file with NEWLINE tokens between lines."""
    tokens, unclosed = _tokens(text, file)
    if unclosed is not None:
        diagnostics.error(unclosed, "this comment is never closed")
    return list(tokens)


@lru_cache(maxsize=128)  # programs of one process mostly differ in what is defined for them
def _tokens(text: str, file: int) -> tuple[tuple[Token, ...], Place | None]:
    """The tokens, and where a comment begins that is never closed."""
    tokens: list[Token] = []
    append = tokens.append
    unclosed = None
    line, start, spaced = 1, 0, False
    for match in _PATTERN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        begin = match.start()
        if kind == "space" or kind == "line":
            spaced = True
            newlines = match.group().count("\n")
        elif kind == "newline":
            append(Token(NEWLINE, "\n", Place(file, line, begin - start + 1), spaced))
            line += 1
            start = match.end()
            spaced = False
            continue
        elif kind == "block":
            spaced = True
            newlines = match.group().count("\n")
        else:
            if kind == "op" and match.group() == "/" and text.startswith("/*", begin):
                unclosed = Place(file, line, begin - start + 1)
                break
            append(Token(kind, match.group(), Place(file, line, begin - start + 1), spaced))
            spaced = False
            if kind != "string":
                continue
            newlines = match.group().count("\n")
        if newlines:
            line += newlines
            start = begin + match.group().rindex("\n") + 1
    append(Token(NEWLINE, "\n", Place(file, line, len(text) - start + 1), spaced))
    return tuple(tokens), unclosed


def parse_number(text: str) -> tuple[int, int | None, bool] | None:
    """(value, width or None, signed) of a number token, or None if it is malformed."""
    match = re.fullmatch(
        r"(?:(\d+)([ws]))?(?:(0[xX]|0[oO]|0[bB]|0[dD])([0-9a-fA-F_]+)|(\d[\d_]*))", text
    )
    if not match:
        return None
    width, sign, prefix, digits, decimal = match.groups()
    base = {"x": 16, "o": 8, "b": 2, "d": 10}[prefix[1].lower()] if prefix else 10
    try:
        value = int((digits or decimal).replace("_", ""), base)
    except ValueError:
        return None
    return value, int(width) if width else None, sign == "s"
