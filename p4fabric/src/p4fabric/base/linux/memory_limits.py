"""The memory that this process may take, and the processes that the kernel killed for lack of it.

Three limits exist: the machine, the process's control group (of version 1 or 2, and those above it,
as a container or a batch system sets them up), and its address space (`ulimit -v`). A process that
exceeds one of the first two is killed with signal 9.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
_MIB = 1 << 20


def available_bytes() -> int:
    """The memory in bytes that this process and its children may still take together."""
    import psutil

    free = psutil.virtual_memory().available
    for group in _groups():
        limit, used = _limit_bytes(group), _used_bytes(group)
        if limit is not None and used is not None:
            free = min(free, limit - used)
    return max(0, free)


def address_space_bytes() -> int | None:
    """The limit of `ulimit -v`; None: there is none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def kills() -> int:
    """The number of processes of this machine that the kernel has killed because memory ran out."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def advice() -> str:
    """The limits of this process, for a message about memory."""
    limit = address_space_bytes()
    if limit is not None:
        return f"`ulimit -v` allows {limit // _MIB} MiB: raise it, or take a smaller experiment"
    limits = [each for group in _groups() if (each := _limit_bytes(group)) is not None]
    if limits:
        most = min(limits) // _MIB
        return f"its control group allows {most} MiB: raise that, or take a smaller experiment"
    return "close other programs, or take a smaller experiment"


def _groups() -> Iterator[Path]:
    """The folders of this process's control groups that can limit memory, and of those above."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            tops = [GROUPS, GROUPS / "unified"]
        elif "memory" in controllers.split(","):
            tops = [GROUPS / "memory"]
        else:
            continue
        for top in tops:
            # In a container the path can be one of the host's, and the container's group the top.
            inner = top / path.lstrip("/")
            for group in (inner, *inner.parents):
                if group.is_dir():
                    yield group
                if group == top:
                    break


def _limit_bytes(group: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        found = _number(group / name)
        if found is not None and found < 1 << 60:  # version 1 has a huge number for no limit
            return found
    return None


def _used_bytes(group: Path) -> int | None:
    """The memory of a group, without files that the kernel can drop."""
    for name, dropped in (
        ("memory.current", "inactive_file "),
        ("memory.usage_in_bytes", "total_inactive_file "),
    ):
        used = _number(group / name)
        if used is None:
            continue
        try:
            lines = (group / "memory.stat").read_text().splitlines()
        except OSError:
            lines = []
        return used - sum(int(line.split()[1]) for line in lines if line.startswith(dropped))
    return None


def _number(path: Path) -> int | None:
    """A file's number; None where there is no such file, or it says `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
