"""The end of a Python process whose work is done.

Before it ends, Python takes apart each module and each object that is left. After numba, pandas and
matplotlib that takes half a second, and changes nothing: the kernel takes the memory back anyway.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import NoReturn


def exit_with(main: Callable[[], int]) -> NoReturn:
    """`sys.exit(main())`, without taking apart what the process has loaded.

    Threads that are no daemons have ended by then, what was registered with atexit since this call
    has been called, and the standard streams are written. Where `main` raises, or a stream cannot
    be written, the process ends as it would without this function."""
    codes: list[int] = []
    atexit.register(_end_at_once, codes)  # the last one to be called, since it is the first
    codes.append(main())
    sys.exit(codes[0])


def _end_at_once(codes: list[int]) -> None:
    """End the process, with the exit code that `codes` has; empty: do nothing."""
    if not codes:
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            return  # Python tries again, says so, and has an exit code for it
    os._exit(codes[0])
