"""Files that are there as a whole, or not at all.

Whatever a command writes for a user is written beside its place first. So a full disk, an interrupt
or an error leaves what was there before, and no half page or empty figure that looks like a result.
The error names the file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.ownership import hand_over


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Within, the path to write to, beside `path`; afterwards the file is in its place and handed
    over (ownership.py). A device, FIFO or socket is written as it is, and a symbolic link followed.
    Raises OSError with the name of `path`."""
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    if os.path.lexists(target) and not target.is_file():
        draft = target
    try:
        yield draft
        if draft != target:
            hand_over(draft)
            os.replace(draft, target)
    except BaseException as error:
        if draft != target:
            with contextlib.suppress(OSError):
                draft.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # Python names a file only where it could not be opened
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file: text in UTF-8, or bytes. Raises OSError as `whole`."""
    with whole(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Within, an OSError becomes the UserError that `path` cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
