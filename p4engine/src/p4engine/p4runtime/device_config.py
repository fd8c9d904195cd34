"""The device configuration of a pipeline (`p4_device_config`): what controllers send there.

The switch understands one kind, P4 source, in two forms:

- **A bundle**, which `encode` writes: a JSON document whose member `p4engine` holds a program with
  all files of its author. Other members are ignored, so a file can be a bundle and something else.

      {"p4engine": {"format": 1,
                    "main": "app/tunnel.p4",
                    "files": {"app/tunnel.p4": "...", "lib/headers.p4": "..."},
                    "include": ["lib"],
                    "defines": {"SIZE": "64"}}}

  Paths are relative, with `/`. `include` has the folders that `-I` names, `defines` what `-D`
  defines. Because the files are as they were written, the program is the same one for the cache
  and in messages as where it was compiled first.
- **The text of a program** in one file, which may include `core.p4` and an architecture's file:
  UTF-8 text with an instance of its package, such as `V1Switch(`.

Either may be wrapped in a `p4.tmp.P4DeviceConfig`, as the P4 tutorials' controllers do it.
Everything else is for another switch, for instance the JSON that p4c writes for BMv2.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from p4engine.backend.build import Compiled, compile_program
from p4engine.frontend.diagnostics import Diagnostics, Fatal, P4Error
from p4engine.frontend.preprocessor.preprocess import BUILTIN_INCLUDE, preprocess
from p4engine.middle.architecture import PACKAGES
from p4engine.p4runtime.p4info import p4info
from p4engine.p4runtime.status import invalid

FORMAT = 1
TEXT_NAME = "program.p4"
# Fields of p4.tmp.P4DeviceConfig: reassign (bool), extras (message), device_data (bytes).
_VARINT, _BYTES = 0, 2
_FIELDS = {1: _VARINT, 2: _BYTES, 3: _BYTES}
_DEVICE_DATA = 3


@dataclass(frozen=True)
class Source:
    """A program with its files, by relative path; `include`: folders, `defines`: macros."""

    main: str
    files: Mapping[str, str]
    include: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)

    def compile(self, trace: bool) -> tuple[Compiled, Any]:
        """The program and its P4Info. Raises P4Error, with places in these files."""
        with self._in_folder() as folder:
            main, include = folder / self.main, [folder / name for name in self.include]
            try:
                compiled = compile_program(
                    main, self.defines, include, trace=trace, confined_to=folder
                )
                return compiled, p4info(main, self.defines, include, confined_to=folder)
            except P4Error as error:
                raise P4Error(
                    [
                        replace(each, file=each.file.removeprefix(f"{folder}{os.sep}"))
                        for each in error.diagnostics
                    ]
                ) from None

    @contextmanager
    def _in_folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="p4engine-") as name:
            folder = Path(name).resolve()
            for path, text in self.files.items():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", newline="")
            yield folder


def encode(
    program: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
) -> bytes:
    """The bundle of a program, arguments as of `compile_program`.

    Raises P4Error: a file cannot be read, or an include is missing.
    """
    diagnostics = Diagnostics()
    main = Path(program)
    folders = [Path(each) for each in include_dirs]
    read = _files_of(main, dict(defines or {}), folders, diagnostics)
    used = [each.resolve() for each in folders if any(_below(file, each) for file in read)]
    top = Path(os.path.commonpath([main.resolve().parent, *used, *(file.parent for file in read)]))

    def relative(path: Path) -> str:
        return path.relative_to(top).as_posix()

    return json.dumps(
        {
            "p4engine": {
                "format": FORMAT,
                "main": relative(main.resolve()),
                "files": {relative(file): file.read_text("utf-8", "replace") for file in read},
                "include": [relative(each) for each in used],
                "defines": {name: str(value) for name, value in (defines or {}).items()},
            }
        },
        indent=1,
    ).encode()


def _files_of(
    main: Path, defines: dict[str, str | int], folders: list[Path], diagnostics: Diagnostics
) -> list[Path]:
    """The files of a program's author, resolved, the main one first."""
    try:
        _, read = preprocess(main, defines, tuple(folders), diagnostics)
    except Fatal:
        read = []
    diagnostics.stop_on_errors()
    own = [file.resolve() for file in read if not _below(file, BUILTIN_INCLUDE)]
    return list(dict.fromkeys(own))


def _below(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


def source_of(data: bytes) -> Source | None:
    """The program in a device configuration; None: it holds none.

    Raises Refused: a bundle that is damaged.
    """
    data = unwrapped(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if text.lstrip()[:1] == "{":
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None
        bundle = document.get("p4engine") if isinstance(document, dict) else None
        return None if bundle is None else _bundled(bundle)
    if "\0" not in text and re.search(rf"\b({'|'.join(PACKAGES)})\s*[<(]", text):
        return Source(TEXT_NAME, {TEXT_NAME: text})
    return None


def _texts(value: Any) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _bundled(bundle: Any) -> Source:
    what = "the program in p4_device_config"
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        invalid(f"{what}: its format is not {FORMAT}, the one that this switch knows")
    main, files = bundle.get("main"), bundle.get("files")
    include, defines = bundle.get("include", []), bundle.get("defines", {})
    if not isinstance(main, str) or not _texts(files) or main not in files:
        invalid(f"{what}: `files` has a text for each file's path, one of them is `main`")
    if not isinstance(include, list) or not all(isinstance(each, str) for each in include):
        invalid(f"{what}: `include` is a list of folders")
    if not _texts(defines):
        invalid(f"{what}: `defines` has a text for each macro")
    for path in [*files, *include]:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or "\0" in path or "\\" in path:
            invalid(f"{what}: {path!r} is not a path below the program's folder")
    return Source(main, files, tuple(include), defines)


def wrapped(device_data: bytes) -> bytes:
    """A p4.tmp.P4DeviceConfig with this device_data, as the tutorials' controllers send it."""
    return b"\x08\x01\x1a" + _varint(len(device_data)) + device_data


def unwrapped(data: bytes) -> bytes:
    """The device_data of a p4.tmp.P4DeviceConfig; anything else stays as it is."""
    found, at = None, 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if _FIELDS.get(tag >> 3) != tag & 7 or at < 0:
            return data
        size, at = _read_varint(data, at)
        if at < 0:
            return data
        if tag & 7 == _BYTES:
            if at + size > len(data):
                return data
            if tag >> 3 == _DEVICE_DATA:
                found = data[at : at + size]
            at += size
    return data if found is None else found


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, place behind it); the place is -1 if the bytes end too early."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    return value, -1
