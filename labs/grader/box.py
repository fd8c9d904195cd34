"""The grader's end of a confined process: start it, call it, and stop it in any case.

A `Box` is one process with a folder of its own. It answers calls (inside/worker.py says which).
Each has a time limit in processor time of the process, so that a busy machine does not cost a
student points. A limit on the clock that is CLOCK times as long stands behind it: where that is
reached, the call has not been judged, and nobody has lost anything. A process that waits for
something instead of computing is late by its own fault. A process that is late, dies, or sends
rubbish is killed with all that it has started, and the call raises what happened. What it prints is
read and mostly thrown away. The process gets nothing of the grader's: no descriptors, no
environment, no seed, no path of a check or a solution. Between calls a submission's Python stands
still: it cannot do anything while another process of the submission is asked.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.base.linux.kernel import enter_network

from labs.grader import sandbox, seccomp
from labs.grader.inside import channel
from labs.grader.inside.walls import NOBODY
from labs.grader.memory import Memory

PRINTED_BYTES = 4096  # of a process's output that are kept
CHUNK = 1 << 16
START_S = 20.0
END_S = 20.0
CALL_S = 5.0
CLOCK = 20  # seconds on the clock for each second of processor time
LOOK_S = 0.25  # interval of looks at the process
ASLEEP_S = 2.0  # that a process may wait for anything but the grader, at least
CPU_MARGIN_S = 2
PREFIX = sandbox.PREFIX
SIGNALLED = 128  # added by bubblewrap to the number of the signal that ended the process
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_memories: dict[Path, Memory] = {}  # by scratch folder, which each grading has one of
BOOT = "import sys; sys.path[:] = %r; from inside.worker import main; main(*sys.argv[1:])"


class BoxError(Exception):
    """A call that gave no result; the message says why in a sentence for the student."""


class Refused(BoxError):
    """The process is well and says that it cannot: an error in the student's program."""


class BoxDied(BoxError):
    """Error: the process has ended."""


class NotJudged(Exception):
    """The machine was too busy to judge; the message says so. Not the submission's fault."""


