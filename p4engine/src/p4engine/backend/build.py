"""P4 source to a shared object: the passes of the compiler, and the cache in front of them.

A program is kept in the cache (cache.py) under a key made of its tokens after preprocessing (with
their places: messages and log texts name lines), the sources of this compiler and of the runtime,
the C compiler's version and the flags.

A program that is compiled again (every run does) is not preprocessed again to know the key, as long
as all files that preprocessing looked at are as they were: the cache says which (`Memory`).
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from p4engine.backend.c_build import build_shared_object, find_target
from p4engine.backend.cache import (
    cache_folder,
    digest,
    failure,
    prune,
    replace,
    sealed,
    touch,
    unsealed,
)
from p4engine.frontend.diagnostics import NOWHERE, Diagnostic, Diagnostics, Fatal, P4Error
from p4engine.frontend.lexer import Token
from p4engine.frontend.preprocessor.files import Files
from p4engine.garbage import no_garbage
from p4engine.program_info import ProgramInfo

ENGINE = Path(__file__).parents[1]
# The folders whose Python decides what C comes of a program.
_log = logging.getLogger(__name__)
COMPILER = ("frontend", "middle", "backend", "architectures")
RECURSION = 20_000


@dataclass(frozen=True)
class Compiled:
    """A compiled program: `so_path` exports p4_program_get(), `info` names its objects."""

    so_path: Path
    info: ProgramInfo
    hash: str
    warnings: list[Diagnostic] = field(default_factory=list)
    cached: bool = False


# What was asked for: the program's path, definitions, include folders, and `confined_to`.
_Program = tuple[Path, tuple[tuple[str, str], ...], tuple[Path, ...], Path | None]


def _sources() -> list[Path]:
    """The compiler's own sources, on which every compiled program depends."""
    return sorted(path for folder in COMPILER for path in (ENGINE / folder).rglob("*.py"))


@cache  # a process goes on with the sources that it has loaded
def _compiler() -> str:
    return digest([path.read_bytes() for path in _sources()])


def _spelling(tokens: list[Token], diagnostics: Diagnostics) -> str:
    """A name for tokens with their places, and for the names of the files that they are from."""
    text = "\n".join(f"{t[1]}\t{t[2][0]}.{t[2][1]}.{t[2][2]}" for t in tokens)
    return digest([text, *(Path(file).name for file in diagnostics.files)])


