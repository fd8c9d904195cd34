"""Folders of compiled functions: one for each content of the sources.

A package of compiled functions says once which sources they are made from (`add_sources`). Its
folder is named after these, after those of all packages that have been added before, which it may
use, and after the versions of the libraries. So nothing in it can be stale, equal sources share it,
and a change in one package leaves those below it compiled.

numba is not imported here: what only asks whether anything has been compiled need not wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from p4engine.backend.cache import cache_folder, digest, touch
from p4engine.frontend.diagnostics import P4Error

from p4fabric.base.errors import UserError
from p4fabric.simulate.shipped_code import shipped

_SOURCES: dict[Path, list[Path]] = {}  # by a package's folder, the lowest package first


def add_sources(package: Path, patterns: Iterable[str]) -> None:
    """Keep compiled functions of the package in this folder, which are made from these files of
    it, and from the packages that have been added before."""
    _SOURCES[package] = [path for each in patterns for path in sorted(package.glob(each))]


def add_files(package: Path, files: Iterable[Path]) -> None:
    """More files that functions of an added package are made from, wherever they are."""
    _SOURCES[package] += files


def package_of(file: Path) -> Path | None:
    """The folder of the package that a source file belongs to; None: it has not been added."""
    return next((each for each in _SOURCES if each in file.parents), None)


def made_with() -> dict[str, str]:
    """Versions of what compiles, and of what compiled code is made for."""
    versions = {library: version(library) for library in ("numba", "numpy", "llvmlite")}
    return {**versions, "Python": platform.python_version()}


@functools.cache
def cache_directory(package: Path) -> Path:
    """The folder of compiled code of a package, for its sources, the library versions and the user.

    Raises UserError when there can be no folder, or when it belongs to another user, whose code
    would then be run.
    """
    code: list[str | bytes] = []
    for each, sources in _SOURCES.items():
        code += [part for path in sources for part in (path.name, path.read_bytes())]
        if each == package:
            break
    made_from = digest([*code, *made_with().values()])[:16]
    try:
        cache_folder("p4fabric")  # nobody else's, so that what is below it is nobody else's
        folder = cache_folder(f"p4fabric/numba/{made_from}")
    except P4Error as error:
        raise UserError(error.diagnostics[0].message) from None
    touch(folder)  # in use
    return folder


def directories() -> list[Path]:
    """The folders of all packages, the highest one's last."""
    return [cache_directory(package) for package in _SOURCES]


def remove_unused(days: int = 30) -> None:
    """Remove the folders of other sources that no process has used for so long; each has some tens
    of MB."""
    mine = directories()
    before = time.time() - days * 24 * 3600
    for folder in mine[-1].parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            if folder not in mine and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)


def compiled() -> list[Path]:
    """Files with the code of a function of these sources; the first run makes them, in minutes."""
    return [path for folder in directories() for path in folder.rglob("*.nbc")]


def is_shipped() -> bool:
    """True if an installed package has the compiled functions of all these sources."""
    return all(shipped(folder.name) for folder in directories())
