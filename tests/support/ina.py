"""The command `ina` as a process, for tests: forked from one with all imports (fork_server.py).

A start of its own takes more than a second of processor time for imports. A variable of the
environment that is read while modules are imported, or one that nobody here has thought of, could
make a difference: where such a variable is not as it was when the server began, the command gets a
start of its own. Tests of how a command starts, or that watch its process, start run.py themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from p4engine_testing import leftovers, rings

from tests.support.fork_server import LARGEST, ROOT, RUN

# Read when a command needs them, not while modules are imported.
READ_LATE = {"PYTEST_CURRENT_TEST", "TMPDIR", "PATH", "INA_LAWS", "COLUMNS", "P4ENGINE_CFLAGS"}
# What a command imports when it comes to it, with what those import.
PRELOADED = (
    "testbed.cli.commands.check",
    "testbed.cli.commands.diff",
    "testbed.cli.commands.live",
    "testbed.cli.commands.reports",
    "testbed.cli.commands.run",
    "testbed.cli.commands.sweep",
    "testbed.cli.commands.trace",
    "testbed.analysis.report",
    "testbed.emulate.mininet_run",
    "p4fabric.netfile.network_run",
    "testbed.simulate.virtual_run",
)
# A process with threads cannot be forked: those of linear algebra, and pyarrow's for its memory.
WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Server:
    """The one of this process. It ends with it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.environment = dict(os.environ)
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = Path(__file__).with_name("fork_server.py")
        environment = {**self.environment, **WITHOUT_THREADS}
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, str(script), str(number), *PRELOADED]
            self.process = subprocess.Popen(
                command, pass_fds=[number], stdin=subprocess.DEVNULL, env=environment, cwd=ROOT
            )
        leftovers.LASTING.add(self.process.pid)
        atexit.register(self.end)

    def serves(self, environment: Mapping[str, str]) -> bool:
        """False if the environment differs in what imports may read."""
        mine = self.environment
        differ = {name for name, _ in mine.items() ^ environment.items()}
        return self.owner == os.getpid() and differ <= READ_LATE

    def end(self) -> None:
        if self.owner == os.getpid():
            self.requests.close()
            self.process.wait()


class Process:
    """A forked command. The other ends of its streams are pipes here."""

    def __init__(
        self, server: Server, words: list[str], folder: str, environment: dict[str, str]
    ) -> None:
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        self.streams = {out: bytearray(), err: bytearray()}
        self.told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = {"words": words, "folder": folder, "environment": environment}
        message = json.dumps(command).encode()
        assert len(message) <= LARGEST
        with theirs:
            given = [0, their_out, their_err, theirs.fileno()]
            socket.send_fds(server.requests, [message], given)
        os.close(their_out)
        os.close(their_err)
        self.pid = json.loads(self.told.recv(100))

    def ended(self) -> int:
        """The exit code, after all has been read; that of a signal is negative."""
        with selectors.DefaultSelector() as selector:
            for number in self.streams:
                selector.register(number, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    if part := os.read(key.fd, 1 << 16):
                        self.streams[key.fd] += part
                    else:
                        selector.unregister(key.fd)
        status, spent_s = json.loads(self.told.recv(100))
        rings.ELSEWHERE_S.append(spent_s)
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        for number in self.streams:
            os.close(number)
        self.told.close()


_servers: list[Server] = []


def ina(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`run.py WORDS...`, waited for, with what it printed as text. Folder and environment are
    this process's, unless others are given."""
    environment = dict(os.environ if env is None else env)
    arguments = [str(word) for word in words]
    command = [sys.executable, str(RUN), *arguments]
    if not _servers or _servers[-1].owner != os.getpid():
        _servers.append(Server())
    server = _servers[-1]
    if not server.serves(environment):
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    process = Process(server, arguments, os.fspath(cwd or Path.cwd()), environment)
    try:
        code = process.ended()
    except BaseException:  # the test is out of time, or interrupted
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        raise
    finally:
        process.close()
    out, err = (bytes(text).decode() for text in process.streams.values())
    return subprocess.CompletedProcess(command, code, out, err)
