"""Count of a rank's calls with other ranks, by route.

The testbed gives the rank a file for it (`COLLECTIVES`). What has been counted since the last time
is appended to it now and then, and at the end of the process: a JSON object per line, with the
fields of `KEY` and of `VALUES`. The runner adds the lines up, for its live view and for the table
`collectives`.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time

from testbed.collective.own_rank import RANKS

COLLECTIVES = "INA_COLLECTIVES"  # environment variable: the file
KEY = ("communicator", "collective", "dtype", "route")
VALUES = ("calls", "bytes", "time_ns")
SYSTEM, GLOO, FLOW = "system", "gloo", "flow"  # routes
ALL = "all"  # the communicator of all ranks
PERIOD_S = 1.0  # least time between two times of writing,
SHARE = 0.02  # and as a share of the time that has passed: long runs write more rarely


def label(ranks: list[int] | None = None) -> str:
    """Name of a communicator: the job's numbers of its ranks; None: all."""
    return ALL if ranks is None else " ".join(map(str, ranks))


class Tally:
    """Counts of one process, by several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counts: dict[tuple[str, str, str, str], list[int | None]] = {}
        self._begun_s = time.monotonic()
        self._due_s = self._begun_s + PERIOD_S
        if COLLECTIVES in os.environ or RANKS in os.environ:
            atexit.register(self.write)

    def add(
        self,
        communicator: str,
        collective: str,
        dtype: str,
        size: int,
        time_ns: int | None,
        route: str = SYSTEM,
    ) -> None:
        """Count a call. dtype: "" without values. size: of what the rank gives, in bytes. time_ns:
        from its call to its end; None: unknown."""
        with self._lock:
            counts = self._counts.setdefault((communicator, collective, dtype, route), [0, 0, 0])
            calls, total, took = counts
            assert calls is not None and total is not None
            counts[:2] = calls + 1, total + size
            counts[2] = None if took is None or time_ns is None else took + time_ns
        if time.monotonic() >= self._due_s:
            self.write()

    def rows(self) -> list[dict[str, str | int | None]]:
        """The counts that have not been written, a record per line of the file."""
        with self._lock:
            return [
                dict(zip(KEY + VALUES, (*key, *counts), strict=True))
                for key, counts in sorted(self._counts.items())
            ]

    def write(self) -> None:
        """Append to the file, which all processes of a rank share, and count anew."""
        path = os.environ.get(COLLECTIVES)
        with self._lock:
            now_s = time.monotonic()
            self._due_s = now_s + max(PERIOD_S, SHARE * (now_s - self._begun_s))
            rows = self.rows() if path else []
            if path:
                self._counts.clear()
        if path and rows:
            with open(path, "a") as file:  # in one write, so that lines stay whole
                file.write("".join(json.dumps(row) + "\n" for row in rows))


TALLY = Tally()
