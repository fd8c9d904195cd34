"""A packet's trace for students: what their program decides, and not what the parser reads.

The trace of the P4 engine has a line for each field that the parser extracts and for each of 64
registers. In a lab the parser is given and the values are alike, so both are folded. `python -m
p4engine trace` shows everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

PARSER = "parser "
SHORT = 8  # lines of a parser that are not folded
ALIKE = 4  # lines of a kind from which on they are folded
_HEADER = re.compile(r"\s+hdr\.(\w+), bytes \d+ to \d+")
_NUMBERED = re.compile(r"(\b(?:value_|v))[0-9a-f]{2}\b")


def fold(lines: Sequence[str]) -> list[str]:
    """The trace with its parser in one line, and of lines that differ in a value's position only
    the first."""
    return list(_fold_alike(list(_fold_parser(lines))))


def _fold_parser(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at].startswith(PARSER):
            while end < len(lines) and lines[end][:1].isspace():
                end += 1
            names = [found[1] for line in lines[at:end] if (found := _HEADER.match(line))]
            if end - at > SHORT and names:
                yield f"{lines[at]}: {', '.join(names)} ({end - at - 1} lines folded)"
                at = end
                continue
        yield from lines[at:end]
        at = end


def _fold_alike(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        kind, end = _kind(lines[at]), at + 1
        while kind and end < len(lines) and _kind(lines[end]) == kind:
            end += 1
        if end - at >= ALIKE:
            yield lines[at]
            yield f"{' ' * _indent(lines[at])}({end - at - 1} more like it, for the other values)"
        else:
            yield from lines[at:end]
        at = end


def _kind(line: str) -> str:
    """The common part of lines about several values; "" for other lines."""
    found = _NUMBERED.search(line)
    return line[: found.start()] + found[1] if found else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
