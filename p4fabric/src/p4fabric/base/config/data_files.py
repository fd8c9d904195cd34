"""Files of users and of other programs, read within limits.

A file may have been cut off, edited, or made by somebody else. Only regular files of a limited size
are read: a FIFO would wait for a writer, and a device may never end. JSON and YAML give plain data
of a limited depth, so nothing that works with it can hang or run out of stack. `yaml_document`
parses the YAML that people write, with lines in its errors.
"""

from __future__ import annotations

import errno
import json
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from p4fabric.base.errors import UserError, did_you_mean, sentence

MAX_BYTES = 64 << 20
MAX_DEPTH = 100
# What reading a damaged zip archive (also an .npz file) raises, beside OSError. `zipfile` itself
# reports only some of it.
DAMAGED_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, RuntimeError, ValueError),
)


class DataError(UserError):
    """A file that cannot be read as data. The message is "FILE can't be read: why"."""


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises DataError."""
    text = read_text(path)
    try:
        data = json.loads(text)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:
        raise DataError(f"{path} can't be read: not JSON: {error}") from None
    if _depth(data) > MAX_DEPTH:
        raise _too_deep(path)
    return data


def read_yaml(path: Path) -> Any:
    """The content of a YAML file without aliases, which could stand for any amount of data.
    Raises DataError."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = read_text(path)
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _too_deep(path)
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise DataError(f"{path} can't be read: line {line}: an alias (*); write it out")
        return yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError) as error:
        if "nesting depth" in str(error):  # libyaml's own limit: its scanner is ahead of the events
            raise _too_deep(path) from None
        why = " ".join(str(error).split())
        raise DataError(f"{path} can't be read: not YAML: {why}") from None


def near(path: Path) -> str:
    """A hint at the YAML file beside a path that was meant."""
    return did_you_mean(path.name, [each.name for each in path.absolute().parent.glob("*.y*ml")])


def read_named(path: Path, kind: str, most: int, meant: Callable[[Path], str] = near) -> str:
    """The text of a file that a user has named, of at most so many bytes. kind: what the file is,
    with its article; meant: a hint at another file. Raises UserError."""
    if os.path.isdir(path):
        raise UserError(f"{path}: this is a folder; name {kind} in it")
    if not os.path.lexists(path):
        missing = f"no such {kind.partition(' ')[2]}"
        raise UserError(f"{path}: {sentence(missing, meant(path))}")
    return read_text(path, most)


def require(
    data: object, kinds: Mapping[str, type | tuple[type, ...]], path: Path
) -> dict[str, Any]:
    """`data` if it is a mapping with these keys, whose values are of these kinds. Raises
    DataError."""
    if not isinstance(data, dict):
        raise DataError(f"{path} can't be read: found no keys and values")
    missing = [key for key in kinds if key not in data]
    if missing:
        raise DataError(f"{path} can't be read: {', '.join(missing)} is missing")
    for key, kind in kinds.items():
        if not isinstance(data[key], kind):
            found = json.dumps(data[key])
            shown = found if len(found) < 50 else found[:50] + "..."
            raise DataError(f"{path} can't be read: {key}: found {shown}")
    return data


def opened(path: Path, limit: int | None = None) -> BinaryIO:
    """A regular file of at most `limit` bytes (default: MAX_BYTES), open for reading. Raises
    DataError."""
    most = MAX_BYTES if limit is None else limit
    try:
        # A FIFO without a writer opens as well; O_NONBLOCK means nothing to a file.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}") from None
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return file
    file.close()
    if stat.S_ISREG(status.st_mode):
        raise _too_large(path, most)
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path} can't be read: {os.strerror(errno.EISDIR)}")
    raise DataError(f"{path} can't be read: it is a device, FIFO or socket, not a file")


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """The content of a file; see `opened`."""
    most = MAX_BYTES if limit is None else limit
    try:
        with opened(path, most) as file:
            data = file.read(most + 1)  # a file of /proc has no size
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}") from None
    if len(data) > most:
        raise _too_large(path, most)
    return data


def read_text(path: Path, limit: int | None = None) -> str:
    """The content of a text file, without a byte order mark; see `opened`."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} can't be read: not UTF-8 text (byte {error.start})") from None


def require_small(path: Path, file: BinaryIO, most: int) -> None:
    """Raises DataError if the members of a ZIP (also an .npz file) come to more than `most` bytes;
    DAMAGED_ZIP for a damaged one."""
    with zipfile.ZipFile(file) as archive:
        if sum(each.file_size for each in archive.infolist()) > most:
            raise _too_large(path, most)
    file.seek(0)


def _too_large(path: Path, most: int) -> DataError:
    return DataError(f"{path} can't be read: it is larger than {most >> 20} MiB")


def _too_deep(path: Path) -> DataError:
    return DataError(f"{path} can't be read: it is nested deeper than {MAX_DEPTH} levels")


def _depth(data: object) -> int:
    """The number of levels of lists and mappings in `data`."""
    depth, level = 0, [data]
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        if depth > MAX_DEPTH:
            break
        level = [
            child for each in level for child in (each.values() if isinstance(each, dict) else each)
        ]
    return depth
