"""The clocks that a submission's Python sees: its own processor time, so that it computes the same
on a machine that is busy with other things.

A planner that searches "for half a second" by time.monotonic() would find less on a busy machine.
time.sleep() takes no time; it moves these clocks on. time.process_time() stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

NS = 1_000_000_000


def install() -> None:
    """Replace the clocks of module `time`; before a submission's module imports it."""
    slept_ns = 0
    process_ns = time.process_time_ns
    begin_ns = time.time_ns() - process_ns()

    def now_ns() -> int:
        return process_ns() + slept_ns

    def sleep(seconds: Any) -> None:
        nonlocal slept_ns
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        slept_ns += int(float(seconds) * NS)

    def seconds(of: Callable[[], int]) -> Callable[[], float]:
        return lambda: of() / NS

    def date_ns() -> int:
        return begin_ns + now_ns()

    time.sleep = sleep
    time.monotonic_ns = time.perf_counter_ns = now_ns
    time.monotonic = time.perf_counter = seconds(now_ns)
    time.time_ns, time.time = date_ns, seconds(date_ns)
