"""Processes of a run, forked from a small parent that has already imported their modules.

Importing numba and loading what it has compiled takes more than a second; a network of 32 hosts
cannot afford that 32 times. So one *spawner* process per kind (hosts; switches and namespaces)
imports it once and forks a child per request, which enters its node's namespace and calls a
function. Children share the parent's memory, too: that is what keeps each one
small.

The spawner is a fresh interpreter, not a fork of the runner, so that children inherit neither
threads nor open files. It lives in a session of its own, so that Ctrl-C reaches only the runner,
which then ends things in order. Every process dies with its parent (PR_SET_PDEATHSIG): runner,
spawner, children.

Between runner and spawner goes a Unix socket of JSON messages:
  runner -> {"spawn": key, "target": "module:function", "namespace": process id or null,
             "name": of the process, "title": command line}, with open files: the arguments (a
             memory file of JSON), the log, then those for the function
         -> {"signal": key, "number": n}
  spawner -> {"ready": true} or {"failed": text}, {"started": key, "pid": n},
             {"exited": key, "code": n}
A function is called as `function(arguments, descriptors)`; it returns the exit code (None: 0).
"""

from __future__ import annotations

import array
import contextlib
import errno
import gc
import importlib
import json
import os
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from p4engine.module_start import module_command
from p4engine.process_end import exit_with

from p4fabric.base.errors import RunError, no_room, shortage
from p4fabric.base.linux import kernel, memory_limits
from p4fabric.base.linux.blas_threads import no_blas_threads
from p4fabric.base.linux.ownership import hand_over
from p4fabric.base.program import command_name, module_environment

MAX_MESSAGE = 65536
MAX_DESCRIPTORS = 16
SEND_TIMEOUT_S = 30  # it reads within milliseconds, unless it is stopped


class HasFileno(Protocol):
    """Anything that select can wait for."""

    def fileno(self) -> int: ...


