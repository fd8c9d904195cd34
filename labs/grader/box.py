"""The grader's end of a confined process: start it, call it, and stop it in any case.

A `Box` is one process with a folder of its own. It answers calls (worker.py says which). Each has a
time limit, in CPU time, so that a busy machine does not cost a student points; a process that
sleeps gets a few times as much on the clock. A process that is late, dies, or sends rubbish is
killed with all that it has started, and the call raises what happened. What it prints is read and
mostly thrown away. The process gets nothing of the grader's: no descriptors, no environment, no
seed, no path of a check or a solution.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from testbed.labs.grader import channel
from testbed.labs.grader.confine import ENGINE, ROOT, Confinement
from testbed.linux.kernel import enter_network

PRINTED_BYTES = 4096  # of a process's output that are kept
CHUNK = 1 << 16
START_S = 20.0
CALL_S = 5.0
PATIENCE = 4  # seconds on the clock for each second of CPU time
LOOK_S = 0.5  # how often to look at the process's CPU time
CPU_MARGIN_S = 2
PREFIX = "ina-labs-"  # of scratch folders
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
BOOT = (
    "import sys; sys.path[:0] = sys.argv[1:3]; from testbed.labs.grader.worker import main; main()"
)


class BoxError(Exception):
    """A call that gave no result; the message says why in a sentence for the student."""


class Refused(BoxError):
    """The process is well and says that it cannot: an error in the student's program."""


class BoxDied(BoxError):
    """There is no process any more."""


class Box:
    """A confined process.

    Args:
        kind: "compile", "run" or "network" (confine.py).
        scratch: its folder, from `scratch_folder`.
        life_s: seconds of CPU time that it may use in its whole life.
        preload: modules that it imports before the walls go up.
        namespace: id of a process whose network namespace it lives in; for "network".
    """

    def __init__(
        self,
        kind: str,
        scratch: Path,
        life_s: float,
        preload: str = "",
        namespace: int | None = None,
    ) -> None:
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._output, output = os.pipe()
        self._buffer = bytearray()
        self.printed = bytearray()
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        arguments = [
            str(ROOT),
            str(ENGINE.parent),
            kind,
            str(scratch),
            str(int(life_s) + CPU_MARGIN_S),
            preload,
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", BOOT, *arguments, str(requests), str(replies)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=scratch,
            env=environment,
            pass_fds=[requests, replies],
            start_new_session=True,
            preexec_fn=None if namespace is None else partial(enter_network, namespace),
        )
        for descriptor in (requests, replies, output):
            os.close(descriptor)
        try:
            self.walls = Confinement(**self._receive("start", START_S))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return self._requests >= 0

    def close(self) -> None:
        """Kill the process and all that it has started."""
        if self._process.returncode is None:
            for target in (-self._process.pid, self._process.pid):
                try:
                    os.kill(target, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            self._process.wait()
        for name in ("_requests", "_replies", "_output"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self, name: str, *args: Any, limit_s: float = CALL_S, clock_s: float | None = None
    ) -> Any:
        """The result of a call, which may take `limit_s` seconds of CPU time and `clock_s` on the
        clock (default: PATIENCE times as much).

        Raises:
            Refused: the process reports an error.
            BoxDied: it was too slow, died, or sent no proper answer; it exists no more.
        """
        if self._requests < 0:
            raise BoxDied("your program has been stopped before")
        try:
            channel.write(self._requests, [name, [channel.encode(each) for each in args]])
        except BrokenPipeError:
            pass  # the reason comes with the end of the replies
        return self._receive(name, limit_s, clock_s)

    def _receive(self, what: str, limit_s: float, clock_s: float | None = None) -> Any:
        begin = look = time.monotonic()
        clock_s = clock_s or PATIENCE * limit_s
        used: float | None = None
        try:
            while (found := channel.unpack(self._buffer)) is None:
                now = time.monotonic()
                if now - begin >= clock_s:
                    raise BoxDied(f"your program was stopped after {clock_s:.0f} s (in {what})")
                if now >= look + LOOK_S:
                    # Most calls never come here; the first look is where the time begins.
                    used, look = self._cpu_s() if used is None else used, now
                    if self._cpu_s() - used >= limit_s:
                        limit = f"{limit_s:.0f} s of computing"
                        raise BoxDied(f"your program was stopped after {limit} (in {what})")
                ready = select.select([self._replies, self._output], [], [], LOOK_S)[0]
                for descriptor in ready:
                    self._take(descriptor, what)
            message, size = found
            del self._buffer[:size]
            status, value = message
            value = channel.decode(value)
        except (channel.MalformedMessage, ValueError, TypeError, RecursionError) as error:
            self.close()
            raise BoxDied(f"your program sent no proper answer to {what} ({error})") from None
        except BoxDied:
            self.close()
            raise
        if status != "ok":
            raise Refused(str(value))
        return value

    def _cpu_s(self) -> float:
        """CPU time that the process has used."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def _take(self, descriptor: int, what: str) -> None:
        data = os.read(descriptor, CHUNK)
        if descriptor == self._replies:
            if not data:
                raise BoxDied(f"your program {self._end()} (in {what})")
            self._buffer += data
        elif data:
            self.printed += data[: PRINTED_BYTES - len(self.printed)]
        else:
            time.sleep(0.001)  # it has closed its output; the replies decide

    def _end(self) -> str:
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return "closed its connection to the grader"
        if code == -signal.SIGXCPU or code == -signal.SIGKILL:
            return "was stopped: it used up its CPU time or memory"
        if code < 0:
            return f"crashed ({signal.Signals(-code).name})"
        text = self.printed.decode(errors="replace").strip()
        return "ended" + (f": {text[-600:]}" if text else f" with exit code {code}")


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
    """Remove a scratch folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
