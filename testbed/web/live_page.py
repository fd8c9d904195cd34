"""The run's side of its live page: starts the page's process and tells it what there is to show.

What is said goes through a thread of its own, so that the run never waits for the page. A page that
has died is left alone.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from p4engine.module_start import module_command
from p4fabric.base import interrupts
from p4fabric.base.errors import UserError
from p4fabric.base.linux.ownership import user_behind

from testbed.paths import module_environment
from testbed.results.schema import Row
from testbed.run_parts.live_view import Sources, WorkerTimes
from testbed.setup.job_setups import PortStats

CHARTS_NS = 1_000_000_000  # between two looks at what charts show, at least
CHARTS_SHARE = 0.02  # of the run's time that goes into it, at most
WORKERS = 64  # whose times are told
END_S = 20.0  # for the page to tell its readers how the run ended, on a busy machine


class LivePage:
    """`address`: where the page is, with its token. Use as a context manager around a run."""

    def __init__(self, stay: bool = False) -> None:
        """stay: the page stays after the run, until Ctrl-C. Raises UserError where no port is to be
        had."""
        self.stay = stay
        self._messages: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._sources: Sources | None = None
        self._told: dict[tuple[int, int], int] = {}  # iterations of a worker that are told for good
        self._next_ns = 0
        token = secrets.token_urlsafe(24)
        try:
            listening = socket.create_server(("127.0.0.1", 0))
        except OSError as error:
            raise UserError(f"--web: no port of 127.0.0.1 can be had: {error.strerror}") from None
        self.address = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
        ours, theirs = socket.socketpair()
        with listening, theirs:
            self._process = subprocess.Popen(
                module_command("testbed.web.page_process", theirs.fileno(), listening.fileno()),
                stdin=subprocess.DEVNULL,
                env=module_environment(),
                pass_fds=(theirs.fileno(), listening.fileno()),
                start_new_session=True,  # Ctrl-C is for the run, which ends the page
            )
        self._connection = Connection(ours.detach())
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()
        self._say("open", {"token": token, "user": user_behind(), "stay": stay})

    # -- what a runtime's view calls (testbed.run_parts.live_view.Page)

    def begin(self, jobs: Sequence[Row], sources: Sources) -> None:
        """A repetition begins."""
        self._sources = sources
        self._told = {}
        sources.snapshots.news()
        self._say("begin", {"jobs": jobs, "repetition": sources.repetition})

    def show(self, state: dict[str, Any]) -> None:
        """Show the tables of the view."""
        self._say("state", state)

    def charts_due(self) -> bool:
        """True if the charts are due for an update."""
        return time.monotonic_ns() >= self._next_ns

    def draw(self, elapsed_ns: int, ports: Mapping[str, list[PortStats]]) -> None:
        """Say what charts show."""
        began_ns = time.monotonic_ns()
        sources = self._sources
        assert sources is not None, "the page has not begun"
        links = [row for name, rows in ports.items() for row in sources.links(name, rows)]
        self._say(
            "draw",
            {
                "elapsed_ns": elapsed_ns,
                "snapshots": sources.snapshots.news(),
                "hosts": sources.hosts(),
                "times": [self._news(each) for each in list(sources.times())[:WORKERS]],
                "links": links,
                "faults": sources.faults(elapsed_ns),
                "measures": sources.measures(),
            },
        )
        now_ns = time.monotonic_ns()
        self._next_ns = now_ns + max(CHARTS_NS, int((now_ns - began_ns) / CHARTS_SHARE))

    def _news(self, of: WorkerTimes) -> dict[str, Any]:
        """The iterations that have begun and were not told, or not to their end."""
        first = self._told.get((of.job, of.worker), 0)
        ends = of.times["end_ns"][first:] < 0
        ended = int(ends.argmax()) if ends.any() else len(ends)
        begun = int((of.times["start_ns"][first:] >= 0).sum())
        self._told[of.job, of.worker] = first + ended
        return {
            "job": of.job,
            "worker": of.worker,
            "shape": of.times["done_ns"].shape,
            "first": first,
            "times": {name: each[first : first + begun].copy() for name, each in of.times.items()},
        }

    # -- the end

    def end(self, how: str, report: Path | None = None) -> None:
        """The run is over. how: a sentence; report: its report.html."""
        self._say("end", {"how": how, "report": str(report.absolute()) if report else None})

    def wait(self) -> None:
        """Until Ctrl-C."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            interrupts.exit_code()  # the interrupt does not come again

    def close(self) -> None:
        """End the page, after the last update."""
        self._messages.put(None)
        self._thread.join(END_S)
        with contextlib.suppress(OSError):
            self._connection.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(self, *exception: object) -> None:
        with interrupts.tear_down() if _in_main_thread() else contextlib.nullcontext():
            self.close()

    def _say(self, kind: str, content: dict[str, Any]) -> None:
        if self._thread.is_alive():
            self._messages.put((kind, content))

    def _send_all(self) -> None:
        while (message := self._messages.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                print("the live page has ended; the run goes on", file=sys.stderr)
                return


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