class Box:
    """A confined process.

    Args:
        kind: "compile", "switch", "python" or "network" (sandbox.py).
        scratch: its folder, from `scratch_folder`.
        life_s: seconds of CPU time that it may use in its whole life.
        packages: Python packages that a student's Python may import.
        namespace: id of a process whose network namespace it lives in; for "network".

    Raises UserError where there can be no sandbox.
    """

    def __init__(
        self,
        kind: str,
        scratch: Path,
        life_s: float,
        packages: Sequence[str] = sandbox.PYTHON_PACKAGES,
        namespace: int | None = None,
    ) -> None:
        filter_file = os.memfd_create("filter", 0)
        os.write(filter_file, seccomp.program(kind))
        os.lseek(filter_file, 0, os.SEEK_SET)
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        information, info = os.pipe()
        self._buffer = bytearray()
        self._kind = kind
        self.used_s = 0.0  # processor time of the last call
        self.printed = bytearray()
        self.pid = 0  # of the process that answers, once it is there
        self._cpu_s = 0.0
        self._first = -1  # descriptor of the sandbox's first process
        self._own = -1  # descriptor of the process that answers
        if scratch not in _memories:
            _memories[scratch] = Memory()
        self._memory = _memories[scratch]
        begin = sandbox.start(kind, scratch, packages, info)
        arguments = [
            kind,
            str(begin.submission),
            json.dumps(sandbox.limits(kind, int(life_s) + CPU_MARGIN_S)),
            json.dumps(["numpy"] if kind == "python" else []),
            str(filter_file),
            json.dumps([requests, replies]),
        ]
        try:
            self._process = subprocess.Popen(
                [*begin.words, "-c", BOOT % begin.search_path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env=begin.environment,
                pass_fds=[requests, replies, info, filter_file],
                start_new_session=True,
                preexec_fn=None if namespace is None else partial(enter_network, namespace),
            )
        finally:
            for descriptor in (requests, replies, output, info, filter_file):
                os.close(descriptor)
        try:
            self._receive("start", START_S)
            first = self.pid = self._process.pid
            if begin.nested:
                first = int(json.loads(os.read(information, CHUNK))["child-pid"])
                self.pid = _child(first)
            self._first = os.pidfd_open(first)
            self._own = os.pidfd_open(self.pid)
            self._memory.add(self.pid)
            self._signal(signal.SIGSTOP)
        except BoxDied as error:
            raise UserError(f"a sandbox could not be started: {error}") from None
        except BaseException:
            self.close()
            raise
        finally:
            os.close(information)

    @property
    def alive(self) -> bool:
        return self._requests >= 0

    def close(self) -> None:
        """Kill the process and all that it has started."""
        if self._process.returncode is None:
            if self._first >= 0:  # all others in the sandbox end with it, and bubblewrap then
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
                try:
                    self._process.wait(END_S)
                except subprocess.TimeoutExpired:
                    pass
            self._process.kill()
            self._process.wait()
        self._hear()
        self._memory.discard(self.pid)
        for name in ("_requests", "_replies", "_output", "_first", "_own"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, name: str, *args: Any, limit_s: float = CALL_S) -> Any:
        """The result of a call, which may take `limit_s` seconds of processor time.

        Raises:
            Refused: the process reports an error.
            BoxDied: it was too slow, died, or sent no proper answer; it exists no more.
            NotJudged: the machine was too busy; it exists no more.
        """
        if self._requests < 0:
            raise BoxDied("your program has been stopped before")
        self._signal(signal.SIGCONT)
        try:
            channel.write(self._requests, [name, [channel.encode(each) for each in args]])
        except BrokenPipeError:
            pass  # the reason comes with the end of the replies
        try:
            return self._receive(name, limit_s)
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        """Let a submission's Python stand still, or go on."""
        if self._kind == "python" and self._own >= 0:
            try:
                signal.pidfd_send_signal(self._own, number)
            except ProcessLookupError:
                pass  # the reason comes with the end of the replies

    def _receive(self, what: str, limit_s: float) -> Any:
        begin, before, asleep_s = time.monotonic(), self.cpu_s(), 0.0
        look_s = min(self._memory.look_s or LOOK_S, max(limit_s, 0.01))
        try:
            while (found := channel.unpack(self._buffer)) is None:
                ready = select.select([self._replies, self._output], [], [], look_s)[0]
                for descriptor in ready:
                    self._take(descriptor, what)
                if self._replies in ready:
                    continue
                if self._memory.over():
                    limit = f"{self._memory.limit >> 30} GB"
                    raise BoxDied(f"your program was stopped: it has more than {limit} of memory")
                self.used_s = self.cpu_s() - before
                if self.used_s >= limit_s:
                    limit = f"{limit_s:.3g} s of computing"
                    raise BoxDied(f"your program was stopped after {limit} (in {what})")
                asleep_s += look_s if not ready and self._asleep() else 0.0
                if asleep_s >= max(limit_s, ASLEEP_S):
                    raise BoxDied(
                        f"your program was stopped: it waits, and does not compute (in {what})"
                    )
                if time.monotonic() - begin - asleep_s >= CLOCK * limit_s:
                    raise NotJudged(
                        "not judged, run again: this machine was too busy"
                        f" ({CLOCK * limit_s:.0f} s for {limit_s:.3g} s of computing)"
                    )
            self.used_s = self.cpu_s() - before
            message, size = found
            del self._buffer[:size]
            status, value = message
            value = channel.decode(value)
        except (channel.MalformedMessage, ValueError, TypeError, RecursionError) as error:
            self.close()
            raise BoxDied(f"your program sent no proper answer to {what} ({error})") from None
        except (BoxDied, NotJudged):
            self.close()
            raise
        if status != "ok":
            raise Refused(str(value))
        return value

    def cpu_s(self) -> float:
        """Processor time that the process has used so far; the compiler's with its programs."""
        if not self.pid:
            return 0.0
        try:
            # The clock of another process (clock_getcpuclockid in libc).
            self._cpu_s = time.clock_gettime((~self.pid << 3) | 2)
            if self._kind == "compile":
                fields = self._stat()
                self._cpu_s += (int(fields[13]) + int(fields[14])) * TICK_S
        except OSError:
            pass  # it has ended; what was known last holds
        return self._cpu_s

    def _stat(self) -> list[str]:
        text = Path(f"/proc/{self.pid}/stat").read_text()
        return text.rpartition(")")[2].split()

    def _asleep(self) -> bool:
        """It waits for something that is not a processor."""
        if self._kind not in ("python", "switch") or not self.pid:
            return False
        try:
            return self._stat()[0] == "S"
        except OSError:
            return False

    def _hear(self) -> None:
        """Keep the beginning of what the process has printed."""
        if self._output < 0:
            return
        try:
            while data := os.read(self._output, CHUNK):
                self.printed += data[: PRINTED_BYTES - len(self.printed)]
                if len(self.printed) >= PRINTED_BYTES:
                    break
        except BlockingIOError:
            return

    def _take(self, descriptor: int, what: str) -> None:
        if descriptor == self._replies:
            data = os.read(descriptor, CHUNK)
            if not data:
                raise BoxDied(f"your program {self._end()} (in {what})")
            self._buffer += data
            return
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return
        self.printed += data[: PRINTED_BYTES - len(self.printed)]
        if not data:
            time.sleep(0.001)  # it has closed its output; the replies decide

    def _end(self) -> str:
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "closed its connection to the grader"
        self._hear()
        code = SIGNALLED - code if code < 0 else code
        if code in (SIGNALLED + signal.SIGXCPU, SIGNALLED + signal.SIGKILL):
            return "was stopped: it used up its CPU time or memory"
        if code > SIGNALLED:
            return f"crashed ({signal.Signals(code - SIGNALLED).name})"
        text = self.printed.decode(errors="replace").strip()
        return "ended" + (f": {text[-600:]}" if text else f" with exit code {code}")


def _child(parent: int) -> int:
    """The id of the only child of a process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == parent:
            return int(path.parent.name)
    raise BoxDied("its process is gone")


def hand_over(folder: Path) -> None:
    """Let the compiler in the sandbox write to a folder; where root grades, it is nobody."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def scratch_folder() -> Path:
    """A new folder for confined processes; to be removed with `remove`.

    Folders of ours that a killed grader has left are removed on the way; the name has its process.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = path.name[len(PREFIX) :].partition("-")[0]
        try:
            if path.lstat().st_uid == os.geteuid() and not Path(f"/proc/{owner}").exists():
                remove(path)
        except OSError:
            pass  # another grader was faster
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def remove(folder: Path) -> None:
    """Remove a scratch folder with all that is in it; after its last process has ended."""
    memory = _memories.pop(folder, None)
    if memory is not None:
        memory.close()
    shutil.rmtree(folder, ignore_errors=True)
