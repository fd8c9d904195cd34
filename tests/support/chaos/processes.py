"""The processes of a run, found from outside: by their place below its runner and their titles.

Whoever looks adopts what is orphaned below it (PR_SET_CHILD_SUBREAPER). So a process that outlives
its killed runner is still found, although the chain of parents is broken.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil
from p4engine_testing.leftovers import children_of

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_TITLES = {
    "ina host pool": "pool",
    "ina switch pool": "pool",
    "ina host ": "host",
    "ina switch ": "switch",
    "ina namespace ": "namespace",
}


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """A block in which processes that lose their parent below this one become its children."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0, 0, 0, 0)


def title(pid: int) -> str:
    """The command line as `ps` shows it; "" if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace").strip()


def _parent(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except psutil.NoSuchProcess:
        return 0


def by_kind(runner: int) -> dict[str, list[tuple[str, int]]]:
    """(title, process id) of a run's processes by kind, in the order of their titles. A new
    process has the title of the pool that has forked it for a moment: it is no pool."""
    found: dict[str, list[tuple[str, int]]] = {}
    for pid in children_of(runner):
        said = title(pid)
        kind = next((kind for start, kind in _TITLES.items() if said.startswith(start)), None)
        if kind and (kind != "pool" or _parent(pid) == runner):
            found.setdefault(kind, []).append((said, pid))
    return {kind: sorted(each) for kind, each in found.items()}


def adopted(own: Collection[int]) -> set[int]:
    """Descendants of this process but for `own` and what is below them; the dead are taken away."""
    below = {pid for each in own for pid in children_of(each)} | set(own)
    for pid in children_of(os.getpid()) - below:
        with contextlib.suppress(OSError):  # a child of a child is its parent's to wait for
            os.waitpid(pid, os.WNOHANG)
    return children_of(os.getpid()) - below


def send(pid: int, number: int) -> bool:
    """Send a signal; whether there was somebody to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def carry_on(pids: Collection[int]) -> None:
    """Let stopped processes run."""
    for pid in pids:
        send(pid, signal.SIGCONT)
