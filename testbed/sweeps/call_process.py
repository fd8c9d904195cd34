"""A Python process of the testbed that carries out calls for another one.

It makes them one after the other in its main thread, and ends with its parent. It is a new process,
not a fork, without the handlers and threads of the one that runs; it imports neither the program
that runs nor anything from the current folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from p4engine.module_start import module_command
from p4engine.process_end import exit_with
from p4fabric.base.linux.blas_threads import no_blas_threads
from p4fabric.base.linux.kernel import die_with_parent

from testbed.paths import module_environment

P = ParamSpec("P")
T = TypeVar("T")


class ProcessLost(Exception):
    """The process ended before it answered."""


class CallProcess:
    """A running process. It lives no longer than the thread that made it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                module_command("testbed.sweeps.call_process", theirs.fileno(), os.getpid()),
                stdin=subprocess.DEVNULL,
                env=module_environment(),
                pass_fds=(theirs.fileno(),),
            )
        self._connection = Connection(ours.detach())
        with contextlib.suppress(OSError):  # a process that is gone is noticed by the first call
            self._connection.send([each for each in sys.path if each])

    def __call__(self, call: Callable[P, T], /, *given: P.args, **options: P.kwargs) -> T:
        """The result of a call there; what the call raises is raised here. Raises ProcessLost."""
        try:
            self._connection.send((call, given, options))
            result, error = self._connection.recv()
        except (EOFError, ConnectionError):
            raise ProcessLost(f"exit code {self._process.wait()}") from None
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        """End the process at once; a call in another thread then raises ProcessLost."""
        self._process.kill()

    def close(self) -> None:
        """End the process, which carries out no call now."""
        self._connection.close()
        self._process.wait()


def main(descriptor: int, parent: int) -> int:
    """Carry out calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends at once with Ctrl-C
    die_with_parent(parent)
    connection = Connection(descriptor)
    try:
        sys.path[:] = connection.recv()
        while True:
            with no_blas_threads():  # what is called is imported
                call, given, options = connection.recv()
            connection.send(_outcome(call, given, options))
    except (EOFError, ConnectionError):
        return 0


def _outcome(
    call: Callable[..., T], given: Iterable[object], options: Mapping[str, object]
) -> tuple[T | None, Exception | None]:
    try:
        return call(*given, **options), None
    except Exception as error:
        return None, error


if __name__ == "__main__":
    exit_with(lambda: main(*map(int, sys.argv[1:])))
