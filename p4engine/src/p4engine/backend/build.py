"""P4 source to a shared object: the compiler's driver and the C compiler.

A program is kept in the cache (cache.py) under a key made of its tokens after preprocessing (with
their places: messages and log texts name lines), the sources of this compiler and of the runtime,
the C compiler's version and the flags.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from p4engine.backend.c_compiler import find_c_compiler
from p4engine.backend.cache import cache_folder, failure, prune, replace, touch
from p4engine.frontend.diagnostics import NOWHERE, Diagnostic, Diagnostics, Fatal, P4Error

ENGINE = Path(__file__).parents[1]
RUNTIME = ENGINE / "runtime"
# The folders whose Python decides what C comes of a program.
COMPILER = ("frontend", "middle", "backend")
FLAGS = [
    "-std=gnu11",
    "-fPIC",
    "-fvisibility=hidden",
    "-O3",
    "-march=native",
    "-mprefer-vector-width=512",
    "-fno-math-errno",
    "-ffp-contract=off",  # meters round alike with and without fused multiply-add
    "-fallow-store-data-races",
    "-fno-plt",
    "-w",
]
RECURSION = 20_000


@dataclass(frozen=True)
class Compiled:
    """A compiled program: `so_path` exports p4_program_get(), `info` names its objects."""

    so_path: Path
    info: dict
    hash: str
    warnings: list[Diagnostic] = field(default_factory=list)
    cached: bool = False


def _compiler() -> tuple[str, str]:
    """(path, version) of the C compiler."""
    path = find_c_compiler()
    if path is None:
        raise failure(
            "no C compiler found; P4 programs are compiled to C. Install one:"
            " apt-get install gcc libc6-dev"
        )
    # The file's identity stands for its version: running it would take half of a cached start.
    status = os.stat(os.path.realpath(path))
    return path, f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def _cpu() -> str:
    """What -march=native depends on."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass
    return os.uname().machine


