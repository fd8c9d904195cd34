"""Tags: words that a person gives to a run or a sweep, to find it again.

They lie in the file `tags.txt` of its folder, a line each. Nothing else depends on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole, writing

TAGS_FILE = "tags.txt"
MAX_BYTES = 1 << 16
_TAG = re.compile(r"[\w][\w.:+-]{0,49}")


def checked(tags: Iterable[str]) -> list[str]:
    """The tags; raises UserError for one that is no word."""
    found = [*dict.fromkeys(tags)]
    for tag in found:
        if not _TAG.fullmatch(tag):
            raise UserError(
                f"tag: found {tag[:60]!r}; allowed: up to 50 letters, digits, and . _ : + -"
            )
    return found


def tags_of(folder: Path) -> list[str]:
    """The tags of a results folder; [] also where they cannot be read."""
    try:
        with open(folder / TAGS_FILE, encoding="utf-8") as file:
            lines = file.read(MAX_BYTES).split()
    except (OSError, UnicodeDecodeError):
        return []
    return [line for line in lines if _TAG.fullmatch(line)]


def write_tags(folder: Path, tags: Iterable[str]) -> None:
    """Replace the tags of a results folder. Raises UserError."""
    path, lines = folder / TAGS_FILE, "".join(f"{tag}\n" for tag in checked(tags))
    with writing(path):
        if lines:
            write_whole(path, lines)
        else:
            path.unlink(missing_ok=True)
