"""The questions of preprocessing to the file system, with their answers.

With the answers kept, one can find out later whether preprocessing would still come to the same
tokens, without doing it: it would if every question has the same answer as then. That takes a
thirtieth of the time, and sees any change: of a file's bytes, of a link, or a new file that an
earlier include folder now has.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any


class Files:
    """The files below which a preprocessor looks, and its questions so far."""

    def __init__(self) -> None:
        self._read: dict[Path, bytes] = {}  # digest of what was in the file
        self._real: dict[Path, Path] = {}
        self._is_file: dict[Path, bool] = {}

    def read(self, path: Path) -> bytes:
        """The bytes of a file; raises OSError."""
        if not self.is_file(path):  # a FIFO would wait for a writer, a device need not end
            path.stat()
            raise OSError(errno.EINVAL, "not a regular file")
        data = path.read_bytes()
        self._read[path] = _digest(data)
        return data

    def real(self, path: Path) -> Path:
        """The file that a path leads to."""
        self._real[path] = found = path.resolve()
        return found

    def is_file(self, path: Path) -> bool:
        """True if a file is there; no error for a name that no file can have."""
        self._is_file[path] = found = os.path.isfile(path)
        return found

    def to_json(self) -> dict[str, dict[str, str | bool]]:
        """The questions and their answers."""
        return {
            "read": {str(path): digest.hex() for path, digest in self._read.items()},
            "is_file": {str(path): found for path, found in self._is_file.items()},
            "real": {str(path): str(found) for path, found in self._real.items()},
        }

    @staticmethod
    def from_json(said: dict[str, dict[str, Any]]) -> Files:
        """Inverse of `to_json`; raises ValueError, KeyError, TypeError or AttributeError."""
        files = Files()
        files._read = {Path(path): bytes.fromhex(digest) for path, digest in said["read"].items()}
        files._is_file = {Path(path): found for path, found in said["is_file"].items()}
        files._real = {Path(path): Path(found) for path, found in said["real"].items()}
        return files

    def unchanged(self) -> bool:
        """True if every question would have the answer that it had."""
        try:
            return (
                all(_digest(path.read_bytes()) == digest for path, digest in self._read.items())
                and all(os.path.isfile(path) == found for path, found in self._is_file.items())
                and all(path.resolve() == found for path, found in self._real.items())
            )
        except (OSError, RuntimeError):  # a file has gone; links in a circle
            return False


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
