"""Which C compiler of this machine makes shared objects out of what P4 programs become.

A module of its own, of the standard library alone, so that what only looks whether a machine has
all it needs (`run.py doctor`) finds the compiler that a build will take.
"""

from __future__ import annotations

import os
import shutil


def find_c_compiler() -> str | None:
    """Path of the one that the environment names as CC, or else of cc, gcc or clang; None: there
    is none."""
    names = (os.environ.get("CC", "cc"), "gcc", "clang")
    return next(filter(None, map(shutil.which, names)), None)