class Memory:
    """Memory of the cache `folder`: results of preprocessing programs, and the files that each
    depends on."""

    def __init__(self, program: _Program, folder: Path) -> None:
        path, definitions, folders, confined_to = program
        here = os.getcwd() if not all(each.is_absolute() for each in (path, *folders)) else ""
        asked = [str(path), definitions, [str(each) for each in folders], str(confined_to), here]
        self.path = folder / f"{digest([_compiler(), json.dumps(asked)])}.sources"

    def spelling(self) -> str | None:
        """The `_spelling`, if preprocessing would come to the same; None: it must be done."""
        try:
            said = unsealed(self.path)
            if said is None:
                return None
            kept = json.loads(said)
            if not Files.from_json(kept["files"]).unchanged():
                return None
            touch(self.path)
            return str(kept["spelling"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, files: Files, spelling: str) -> None:
        kept = {"files": files.to_json(), "spelling": spelling}
        replace(self.path, sealed(json.dumps(kept).encode()))


def compile_program(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    *,
    trace: bool = False,
    cache: Path | None = None,
    confined_to: Path | None = None,
) -> Compiled:
    """Compile a P4-16 program, or take it from the cache.

    With `trace` the program also tells what it does (emit_trace.py), and is slow. `cache` is the
    folder to use instead of the user's own. With `confined_to`, files are only included from below
    that folder: for programs of people who must not read this machine's files.

    Raises P4Error, which carries every diagnostic, for a program with errors, a missing C compiler,
    or a cache that cannot be used.
    """
    definitions = {name: str(value) for name, value in (defines or {}).items()}
    folders = tuple(Path(folder) for folder in include_dirs)
    path = Path(path)
    program = (path, tuple(definitions.items()), folders, confined_to)
    _log.debug("%s with %s", path, definitions)
    folder = _folder(cache)
    memory = Memory(program, folder)
    spelling = memory.spelling()
    compiled = _Kept(spelling, trace, folder).compiled() if spelling is not None else None
    if compiled is not None:
        _log.debug("%s is in the cache: %s", path, compiled.so_path)
        return compiled
    began = time.monotonic()
    with no_garbage():  # a program's tokens and tree are some million objects
        made = _compile(program, path.name, trace, folder, memory)
    _log.info("%s compiled: %.3f s", path, time.monotonic() - began)
    return made


def _compile(program: _Program, name: str, trace: bool, folder: Path, memory: Memory) -> Compiled:
    diagnostics, files = Diagnostics(), Files()
    tokens = _preprocess(program, diagnostics, files)
    spelling = _spelling(tokens, diagnostics)
    kept = _Kept(spelling, trace, folder)
    if not diagnostics.errors:
        memory.write(files, spelling)
        compiled = kept.compiled()
        if compiled is not None:
            return compiled
    c_text, info = translate(tokens, diagnostics, name, trace)
    build_shared_object(
        c_text,
        kept.target,
        kept.folder,
        kept.so_path,
        fast=not trace,
        architecture=info.architecture,
    )
    payload = {"info": info.to_json(), "warnings": [vars(w) for w in diagnostics.warnings]}
    replace(kept.info_path, sealed(json.dumps(payload).encode()))
    prune(kept.folder)
    return Compiled(kept.so_path, info, kept.key, diagnostics.warnings)


def _preprocess(program: _Program, diagnostics: Diagnostics, files: Files) -> list[Token]:
    from p4engine.frontend.preprocessor.preprocess import preprocess

    path, definitions, folders, confined_to = program
    try:
        return preprocess(path, dict(definitions), folders, diagnostics, confined_to, files)[0]
    except Fatal:
        diagnostics.stop_on_errors()
        raise AssertionError from None
    except RecursionError:
        raise failure("macros are nested too deeply") from None


def _folder(cache: Path | None) -> Path:
    """The cache's folder, made: `cache`, or the user's own. Raises P4Error for one that cannot be
    used."""
    folder = cache or cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failure(f"cannot make the cache {folder}: {error.strerror}") from None
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise failure(
            f"the cache {folder} is on a file system that is mounted noexec, so that no compiled"
            " program can be loaded from it; set XDG_CACHE_HOME to a folder elsewhere"
        )
    return folder


class _Kept:
    """A program's place in the cache `folder`."""

    def __init__(self, spelling: str, trace: bool, folder: Path) -> None:
        self.target = find_target()
        self.key = digest(
            [self.target.digest, _compiler(), spelling, *(["trace"] if trace else [])]
        )
        self.folder = folder
        self.so_path = self.folder / f"{self.key}.so"
        self.info_path = self.folder / f"{self.key}.json"

    def compiled(self) -> Compiled | None:
        """The program from the cache; None: it is not there, or damaged."""
        return compiled_before(self.so_path)


def compiled_before(so_path: Path) -> Compiled | None:
    """The program that `compile_program` has put into the cache as `so_path`; None where that is
    gone or damaged. It looks at no source, so it takes no time."""
    info_path = so_path.with_suffix(".json")
    try:
        told = unsealed(info_path)
        if told is None or unsealed(so_path) is None:
            return None
        info, warnings = _kept_info(told)
        touch(so_path, info_path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Compiled(so_path, info, so_path.stem, list(warnings), True)


@functools.lru_cache(maxsize=16)
def _kept_info(told: bytes) -> tuple[ProgramInfo, tuple[Diagnostic, ...]]:
    """A program's information and warnings, from a file of the cache: the points of a sweep have
    the same few programs, and reading one takes longer than setting up a point."""
    saved = json.loads(told)
    warnings = tuple(Diagnostic(**each) for each in saved["warnings"])
    return ProgramInfo.from_json(saved["info"]), warnings


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
