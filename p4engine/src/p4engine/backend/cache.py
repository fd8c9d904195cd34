"""The cache of compiled programs: a folder of the user's, kept within bounds.

The folder belongs to one user: one that another user owns is refused, because what it holds is
executed. The files that were used least recently are removed when it is full.

Every file ends with its hash (`sealed`), which is looked at whenever the file is used: a disk that
was full or a machine that lost its power may leave half a file. What is damaged is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from p4engine.frontend.diagnostics import Diagnostic, P4Error

ABANDONED_S = 24 * 3600
MAX_FILES = 6000  # in the cache, three for each program: about 400 MB
_SEAL = b"\nsha256 "
_SEAL_BYTES = len(_SEAL) + 64 + 1
_damaged_in: set[Path] = set()  # folders about which this process has told


def failure(message: str) -> P4Error:
    """An error that has no place in a program."""
    return P4Error([Diagnostic("error", message, "", 0, 0, "")])


def cache_folder(name: str = "p4engine") -> Path:
    """~/.cache/<name> of the effective user, made with mode 0700; XDG_CACHE_HOME replaces ~/.cache
    where it is set. Raises P4Error for a folder that cannot be used, or a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME") if os.geteuid() == os.getuid() else None
    top = Path(base) if base else _home() / ".cache"
    folder = top / name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            raise failure(
                f"the cache folder {folder} belongs to another user (uid {status.st_uid});"
                " remove it or set XDG_CACHE_HOME"
            )
        if status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise failure(
            f"cannot use the cache folder {folder}: {error.strerror};"
            " set XDG_CACHE_HOME to a folder of yours"
        ) from None
    return folder


def _home() -> Path:
    """The effective user's home. HOME says it only for a user id without an account, as many
    containers have. Raises P4Error if there is none."""
    user = os.geteuid()
    try:
        return Path(pwd.getpwuid(user).pw_dir)
    except KeyError:
        home = os.environ.get("HOME") if user == os.getuid() else None
    if not home:
        raise failure(
            f"user id {user} has no account, and so no home for the cache of compiled programs;"
            " set XDG_CACHE_HOME to a folder of yours"
        )
    return Path(home)


def digest(parts: Iterable[bytes | str]) -> str:
    """A name for what these parts say together."""
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.hexdigest()[:32]


def touch(*paths: Path) -> None:
    """Mark as used now, unless another process has pruned them since, or they are read-only."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.utime(path)


def prune(folder: Path, most: int = MAX_FILES) -> None:
    """Remove the files that were used least recently, if there are more than `most`, and the
    folders of compilations that were killed."""
    used = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_file():
                used.append((entry.stat().st_mtime_ns, entry.path))
            elif entry.stat().st_mtime < time.time() - ABANDONED_S:
                shutil.rmtree(entry.path, ignore_errors=True)
    for _, path in sorted(used)[: max(0, len(used) - most)]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def replace(path: Path, data: bytes) -> None:
    """Write a file so that no reader ever sees half of it."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def sealed(data: bytes) -> bytes:
    """`data` and its hash. Loading a shared object ignores what follows its end, so the whole file
    is as good as `data`."""
    return data + _SEAL + hashlib.sha256(data).hexdigest().encode() + b"\n"


def unsealed(path: Path) -> bytes | None:
    """The content of a file that was written with `sealed`. None: it is damaged, which one line on
    standard error says for each folder. Raises OSError."""
    whole = path.read_bytes()
    data = whole[:-_SEAL_BYTES]
    if sealed(data) == whole:
        return data
    tell_damaged(path)
    return None


def tell_damaged(path: Path) -> None:
    """Say that a file is damaged, once for each folder."""
    if path.parent not in _damaged_in:
        _damaged_in.add(path.parent)
        print(f"warning: the cached file {path} is damaged and is made again", file=sys.stderr)