def _digest(parts: Iterable[bytes | str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def _sources() -> list[Path]:
    """The compiler's own sources, on which every compiled program depends."""
    return sorted(path for folder in COMPILER for path in (ENGINE / folder).rglob("*.py"))


def _flags() -> list[str]:
    machine = os.uname().machine
    flags = [f for f in FLAGS if machine == "x86_64" or not f.startswith("-mprefer")]
    return flags + os.environ.get("P4ENGINE_CFLAGS", "").split()


def _target() -> tuple[str, list[str], str]:
    """The C compiler, its flags, and a digest of what the runtime's objects depend on."""
    cc, version = _compiler()
    flags = _flags()
    parts = [version, " ".join(flags), _cpu()]
    return cc, flags, _digest([*parts, *(p.read_bytes() for p in sorted(RUNTIME.iterdir()))])


def share_runtime(folder: Path) -> bool:
    """Put copies of the runtime's compiled files from the user's cache into the cache `folder`.

    So that a program that is compiled apart from the user's cache (because nobody should trust what
    comes of it) need not compile the runtime, too. Returns False if some are not in the cache.
    """
    base, complete = _target()[2], True
    for source in RUNTIME.glob("*.c"):
        kept = cache_folder() / f"{base}-{source.stem}.o"
        try:
            shutil.copyfile(kept, folder / kept.name)
            touch(kept)
        except FileNotFoundError:
            complete = False
    return complete


def compile_program(
    path: str | os.PathLike,
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike] = (),
    *,
    trace: bool = False,
    cache: Path | None = None,
) -> Compiled:
    """Compile a P4-16 program for v1model, or take it from the cache.

    With `trace` the program also tells what it does (trace.py), and is slow. `cache` is the folder
    to use instead of the user's own.

    Raises P4Error, which carries every diagnostic, for a program with errors, a missing C compiler,
    or a cache that cannot be used.
    """
    from p4engine.frontend.preprocessor.preprocess import preprocess

    diagnostics = Diagnostics()
    path = Path(path)
    try:
        tokens, _ = preprocess(
            path, dict(defines or {}), tuple(Path(d) for d in include_dirs), diagnostics
        )
    except Fatal:
        diagnostics.stop_on_errors()
        raise AssertionError from None
    except RecursionError:
        raise failure("macros are nested too deeply") from None
    cc, flags, base = _target()
    compiler = _digest([p.read_bytes() for p in _sources()])
    names = [Path(f).name for f in diagnostics.files]
    text = "\n".join(f"{t[1]}\t{t[2][0]}.{t[2][1]}.{t[2][2]}" for t in tokens)
    key = _digest([base, compiler, text, *names, *(["trace"] if trace else [])])
    folder = cache or cache_folder()
    so_path, info_path = folder / f"{key}.so", folder / f"{key}.json"
    if not diagnostics.errors and so_path.exists() and info_path.exists():
        try:
            saved = json.loads(info_path.read_text())
            warnings = [Diagnostic(**w) for w in saved["warnings"]]
            touch(so_path, info_path)
            return Compiled(so_path, saved["info"], key, warnings, True)
        except (ValueError, KeyError, TypeError):
            pass  # a damaged file: make it again
    c_text, info = translate(tokens, diagnostics, path.name, trace)
    own = [f if f != "-O3" else "-O1" for f in flags] if trace else flags
    _build(c_text, cc, flags, own, folder, base, so_path)
    payload = {"info": info, "warnings": [vars(w) for w in diagnostics.warnings]}
    replace(info_path, json.dumps(payload).encode())
    prune(folder)
    return Compiled(so_path, info, key, diagnostics.warnings)


def translate(
    tokens: list, diagnostics: Diagnostics, name: str, trace: bool = False
) -> tuple[str, dict]:
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
        result = generate(checker, diagnostics, name, EventTrace if trace else None)
        diagnostics.stop_on_errors()
        return result
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


def _build(
    c_text: str,
    cc: str,
    flags: list[str],
    own: list[str],
    folder: Path,
    base: str,
    so_path: Path,
) -> None:
    """Compile the program (with flags `own`) and, side by side, those runtime files that are not in
    the cache yet."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        work = Path(temporary)
        (work / "program.c").write_text(c_text)
        jobs = [(work / "program.c", work / "program.o", None)]
        objects = [work / "program.o"]
        for source in sorted(RUNTIME.glob("*.c")):
            kept, own_copy = folder / f"{base}-{source.stem}.o", work / f"{source.stem}.o"
            objects.append(own_copy)
            try:
                os.link(kept, own_copy)  # ours to the end, even if another process prunes it
            except FileNotFoundError:
                jobs.append((source, own_copy, kept))
            else:
                touch(kept)
        running = [
            (
                subprocess.Popen(
                    [
                        cc,
                        *(flags if kept else own),
                        f"-I{RUNTIME}",
                        "-c",
                        str(source),
                        "-o",
                        str(target),
                    ],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                ),
                source,
                target,
                kept,
            )
            for source, target, kept in jobs
        ]
        for process, source, target, kept in running:
            output, _ = process.communicate()
            if process.returncode:
                _c_failure(folder, source, output, c_text)
            if kept is not None:
                with contextlib.suppress(FileExistsError):
                    os.link(target, kept)
        linked = subprocess.run(
            [
                cc,
                "-shared",
                *flags,
                *map(str, objects),
                "-o",
                str(work / "program.so"),
                "-lm",
                "-lpthread",
            ],
            capture_output=True,
            text=True,
        )
        if linked.returncode:
            _c_failure(folder, work / "program.so", linked.stderr, c_text)
        os.replace(work / "program.so", so_path)


def _c_failure(folder: Path, source: Path, output: str, c_text: str) -> None:
    """The C compiler refused our own output: say so without showing it, and keep it for a
    report."""
    kept = folder / "failed.c"
    kept.write_text(c_text + "\n/*\n" + output.replace("*/", "* /") + "\n*/\n")
    raise failure(
        f"internal error of the P4 compiler: the C compiler refused {source.name}; kept in {kept}."
        " Please report it with the program."
    )