@dataclass
class Process:
    """A child as the runner sees it. `code` is None while it runs, negative for a signal.
    `out_of_memory`: True if the kernel has killed it because memory ran out."""

    key: str
    log: Path
    pid: int = 0
    code: int | None = None
    out_of_memory: bool = False

    @property
    def how_it_ended(self) -> str:
        """Text for a message about the end of a process."""
        assert self.code is not None
        if self.out_of_memory:
            return f"was killed by the kernel, since memory ran out; {memory_limits.advice()}"
        if self.code < 0:
            return f"was killed by signal {-self.code}"
        if self._disk_full:
            return f"could not write: {no_room(self.log.parent)}"
        return f"ended with exit code {self.code}"

    def failure(self, what: str) -> RunError:
        """The error for a child that has ended too early; what: its name in the message."""
        return RunError(f"{what} {self.how_it_ended}", self.last_words, str(self.log))

    @property
    def last_words(self) -> str:
        """The end of its log, if that says more than `how_it_ended`."""
        return "" if self._disk_full else self.log_tail()

    @property
    def _disk_full(self) -> bool:
        """True if it could not write its files. Its last words may then have found no room either:
        so nothing in its log, on a full file system, says the same."""
        if not self.code or self.code < 0:
            return False
        said = self.log_tail(1)
        if said:
            return os.strerror(errno.ENOSPC) in said or os.strerror(errno.EDQUOT) in said
        try:
            return os.statvfs(self.log.parent).f_bfree == 0
        except OSError:
            return False

    def log_tail(self, lines: int = 12) -> str:
        """The last lines that the process wrote."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


class Spawner:
    """The runner's side: starts the spawner process and asks it for children.

    `kept`: where its log is copied at the end, if it is.

    Must be made in the runner's main thread: the kernel takes the death of the *thread* that
    started a process for the death of its parent.
    """

    def __init__(self, name: str, preload: Sequence[str], log: Path) -> None:
        """Start the process; it prepares what `preload` says while the caller goes on.

        preload: modules to import ("module"), functions to call then ("module:function", or
        "module:function JSON" with an argument).
        """
        self.name = name
        self.log = log
        self.kept: Path | None = None
        self.processes: dict[str, Process] = {}
        self._kills = memory_limits.kills()
        self._ready = False
        self._failed: RunError | None = None
        self._ended: list[Process] = []
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("ab") as output:
            self._process = subprocess.Popen(
                module_command(
                    "p4fabric.emulate.spawner",
                    theirs.fileno(),
                    os.getpid(),
                    f"{command_name()} {name}",
                    *preload,
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env=module_environment(),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """File descriptor for select: readable when `pump` has something to do."""
        return self._socket.fileno()

    def spawn(
        self,
        key: str,
        target: str,
        arguments: object,
        log: Path,
        *,
        namespace: int | None = None,
        descriptors: Sequence[int] = (),
        title: str | None = None,
    ) -> Process:
        """Ask for a child that calls `target` ("module:function"); does not wait for it.

        arguments: anything that JSON holds. namespace: id of a process whose network namespace the
        child enters first. descriptors: open files that the child gets, in this order. title: what
        `ps` shows as its command line, behind the program's name. Its standard output and error go
        to `log`.
        """
        process = self.processes[key] = Process(key, log)
        content = os.memfd_create("arguments", os.MFD_CLOEXEC)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            with open(os.dup(content), "w") as file:
                json.dump(arguments, file)
            message = {
                "spawn": key,
                "target": target,
                "namespace": namespace,
                "name": f"{command_name()}-{key}",
                "title": f"{command_name()} {title or key}",
            }
            self._send(message, [content, output, *descriptors])
        finally:
            os.close(content)
            os.close(output)
        return process

    def signal(self, process: Process, number: int) -> None:
        """Send a signal to a child; nothing happens if it has ended."""
        if process.code is None:
            with contextlib.suppress(RunError):
                self._send({"signal": process.key, "number": number})

    def pump(self) -> list[Process]:
        """Take in the spawner's messages, without waiting. Returns the children that ended."""
        self._receive()
        ended, self._ended = self._ended, []
        return ended

    def check(self) -> None:
        """Raises RunError if the spawner process itself has ended, or could not start."""
        if self._failed is not None:
            raise self._failed
        if self._process.poll() is not None:
            raise self._broken()

    def _receive(self) -> None:
        while True:
            try:
                data = self._socket.recv(MAX_MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            if not data:
                raise self._broken()
            message = json.loads(data)
            if "started" in message:
                self.processes[message["started"]].pid = message["pid"]
            elif "exited" in message:
                process = self.processes[message["exited"]]
                process.code = message["code"]
                process.out_of_memory = process.code == -9 and self._memory_ran_out()
                self._ended.append(process)
            elif "ready" in message:
                self._ready = True
            else:
                self._failed = RunError(
                    f"the {self.name} could not start: {message['failed']}",
                    self._tail(),
                    str(self.kept or self.log),
                )
                raise self._failed

    def wait(
        self,
        condition: Callable[[], bool],
        timeout: float,
        what: str,
        others: Sequence[HasFileno] = (),
    ) -> None:
        """Take in messages until `condition()` holds. After `timeout` s, RunError naming `what`.

        The condition is looked at again whenever the spawner says something or one of `others` is
        readable.
        """
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for source in (self, *others):
                selector.register(source, selectors.EVENT_READ)
            while True:
                self._receive()
                if condition():
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    message = f"{what} took longer than {timeout:g} s"
                    raise RunError(message, self._tail(), str(self.kept or self.log))
                selector.select(left)

    def wait_ready(self, timeout: float = 600) -> None:
        """Wait until everything is imported (compiling protocols for the first time takes long)."""
        self.wait(lambda: self._ready, timeout, f"start of the {self.name}")

    def wait_started(self, processes: Sequence[Process], timeout: float = 30) -> None:
        """Wait until all of these have a process id."""
        self.wait(
            lambda: all(p.pid for p in processes), timeout, f"start of processes ({self.name})"
        )

    def wait_ended(self, processes: Sequence[Process], timeout: float, what: str) -> None:
        """Wait until all of these have ended, with any exit codes."""
        self.wait(lambda: all(p.code is not None for p in processes), timeout, what)

    def close(self, timeout: float = 5) -> None:
        """Kill all children and the spawner, and wait until they are gone."""
        self._socket.close()
        if not self._ready and not self.processes:
            # It may import or compile for a long while yet, and has no children.
            self._process.kill()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self.kept is not None:
            with contextlib.suppress(OSError):
                shutil.copyfile(self.log, self.kept)
                hand_over(self.kept)

    def _send(self, message: dict, descriptors: Sequence[int] = ()) -> None:
        data = json.dumps(message).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        deadline = time.monotonic() + SEND_TIMEOUT_S
        while True:
            try:
                # Not socket.send_fds, which drops the flag and would wait.
                self._socket.sendmsg([data], rights, socket.MSG_DONTWAIT)
                return
            except BlockingIOError:
                # Full: the spawner may itself wait for us to read.
                self._receive()
                if time.monotonic() > deadline:
                    what = f"the {self.name} (process {self.pid}) took no message for"
                    raise RunError(f"{what} {SEND_TIMEOUT_S} s", self._tail()) from None
                select.select([self._socket], [self._socket], [], 1)
            except OSError as error:
                raise self._broken() from error

    def _broken(self) -> RunError:
        own = Process(self.name, self.log, self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            own.code = self._process.wait(1)
            own.out_of_memory = own.code == -9 and self._memory_ran_out()
        how = "closed its connection" if own.code is None else own.how_it_ended
        what = f"the {self.name} (process {self.pid}) {how}"
        return RunError(what, own.last_words, str(self.kept or self.log))

    def _memory_ran_out(self) -> bool:
        return memory_limits.kills() > self._kills

    def _tail(self) -> str:
        return Process(self.name, self.log).log_tail()


class _Server:
    """The spawner process itself: waits for requests and for the end of children."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.selector = selectors.DefaultSelector()
        self.selector.register(channel, selectors.EVENT_READ)
        self.children: dict[str, tuple[int, int]] = {}  # key -> (pid, pidfd)

    def serve(self) -> None:
        """Until the runner closes its end; then no child is left."""
        try:
            while True:
                for event, _ in self.selector.select():
                    if event.fileobj is self.channel:
                        if not self._request():
                            return
                    else:
                        self._reap(event.data)
        finally:
            for pid, _ in self.children.values():
                os.kill(pid, signal.SIGKILL)
            for pid, _ in self.children.values():
                _end_group(pid)
                os.waitpid(pid, 0)

    def _request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self.channel, MAX_MESSAGE, MAX_DESCRIPTORS)
        if not data:
            return False
        message = json.loads(data)
        if "spawn" in message:
            self._spawn(message, descriptors)
        elif message["signal"] in self.children:
            # Only we reap this child, so its id still is its own.
            os.kill(self.children[message["signal"]][0], message["number"])
        return True

    def _spawn(self, message: dict, descriptors: list[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child(message, descriptors, parent)
        for descriptor in descriptors:
            os.close(descriptor)
        watch = os.pidfd_open(pid)
        self.children[message["spawn"]] = pid, watch
        self.selector.register(watch, selectors.EVENT_READ, message["spawn"])
        self._report({"started": message["spawn"], "pid": pid})

    def _reap(self, key: str) -> None:
        pid, watch = self.children.pop(key)
        self.selector.unregister(watch)
        os.close(watch)
        _end_group(pid)
        _, status = os.waitpid(pid, 0)
        self._report({"exited": key, "code": os.waitstatus_to_exitcode(status)})

    def _report(self, message: dict) -> None:
        # A runner that no longer listens is noticed at the next select.
        with contextlib.suppress(OSError):
            self.channel.send(json.dumps(message).encode())


def _end_group(pid: int) -> None:
    """Kill the remaining processes of a child that leads a process group. This happens before the
    wait for the child: until then no other process can have its number."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _child(message: dict, descriptors: list[int], parent: int) -> None:
    """The rest of a forked child's life; never returns."""
    code = 1
    try:
        kernel.die_with_parent(parent)
        kernel.set_process_name(message["name"])
        kernel.set_command_line(message["title"])
        content, output, *own = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        _close_all_but({0, 1, 2, content, *own})
        os.lseek(content, 0, os.SEEK_SET)  # the writer shares the position with us
        with open(content) as file:
            arguments = json.load(file)
        if message["namespace"] is not None:
            kernel.enter_network(message["namespace"])
        module, _, function = message["target"].partition(":")
        result = getattr(importlib.import_module(module), function)(arguments, own)
        code = int(result) if result is not None else 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except MemoryError:
        print("memory ran out", file=sys.stderr)
    except (BlockingIOError, RuntimeError) as error:  # no more processes or threads, perhaps
        print(shortage(error) or traceback.format_exc(), file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
                os.close(int(name))


def main(arguments: list[str]) -> int:
    """`python -m p4fabric.emulate.spawner SOCKET RUNNER TITLE PRELOAD...`: only for `Spawner`."""
    kernel.die_with_parent(int(arguments[1]))
    kernel.set_process_name(arguments[2].replace(" ", "-", 1))
    kernel.set_command_line(arguments[2])
    channel = socket.socket(fileno=int(arguments[0]))
    gc.disable()  # of what is imported nothing is garbage: to look for it takes a tenth of the time
    try:
        for name in arguments[3:]:
            target, _, argument = name.partition(" ")
            module, _, function = target.partition(":")
            with no_blas_threads():
                imported = importlib.import_module(module)
            if function:
                getattr(imported, function)(*([json.loads(argument)] if argument else []))
    except BaseException as error:
        why = shortage(error)
        if not why:
            traceback.print_exc()
        why = why or f"{type(error).__name__}: {error}"
        channel.send(json.dumps({"failed": why}).encode())
        return 1
    # What is imported stays: the collector must not touch (and so copy) those
    # pages.
    gc.collect()
    gc.freeze()
    gc.enable()
    channel.send(json.dumps({"ready": True}).encode())
    try:
        _Server(channel).serve()
    except (MemoryError, OSError) as error:
        if not (cause := shortage(error)):
            raise
        print(cause, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]))
