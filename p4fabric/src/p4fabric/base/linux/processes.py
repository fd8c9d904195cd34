"""Identities of processes: a process id together with its start time.

Process ids are used again after a while, so a bare id in a file written by a dead run may name
somebody else's process. The pair (id, start time in clock ticks since boot) never comes twice
within one boot.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """One process of this boot; `start` is field 22 of /proc/PID/stat (clock ticks since boot)."""

    pid: int
    start: int

    @staticmethod
    def of(pid: int) -> Identity | None:
        """The process that has this id now, None where there is none (or only its zombie)."""
        fields = stat_fields(pid)
        if fields is None or fields[0] in "ZX":
            return None
        return Identity(pid, int(fields[19]))

    def alive(self) -> bool:
        return Identity.of(self.pid) == self

    def kill(self) -> bool:
        """Kill the process if it still is this one; True if it was."""
        try:
            # The descriptor pins the process: between the look and the signal its id cannot pass
            # on.
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            if not self.alive():
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)


def identity(pid: int) -> dict[str, object]:
    """A process as a file names it: boot id, pid, start in clock ticks since boot."""
    found = Identity.of(pid)
    return {"boot": _boot(), "pid": pid, "start_ticks": found.start if found else None}


def is_alive(process: Mapping[str, object]) -> bool:
    """True if the process of `identity` still runs on this machine; after a reboot it does not."""
    pid, start = process.get("pid"), process.get("start_ticks")
    if process.get("boot") != _boot() or not isinstance(pid, int) or not isinstance(start, int):
        return False
    try:
        return Identity(pid, start).alive()
    except (OSError, ValueError):  # a number that no process can have
        return False


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def stat_fields(pid: int, thread: int | None = None) -> list[str] | None:
    """Fields of /proc/PID/stat, or of one thread's, from the third (state) on; None where it is
    gone."""
    place = f"/proc/{pid}" if thread is None else f"/proc/{pid}/task/{thread}"
    try:
        text = _read(f"{place}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command, in parentheses, may hold anything, parentheses included.
    return text.rpartition(")")[2].split()


def cpu_ns(pid: int) -> int | None:
    """CPU time that all threads of a process have used, in ns (in steps of one clock tick)."""
    fields = stat_fields(pid)
    return None if fields is None else _cpu_ns(fields)


def thread_cpu_ns(pid: int) -> dict[int, int]:
    """The same of each living thread, by its id; {} where the process is gone."""
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return {}
    found = {thread: stat_fields(pid, thread) for thread in threads}
    return {thread: _cpu_ns(fields) for thread, fields in found.items() if fields is not None}


def thread_waits(pid: int) -> dict[int, tuple[int, int]]:
    """The time that each living thread of a process was ready to run and had no processor, in ns,
    and the number of times that it got one, by thread id; {} where the process is gone or the
    kernel does not say."""
    waits = {}
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = _read(f"/proc/{pid}/task/{thread}/schedstat")
            waits[int(thread)] = int(text.split()[1]), int(text.split()[2])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return waits


def _read(path: str) -> str:
    """The text of a file. Not through pathlib: it interns every part of a path, and thousands of
    paths make Python's table of interned strings megabytes larger."""
    with open(path) as file:
        return file.read()


def _cpu_ns(fields: list[str]) -> int:
    return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
