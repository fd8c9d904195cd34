"""Results belong to the person who typed the command, not to the root that sudo made of them.

Only what root owns is handed over, symbolic links are changed and never followed, and a file with a
second name is left alone, so that nobody can make a run under sudo give away a file of the system.
"""

from __future__ import annotations

import os
from pathlib import Path


def user_behind() -> tuple[int, int] | None:
    """(uid, gid) of the user who called sudo; None when there is none, or we are not root."""
    if os.geteuid() != 0:
        return None
    try:
        uid, gid = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (uid, gid) if uid > 0 else None


def hand_over(path: Path, below: bool = False) -> None:
    """Gives `path` to the user behind sudo, if any; with `below`, all that is in it too."""
    user = user_behind()
    if user is None:
        return
    _give(path, user)
    if below and path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            for name in folders + files:
                _give(Path(folder, name), user)


def _give(path: Path, user: tuple[int, int]) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    several_names = found.st_nlink > 1 and not os.path.isdir(path)
    if found.st_uid == 0 and not several_names:
        os.lchown(path, *user)
