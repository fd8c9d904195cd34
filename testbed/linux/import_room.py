"""Room in the address space for libraries that cannot be loaded with too little of it.

Some compiled libraries do not survive an address space (`ulimit -v`) that ends while they load:
OpenBLAS, which numpy and scipy load, asks for memory for ever or ends the process, and one that has
loaded a part of Arrow crashes at its exit. So their room is asked for before their import begins.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from testbed.linux.memory_limits import threads_may_start

# What the import of a module adds to the address space at most, with what it imports, and a margin.
# Measured on x86-64: 83, 88, 98, 61 and 58 MiB. 32 of matplotlib's are what OpenBLAS takes when the
# first matrix is inverted; it ends the process if it cannot have them.
ROOM_MIB = {
    "numpy": 100,
    "scipy.linalg": 104,
    "pyarrow": 112,
    "pyarrow.parquet": 72,
    "matplotlib": 72,
}


def ask_for_room() -> None:
    """From now on the import of one of these libraries is a MemoryError where the address space is
    limited and has no room for it."""
    if not threads_may_start():
        # Each of OpenBLAS's threads takes memory of its own.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not any(isinstance(finder, _RoomFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RoomFinder())


class _RoomFinder(MetaPathFinder):
    """Finds no module; the import system asks it before all others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        room = ROOM_MIB.get(name)
        if room is None or threads_may_start():
            return
        try:
            mmap.mmap(-1, room << 20).close()
        except OSError:
            raise MemoryError(f"no room for {name}, which takes {room} MiB") from None
        if name == "matplotlib":
            import numpy as np

            np.linalg.inv(np.eye(2))  # has OpenBLAS take its memory now, while it is there
