"""Files that a user's file names, by their role, their name and the SHA-256 of their content.

Names have no folders: the same file elsewhere is the same input. A key of a file that names
something to read is marked in its annotation (`config.fields.Reads`); nothing else has to be done
for a new one. What the text of a key means is said by its role, in `READERS`, to which a package
with more roles adds its own.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from p4fabric.base.config.fields import Reads

LIBRARIES: list[Path] = []  # folders of P4 files that programs elsewhere may include
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/opt", sys.prefix, sys.base_prefix)


@dataclass(frozen=True, order=True)
class Input:
    """One thing that a run has read. sha256: of its content; "": it cannot be read. version: of a
    plug-in's package."""

    role: str
    name: str
    sha256: str
    version: str = ""


@dataclass(frozen=True)
class Source:
    """Files that belong together, the first one named by a key. named: its text there; "": a name
    of a package's own."""

    role: str
    files: tuple[Path, ...]
    named: str = ""

    def inputs(self) -> Iterator[Input]:
        folders = (self.files[0].parent, *LIBRARIES)
        for file in self.files:
            of = next((each for each in folders if file.is_relative_to(each)), file.parent)
            yield Input(self.role, file.relative_to(of).as_posix(), digest(file))


def declared(part: Any, folder: Path) -> Iterator[Source]:
    """The files that the marked keys of a section name, and those of all sections in it. Relative
    paths start in `folder`."""
    if isinstance(part, Mapping | tuple):
        for each in part.values() if isinstance(part, Mapping) else part:
            yield from declared(each, folder)
    if not isinstance(part, BaseModel):
        return
    for name, role in _keys(type(part)):
        value = getattr(part, name)
        for text in value if isinstance(value, tuple) else (value,):
            if role and isinstance(text, str) and text:
                yield from READERS[role](role, text, folder)
            else:
                yield from declared(text, folder)


@functools.cache
def _keys(model: type[BaseModel]) -> list[tuple[str, str]]:
    """Each key of a section, with the role of what it names, or ""."""
    return [
        (name, next((each.role for each in info.metadata if isinstance(each, Reads)), ""))
        for name, info in model.model_fields.items()
    ]


# -- what the text of a key means


def _p4(role: str, text: str, folder: Path) -> Iterator[Source]:
    yield Source(role, program_files(folder / text), text)


def file_itself(role: str, text: str, folder: Path) -> Iterator[Source]:
    """The reader of a key that names the only file."""
    yield Source(role, (folder / text,), text)


def _python(role: str, text: str, folder: Path) -> Iterator[Source]:
    name = text.rpartition(":")[0]
    yield Source(role, with_imports((folder / name).resolve()), name)


def _command(role: str, text: str, folder: Path) -> Iterator[Source]:
    """The words of a command that are files, also those behind `=`; without the system's own."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in dict.fromkeys([*words, *(each.partition("=")[2] for each in words)]):
        file = (folder / word).absolute()
        if word and file.is_file() and not any(map(file.is_relative_to, SYSTEM_FOLDERS)):
            yield Source(role, with_imports(file) if file.suffix == ".py" else (file,), word)


READERS: dict[str, Callable[[str, str, Path], Iterator[Source]]] = {
    "P4 program": _p4,
    "command": _command,
    "Python file": _python,
}
"""What is read, by the role of a key: (role, text, folder) to sources."""

_State = tuple[int, int, int]
_digests: dict[Path, tuple[_State, str]] = {}
_programs: dict[Path, dict[Path, _State]] = {}


def _state(file: Path) -> _State:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


def digest(file: Path) -> str:
    """SHA-256 of a file, which is read again only when it has changed; "" if it cannot be read."""
    state = _state(file)
    if file not in _digests or _digests[file][0] != state:
        try:
            with file.open("rb") as opened:
                _digests[file] = state, hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError:
            return ""
    return _digests[file][1]


def program_files(file: Path) -> tuple[Path, ...]:
    """A P4 program and all that it may include, but what comes with the compiler."""
    from p4engine.frontend.preprocessor.includes import included

    known = _programs.get(file)
    if known is None or any(_state(each) != state for each, state in known.items()):
        known = _programs[file] = {
            each.resolve(): _state(each) for each in included(file, tuple(LIBRARIES))
        }
    return tuple(known)


def with_imports(file: Path, package: str = "") -> tuple[Path, ...]:
    """A Python file and the modules and packages beside it that it imports, as far as its text
    tells. package: the name of its folder in absolute imports; "": the folder is on the path."""
    found = [file]
    for each in found:
        try:
            tree = ast.parse(each.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            start = file.parent
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                if node.level:
                    start = each.parents[node.level - 1]
                names = [node.module or "", *(f"{node.module or ''}.{name}" for name in names)]
            for name in names:
                parts = name.removeprefix(package).strip(".").split(".")
                for place in (start.joinpath(*parts[: n + 1]) for n in range(len(parts))):
                    for module in (place.with_suffix(".py"), place / "__init__.py"):
                        if module.is_file() and module not in found:
                            found.append(module)
    return tuple(found)


def as_records(inputs: Iterable[Input]) -> list[dict[str, str]]:
    return [{key: text for key, text in asdict(each).items() if text} for each in inputs]
