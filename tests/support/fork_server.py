"""A process that has imported what `ina` imports, and forks a process for each command: a script.

Nothing has run in it but imports, it has no other thread (it refuses to fork if it has), and its
children close all of its files. Its arguments are the descriptor of a socket and the names of
modules to import. A message on the socket brings a command, the descriptors of its three streams,
and a socket that is told its process id and then how it ended: status and processor seconds. The
server ends when the other side of the socket is closed, as it is when the process at that side has
ended in any way; commands still at work go on, as children of any ended process do.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "run.py"
LARGEST = 1 << 18  # bytes of a message


def serve(requests: socket.socket) -> None:
    """Until the other side is closed."""
    children: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, who waits
    before_s = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    message, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 4)
                    if not message:
                        return
                    told = socket.socket(fileno=descriptors[3])
                    pid = fork(json.loads(message), descriptors[:3])
                    told.send(json.dumps(pid).encode())
                    watched = os.pidfd_open(pid)
                    children[watched] = pid, told
                    selector.register(watched, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    pid, told = children.pop(key.fd)
                    _, status, used = os.wait4(pid, 0)
                    own_s = time.process_time()
                    spent_s = used.ru_utime + used.ru_stime + own_s - before_s
                    before_s = own_s
                    # Who asked may be gone.
                    with contextlib.suppress(OSError):
                        told.send(json.dumps([status, spent_s]).encode())
                    told.close()
                    os.close(key.fd)


def fork(command: dict, streams: list[int]) -> int:
    """Process id of the command's process; closes the streams here."""
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"the server has {threads} threads"
    pid = os.fork()
    if pid:
        for descriptor in streams:
            os.close(descriptor)
        return pid
    try:
        run(command, streams)
    finally:
        os._exit(70)  # not reached
    return 0


def run(command: dict, streams: list[int]) -> None:
    """Be a new process with run.py and its arguments; never returns."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    sys.argv[:] = [str(RUN), *command["words"]]
    sys.path[0] = str(ROOT)
    code = 1
    try:
        runpy.run_path(str(RUN), run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        traceback.print_exception(type(error), error, _of_the_command(error.__traceback__))
        if interrupted:
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _of_the_command(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without this file's frames and those of runpy."""
    first = trace
    while first and first.tb_frame.f_code.co_filename != str(RUN):
        first = first.tb_next
    return first or trace


def main(descriptor: int, names: list[str]) -> None:
    # As run.py does.
    sys.path[:1] = [str(ROOT), str(ROOT / "p4engine" / "src")]
    for name in names:
        importlib.import_module(name)
    del sys.path[1]  # run.py adds it again
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests and their commands
    serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
