"""A program's text to its checked tree and instances: the first half of a compilation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from p4engine.frontend.checker.check_program import check
from p4engine.frontend.diagnostics import NOWHERE, Diagnostics, Fatal
from p4engine.frontend.parser.parse_program import parse
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine.middle.instantiate import Instances, instantiate

RECURSION = 50_000  # a chain of values is as deep as the program is long


@contextmanager
def deep() -> Iterator[None]:
    """Allow recursion as deep as programs are."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def load(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    confined_to: Path | None = None,
) -> tuple[Instances, Diagnostics]:
    """The instances of a program, and the texts of its files; arguments as of `compile_program`.

    Raises P4Error.
    """
    diagnostics = Diagnostics()
    try:
        with deep():
            folders = tuple(Path(d) for d in include_dirs)
            tokens, _ = preprocess(
                Path(path), dict(defines or {}), folders, diagnostics, confined_to
            )
            diagnostics.stop_on_errors()
            program = parse(tokens, diagnostics)
            diagnostics.stop_on_errors()
            checker = check(program, diagnostics)
            diagnostics.stop_on_errors()
            return instantiate(checker, diagnostics), diagnostics
    except Fatal:
        diagnostics.stop_on_errors()
        raise AssertionError from None
    except RecursionError:
        diagnostics.error(NOWHERE, "the program is nested too deeply for this compiler")
        diagnostics.stop_on_errors()
        raise AssertionError from None
