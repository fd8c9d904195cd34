"""Makes a change part of this process, which has been forked for it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from p4engine.backend import build
from p4engine.backend.c_build import ARCHITECTURES, RUNTIME, find_c_compiler
from p4engine.backend.cache import cache_folder
from p4engine.frontend.preprocessor import preprocess as preprocessor

from p4engine import compile_program
from tests.support.mutants.apart import lay_over
from tests.support.mutants.change import Change
from tests.support.paths import ROOT

P4 = (ROOT / "p4").resolve()
# A C compiler that takes the engine's C from the folder MUTANT_RUNTIME. It is the one for whatever
# a test starts: the compiler of programs, a test's own command, a switch in another process.
COMPILER = """#!/bin/bash
from={engine}
exec {compiler} "${{@//$from/${{MUTANT_RUNTIME:-$from}}}}" -w -Wno-error
"""


def install(change: Change, folder: Path, on_disk: bool = False) -> None:
    """Use the mutant for everything in this process from now on, and `on_disk` in those that it
    starts; `folder` is empty.

    Raises SyntaxError for what is no Python."""
    text = change.apply((ROOT / change.file).read_text())
    if change.file.endswith(".p4"):
        _install_p4(change.file, text, folder)
    elif change.file.endswith((".c", ".h")):
        _install_c(change.file, text, folder)
    else:
        install_python(ROOT / change.file, text)
        if on_disk:
            lay_over(ROOT / change.file, text, folder)


def _install_p4(file: str, text: str, folder: Path) -> None:
    """Make a changed copy of p4/, from which programs are compiled."""
    copy = folder / "p4"
    shutil.copytree(P4, copy)
    (folder / file).write_text(text)
    real = preprocessor.preprocess

    def moved(path: Path) -> Path:
        path = Path(path).resolve()
        return copy / path.relative_to(P4) if path == P4 or P4 in path.parents else path

    def preprocess(path: Path, defines: Any, include_dirs: Any, *others: Any) -> Any:
        return real(moved(path), defines, tuple(map(moved, include_dirs)), *others)

    preprocessor.preprocess = preprocess
    build.Memory.spelling = lambda memory: None  # the original's files are as they were


def prepare_engine(folder: Path) -> None:
    """Before all mutants of the engine: a C compiler, and the objects of its C, in `folder`."""
    compiler = folder / "cc"
    compiler.write_text(COMPILER.format(engine=RUNTIME.parent, compiler=find_c_compiler()))
    compiler.chmod(0o755)
    os.environ["CC"] = str(compiler)
    shutil.rmtree(folder / "objects", ignore_errors=True)
    compile_program(P4 / "forward.p4", cache=folder / "objects")
    for path in (folder / "objects").iterdir():
        if path.suffix != ".o":
            path.unlink()


def use_own_cache(prepared: Path, folder: Path) -> None:
    """For one mutant: a compile cache in `folder`, which has only the runtime's objects."""
    shutil.copytree(prepared / "objects", folder / "cache" / "p4engine")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")


def _install_c(file: str, text: str, folder: Path) -> None:
    """Make a changed copy of the engine's C, for the compiler of `prepare_engine`."""
    engine, copy = RUNTIME.parent, folder / "engine"
    for each in (RUNTIME, ARCHITECTURES):
        # Other processes write Python's caches meanwhile.
        shutil.copytree(
            each, copy / each.name, ignore=shutil.ignore_patterns("*.py", "__pycache__")
        )
    path = copy / (ROOT / file).relative_to(engine)
    path.write_text(text)
    for architecture in [p for p in (copy / ARCHITECTURES.name).iterdir() if any(p.glob("*.h"))]:
        if path.parent.parent == architecture.parent and path.parent != architecture:
            continue
        includes = [f"-I{copy / RUNTIME.name}", f"-I{architecture}"]
        sources = [*(copy / RUNTIME.name).glob("*.c"), *architecture.glob("*.c")]
        command = [str(find_c_compiler()), "-fsyntax-only", "-w", *includes, *map(str, sources)]
        if subprocess.run(command, capture_output=True).returncode:
            raise SyntaxError("it does not compile")
    os.environ["MUTANT_RUNTIME"] = str(copy)
    changed = f"*-{path.stem}.o" if path.suffix == ".c" else "*.o"
    for kept in cache_folder().glob(changed):
        kept.unlink()


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """The code of all functions below `code`, by name and line."""
    found = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_name, constant.co_firstlineno] = constant
            found |= _codes(constant)
    return found


def install_python(path: Path, text: str) -> None:
    """Functions get their new code where they are: who holds one, holds the mutant."""
    made = _codes(compile(text, str(path), "exec"))
    gc.unfreeze()  # tests hide objects from the collector (p4engine_testing/rings.py)
    for function in gc.get_objects():
        if not isinstance(function, FunctionType):
            continue
        code = function.__code__
        if Path(code.co_filename).name == path.name and Path(code.co_filename).resolve() == path:
            new = made.get((code.co_name, code.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(code.co_freevars):
                function.__code__ = new
