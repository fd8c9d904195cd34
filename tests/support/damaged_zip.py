"""Zip archives that zipfile stumbles over in different ways."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

_DIRECTORY, _MEMBER = b"PK\x01\x02", b"PK\x03\x04"


def _name(data: bytearray, entry: int) -> None:
    """A name that says it is UTF-8 and is not."""
    data[entry + 9] |= 0x08
    data[entry + 46] = 0xFF


def _version(data: bytearray, entry: int) -> None:
    """A version of the format that nobody knows."""
    data[entry + 6] = 255


def _compression(data: bytearray, entry: int) -> None:
    """LZMA, which the content is not."""
    data[entry + 10] = data[data.index(_MEMBER) + 8] = 14


def _encrypted(data: bytearray, entry: int) -> None:
    """Says that it is encrypted."""
    data[entry + 8] |= 1
    data[data.index(_MEMBER) + 6] |= 1


DAMAGES: dict[str, Callable[[bytearray, int], None]] = {
    "name": _name,
    "version": _version,
    "compression": _compression,
    "encrypted": _encrypted,
}


def damage(path: Path, how: str) -> None:
    """Damage the first member of an archive."""
    assert zipfile.is_zipfile(path)
    data = bytearray(path.read_bytes())
    DAMAGES[how](data, data.index(_DIRECTORY))
    path.write_bytes(data)
