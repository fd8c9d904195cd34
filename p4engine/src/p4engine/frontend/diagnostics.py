"""Messages of the compiler to the author of a P4 program.

A place is (file number, line, column), both counted from 1. Passes report through one
`Diagnostics` object and go on as long as they can, so that one run shows several errors;
`stop_on_errors` ends the compilation between passes with a `P4Error` that carries them all. The
texts of the source files are kept here because a message without its source line sends the
reader to the editor first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

MAX_ERRORS = 30


class Place(NamedTuple):
    """A position in a source file; `file` indexes `Diagnostics.files`."""

    file: int
    line: int
    column: int


NOWHERE = Place(-1, 0, 0)


@dataclass(frozen=True)
class Diagnostic:
    """One message; `severity` is "error" or "warning"."""

    severity: str
    message: str
    file: str
    line: int
    column: int
    source_line: str

    def __str__(self) -> str:
        if not self.file:
            return f"{self.severity}: {self.message}"
        text = f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}"
        if self.source_line.strip():
            pad = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.column - 1])
            text += f"\n    {self.source_line}\n    {pad}^"
        return text


class P4Error(Exception):
    """A program that cannot be compiled; `diagnostics` holds every message, the errors first."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(str(d) for d in diagnostics))


class InternalError(Exception):
    """A pass finds what an earlier one should have made impossible."""


class Fatal(Exception):
    """Raised inside a pass after an error from which that pass cannot go on."""


class Diagnostics:
    """Collects messages and knows the source text they refer to."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.lines: list[list[str]] = []
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._seen: set[tuple[Place, str]] = set()
        self.main = 0

    def add_file(self, name: str, text: str) -> int:
        """Add a source file; returns its number."""
        self.files.append(name)
        self.lines.append(text.split("\n"))
        return len(self.files) - 1

    def _make(self, severity: str, place: Place, message: str) -> Diagnostic:
        if place[0] < 0:
            return Diagnostic(severity, message, "", 0, 0, "")
        file, line, column = place
        lines = self.lines[file]
        source = lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""
        return Diagnostic(severity, message, self.files[file], line, column, source)

    def error(self, place: Place, message: str) -> None:
        """Record an error, once; raises Fatal after MAX_ERRORS of them."""
        key = (place, message)
        if key in self._seen:
            return
        self._seen.add(key)
        self.errors.append(self._make("error", place, message))
        if len(self.errors) >= MAX_ERRORS:
            raise Fatal

    def warning(self, place: Place, message: str) -> None:
        """Record a warning, once."""
        key = (place, message)
        if key not in self._seen:
            self._seen.add(key)
            self.warnings.append(self._make("warning", place, message))

    def fatal(self, place: Place, message: str) -> Fatal:
        """Record an error and return the exception to raise."""
        self.error(place, message)
        return Fatal()

    def stop_on_errors(self) -> None:
        """Raise P4Error if there are errors."""
        if self.errors:
            order = sorted(
                self.errors, key=lambda d: (d.file != self.files[self.main], d.file, d.line)
            )
            raise P4Error(order + self.warnings)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """ "; did you mean 'x'?" if one of `names` is close to `name`, else nothing."""
    close = difflib.get_close_matches(name, list(names), 1, 0.7)
    return f"; did you mean '{close[0]}'?" if close else ""
