"""Whether the process that wrote "running" still runs.

A process id alone is reused, so it is kept with the time since boot at which the process started
and with the boot's own id; on another machine, or after a reboot, that process is surely gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def identity(pid: int) -> dict[str, Any]:
    """What tells this process from every other: boot id, pid, start in clock ticks since boot."""
    return {"boot": _boot(), "pid": pid, "start_ticks": _start_ticks(pid)}


def is_alive(process: dict[str, Any]) -> bool:
    """Whether the process of `identity` still runs on this machine (a zombie does not)."""
    pid = process.get("pid")
    if process.get("boot") != _boot() or not isinstance(pid, int):
        return False
    start = _start_ticks(pid)
    return start is not None and start == process.get("start_ticks")


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command in brackets may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
