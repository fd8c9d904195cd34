"""Users who could have written a file whose content is run as code.

Needs the standard library alone, because `setup.sh` runs this file before anything is installed:
with a path, it prints what `writable_by_others` finds.
"""

from __future__ import annotations

import functools
import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from pathlib import Path


def writable_by_others(path: Path) -> Path | None:
    """The first among a file, what is in it if it is a folder, and the folders above it that
    somebody could have written beside root, the user, and the owner of this module, whose code runs
    already. None: there is none.

    A link counts as writable, as does what cannot be looked at. Of the folders above, those are
    fine in which everybody can replace their own files alone, as /tmp. A group is fine that has no
    other members, as a user's own group has where umask lets it write."""
    trusted = {0, os.geteuid(), Path(__file__).stat().st_uid}
    for each, is_above in _looked_at(path):
        try:
            status = each.lstat()
        except OSError:  # removed meanwhile, or in a folder that we may not enter
            return each
        is_sticky = is_above and status.st_mode & stat.S_ISVTX
        by_all = status.st_mode & stat.S_IWOTH
        by_group = status.st_mode & stat.S_IWGRP and not _members(status.st_gid) <= trusted
        if status.st_uid not in trusted or ((by_all or by_group) and not is_sticky):
            return each
    return None


def _looked_at(path: Path) -> Iterator[tuple[Path, bool]]:
    """Paths, and whether each is a folder above the first."""
    whole = path.parent.resolve() / path.name
    yield from ((each, True) for each in whole.parents)
    yield whole, False
    yield from ((each, False) for each in whole.rglob("*"))


@functools.cache
def _members(group: int) -> set[int]:
    """Ids of the users in a group; -1 among them: there may be more."""
    try:
        names = set(grp.getgrgid(group).gr_mem)
        users = {each.pw_uid for each in pwd.getpwall() if each.pw_gid == group}
        return users | {pwd.getpwnam(name).pw_uid for name in names}
    except KeyError:
        return {-1}


if __name__ == "__main__":
    print(writable_by_others(Path(sys.argv[1])) or "", end="")
