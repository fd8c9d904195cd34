"""How much memory this process may take, and whether it has run out.

Three things limit it: the machine, the process's control group (of version 1 or 2, and those above
it, as a container or a batch system sets them up), and the limit of its address space (`ulimit
-v`). A process that exceeds the last one gets an error from the kernel, which looks different in
every library. One that exceeds the others is killed with signal 9.
"""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
_MIB = 1 << 20
# What libraries say that cannot map a file or start a thread.
_SAID = (
    "failed to map segment",
    "cannot allocate memory",
    "could not find/load shared object file",
    "unable to allocate",
    "can't start new thread",
    "failed to launch worker thread",
    "error return without exception set",
    "std::bad_alloc",
    "codec configuration error when writing image file",
)


def available_bytes() -> int:
    """How much more memory this process and its children may take together."""
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


def threads_may_start() -> bool:
    """Whether libraries may count on threads of their own. Where the address space is limited, one
    may not start, and pyarrow waits for it for ever."""
    return address_space_bytes() is None


def kills() -> int:
    """How many processes of this machine the kernel has killed so far because memory ran out."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that there is no more memory."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return says_so(str(error))


def says_so(text: str) -> bool:
    """Whether the message of a library means that there is no more memory."""
    # The same words can have other causes where nothing limits the address space.
    limited = address_space_bytes() is not None
    return limited and any(words in text.lower() for words in _SAID)


def advice() -> str:
    """What limits this process, for a message about memory."""
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
    """What a group takes, without files that the kernel can drop."""
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
