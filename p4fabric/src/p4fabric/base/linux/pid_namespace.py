"""A process whose descendants all end with it, also those that have begun a session of their own.

`torchrun` starts each rank in a new session, which outlives a kill of torchrun's process group. But
the kernel ends all processes of a PID namespace when the first of them ends. So there are three
processes: one outside, which waits and can be killed; the first one inside, which ends with it; and
the one that goes on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from p4fabric.base.linux import kernel

STATUS_BYTES = 4


def go_on_inside(number: int) -> None:
    """Go on in a new process, in a PID namespace that it shares with its descendants alone. The
    calling process, which must be root and have one thread, does not return: it ends as the new one
    does, and if it is killed, all of them are.

    number: process ids inside begin behind 1000 (number + 1), so that those of different
    namespaces differ, as far as the kernel lets that be chosen. Raises SystemExit if there are no
    PID namespaces."""
    os.setsid()  # so that a signal to the caller's group does not end it
    outside = os.pidfd_open(os.getpid())
    try:
        kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS)
    except OSError as error:
        sys.exit(f"a program needs a PID namespace, and the kernel refuses it: {error.strerror}")
    ended, said = os.pipe()
    first = os.fork()
    if first != 0:
        os.close(said)
        _end_as_it_does(ended, first)
    kernel.die_with_caller(outside)
    kernel.mount("proc", "/proc", "proc", 0)
    with contextlib.suppress(OSError):  # a kernel that cannot restore processes
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(1000 * (number % 30 + 1)))
    child = os.fork()
    if child != 0:
        _wait_for(child, said)


def _wait_for(child: int, said: int) -> None:
    """Be the first process of a namespace: wait for all, until `child` has ended."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            os.write(said, status.to_bytes(STATUS_BYTES, "little"))
            os._exit(0)


def _end_as_it_does(ended: int, first: int) -> None:
    """Wait for the status of the process inside, and end in the same way."""
    data = os.read(ended, STATUS_BYTES)
    os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(int.from_bytes(data, "little")) if data else -signal.SIGKILL
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
