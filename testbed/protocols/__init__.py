"""The systems' host side: workers and servers as state machines without sockets and clocks.

A machine is a named tuple of numpy arrays and records, and a few functions over it: packets and the
time in, packets and the next deadline out. Mininet's host processes and virtual time drive the same
code. It runs once per packet, so numba compiles it; with ``NUMBA_DISABLE_JIT=1`` the same functions
run as plain Python and give the same results.

Numbers that belong together are fields of a record (`records`): measured, that costs nothing over
places in an array of integers.

Reading order: `host_spec` (what a host is told), `sizes` and `wire` (the packet), `values` (what
workers send and how a sum is checked), `records`, `heap`, `send_scoreboard` (what a worker knows of
an iteration's fragments), `worker_state` and `payload` (what all workers share), `pool_worker` and
`server_store` (what a system decides: their `Rules`), then a system, such as `esa`.

Compiled functions take `njit` from `jit`, which says where numba keeps them; `callees` says how
they call each other. Functions that a system's type chooses (`by_type`) are in `jit`, too. The
package itself does without numba, so that what only reads an experiment (`sizes`, the plan) need
not wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import shutil
import time
from importlib.metadata import version
from pathlib import Path

from p4engine.backend.cache import cache_folder, digest, touch
from p4engine.frontend.diagnostics import P4Error
from p4fabric.base.errors import UserError

SOURCES = ("protocols", "workload", "hosts", "simulate")
CONSTANTS = ("collective/memory_map.py", "collective/prelude.py")  # parts of compiled code


@functools.cache
def cache_directory() -> Path:
    """The folder of compiled protocol code for this source, library versions and user.

    Raises UserError when there can be no folder, or when it belongs to another user, whose code
    would then be run.
    """
    package = Path(__file__).resolve().parent.parent
    sources = [path for name in SOURCES for path in sorted((package / name).glob("*.py"))]
    sources += [package / name for name in CONSTANTS]
    code = [part for path in sources for part in (path.name, path.read_bytes())]
    versions = [version(library) for library in ("numba", "numpy", "llvmlite")]
    made_from = digest([*code, *versions, platform.python_version()])[:16]
    try:
        cache_folder("ina-testbed")  # nobody else's, so that what is below it is nobody else's
        folder = cache_folder(f"ina-testbed/numba/{made_from}")
    except P4Error as error:
        raise UserError(error.diagnostics[0].message) from None
    touch(folder)  # in use
    return folder


def remove_unused(days: int = 30) -> None:
    """Remove the folders of other sources that no process has used for so long; each has some tens
    of MB."""
    mine = cache_directory()
    before = time.time() - days * 24 * 3600
    for folder in mine.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            if folder != mine and folder.stat().st_mtime < before:
                shutil.rmtree(folder, ignore_errors=True)


def compiled() -> list[Path]:
    """Files with the code of a function of these sources; the first run makes them, in minutes."""
    return [*cache_directory().rglob("*.nbc")]
