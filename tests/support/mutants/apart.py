"""A process with mounts, network and processes of its own, for tests that run on Mininet.

Their work is done by other processes, which load a module from its file: there the mutant lies over
the original, for these processes alone. Whatever a mutant leaves behind ends with them."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

NEW_MOUNTS, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x20000000, 0x40000000  # linux/sched.h


def leave_the_others() -> None:
    """Go on in a fork of this process, which has left all others; this one ends with it. Another
    one is there, which waits for processes that nobody else waits for. Needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS | NEW_PROCESSES | NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "mutants of what runs on Mininet need root")
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0x7F)
    worker = os.fork()
    while worker:
        ended, status = os.wait()
        if ended == worker:
            os._exit(os.waitstatus_to_exitcode(status) & 0x7F)
    for command in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "-t", "proc", "proc", "/proc"),
        ("mount", "-t", "tmpfs", "tmpfs", "/run"),
        ("ip", "link", "set", "lo", "up"),
    ):
        subprocess.run(command, check=True)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # other runs load these modules, too


def lay_over(path: Path, text: str, folder: Path) -> None:
    """Have the processes that begin from now on find `text` in the file."""
    mutant = folder / path.name
    mutant.write_text(text)
    subprocess.run(("mount", "--bind", mutant, path), check=True)
