"""P4 source to a shared object: the passes of the compiler, and the cache in front of them.

A program is kept in the cache (cache.py) under a key made of its tokens after preprocessing (with
their places: messages and log texts name lines), the sources of this compiler and of the runtime,
the C compiler's version and the flags.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from p4engine.backend.c_build import build_shared_object, find_target
from p4engine.backend.cache import cache_folder, digest, failure, prune, replace, touch
from p4engine.frontend.diagnostics import NOWHERE, Diagnostic, Diagnostics, Fatal, P4Error
from p4engine.frontend.lexer import Token
from p4engine.program_info import ProgramInfo

ENGINE = Path(__file__).parents[1]
# The folders whose Python decides what C comes of a program.
COMPILER = ("frontend", "middle", "backend")
RECURSION = 20_000


@dataclass(frozen=True)
class Compiled:
    """A compiled program: `so_path` exports p4_program_get(), `info` names its objects."""

    so_path: Path
    info: ProgramInfo
    hash: str
    warnings: list[Diagnostic] = field(default_factory=list)
    cached: bool = False


def _sources() -> list[Path]:
    """The compiler's own sources, on which every compiled program depends."""
    return sorted(path for folder in COMPILER for path in (ENGINE / folder).rglob("*.py"))


def compile_program(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    *,
    trace: bool = False,
    cache: Path | None = None,
    confined_to: Path | None = None,
) -> Compiled:
    """Compile a P4-16 program for v1model, or take it from the cache.

    With `trace` the program also tells what it does (emit_trace.py), and is slow. `cache` is the
    folder to use instead of the user's own. With `confined_to`, files are only included from below
    that folder: for programs of people who must not read this machine's files.

    Raises P4Error, which carries every diagnostic, for a program with errors, a missing C compiler,
    or a cache that cannot be used.
    """
    from p4engine.frontend.preprocessor.preprocess import preprocess

    diagnostics = Diagnostics()
    path = Path(path)
    try:
        tokens, _ = preprocess(
            path,
            dict(defines or {}),
            tuple(Path(d) for d in include_dirs),
            diagnostics,
            confined_to,
        )
    except Fatal:
        diagnostics.stop_on_errors()
        raise AssertionError from None
    except RecursionError:
        raise failure("macros are nested too deeply") from None
    target = find_target()
    compiler = digest([p.read_bytes() for p in _sources()])
    names = [Path(f).name for f in diagnostics.files]
    text = "\n".join(f"{t[1]}\t{t[2][0]}.{t[2][1]}.{t[2][2]}" for t in tokens)
    key = digest([target.digest, compiler, text, *names, *(["trace"] if trace else [])])
    folder = cache or cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure(f"cannot make the cache {folder}: {error.strerror}") from None
    so_path, info_path = folder / f"{key}.so", folder / f"{key}.json"
    if not diagnostics.errors and (found := compiled_before(so_path)):
        return found
    c_text, info = translate(tokens, diagnostics, path.name, trace)
    build_shared_object(c_text, target, folder, so_path, fast=not trace)
    payload = {"info": info.to_json(), "warnings": [vars(w) for w in diagnostics.warnings]}
    replace(info_path, json.dumps(payload).encode())
    prune(folder)
    return Compiled(so_path, info, key, diagnostics.warnings)


def compiled_before(so_path: Path) -> Compiled | None:
    """What `compile_program` has put into the cache as `so_path`; None where that is gone or
    damaged. It looks at no source, so it takes no time."""
    info_path = so_path.with_suffix(".json")
    try:
        saved = json.loads(info_path.read_text())
        warnings = [Diagnostic(**w) for w in saved["warnings"]]
        info = ProgramInfo.from_json(saved["info"])
        touch(so_path, info_path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Compiled(so_path, info, so_path.stem, warnings, True) if so_path.exists() else None


def translate(
    tokens: list[Token], diagnostics: Diagnostics, name: str, trace: bool = False
) -> tuple[str, ProgramInfo]:
    """Tokens to (C text, info); raises P4Error."""
    from p4engine.backend.emit_program import generate
    from p4engine.backend.emit_trace import EventTrace
    from p4engine.frontend.checker.check_program import check
    from p4engine.frontend.checker.check_usage import check_usage
    from p4engine.frontend.parser.parse_program import parse

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION))
    try:
        diagnostics.stop_on_errors()
        program = parse(tokens, diagnostics)
        diagnostics.stop_on_errors()
        checker = check(program, diagnostics)
        diagnostics.stop_on_errors()
        check_usage(program, diagnostics)
        c_text, info = generate(checker, diagnostics, name, EventTrace if trace else None)
        diagnostics.stop_on_errors()
        return c_text, info
    except Fatal:
        diagnostics.stop_on_errors()
        raise failure("the program cannot be compiled") from None
    except RecursionError:
        diagnostics.error(NOWHERE, "the program is nested too deeply for this compiler")
        diagnostics.stop_on_errors()
        raise AssertionError from None
    except P4Error:
        raise
    except Exception as error:
        if os.environ.get("P4ENGINE_DEBUG"):
            raise
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        spot = f"{Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else "?"
        raise failure(
            f"internal error of the P4 compiler ({type(error).__name__}: {error}; {spot});"
            " P4ENGINE_DEBUG=1 shows more. Please report it with the program."
        ) from None
    finally:
        sys.setrecursionlimit(limit)
