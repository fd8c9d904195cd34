"""The files that a program includes, whichever of its conditions hold.

Who keeps, copies or compares a program needs all its files before its definitions are known. So
every branch of every condition counts here, and a file that cannot be found is left out: compiling
says so if it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from p4engine.frontend.diagnostics import Diagnostics, Fatal, Place
from p4engine.frontend.lexer import Token
from p4engine.frontend.preprocessor.preprocess import BUILTIN_INCLUDE, Conditional, Preprocessor


def included(path: Path, include_dirs: Iterable[Path] = ()) -> list[Path]:
    """The program's file, and what it includes, in the order of reading, without the files that
    come with the compiler."""
    found = _AllBranches(Diagnostics(), tuple(include_dirs))
    try:
        found.run(path)
    except (Fatal, RecursionError):
        pass
    files = found.files_read or [path]
    return [each for each in files if not each.is_relative_to(BUILTIN_INCLUDE)]


class _AllBranches(Preprocessor):
    """Follows the includes of all branches, each file once; text goes nowhere."""

    def _file(self, path: Path, place: Place | None, depth: int) -> None:
        if path not in self.files_read:
            super()._file(path, place, depth)

    def _emit(self, tokens: list[Token]) -> None:
        pass

    def _directive(
        self,
        line: list[Token],
        open_ifs: list[Conditional],
        active: bool,
        path: Path,
        depth: int,
    ) -> None:
        if len(line) > 1 and line[1].text in ("include", "define"):
            super()._directive(line, open_ifs, active, path, depth)

    def _include(self, rest: list[Token], place: Place, path: Path, depth: int) -> None:
        try:
            super()._include(rest, place, path, depth)
        except Fatal:
            pass
