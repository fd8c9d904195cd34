"""One limit on the memory of all processes of a grading.

Each process has a limit of its own (sandbox.py), but a grading has several. Where this user may
make control groups of the kernel (root; not in every container), the kernel holds all of them
together to the limit. Elsewhere the grader looks at them while it waits for one of them, and ends
that one when together they have more. The others stand still meanwhile (box.py), so nothing is
missed for longer than LOOK_S.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

LIMIT_BYTES = 2 << 30
LOOK_S = 0.05  # interval of looks at what the processes have
REMOVE_S = 2.0  # until the last process has left a group
PREFIX = "ina-labs-"  # of groups
GROUPS = Path("/sys/fs/cgroup")

_numbers = itertools.count()


class Memory:
    """The memory of some processes. To be closed.

    Args:
        limit: in bytes.
        groups: make a control group if possible.
    """

    def __init__(self, limit: int = LIMIT_BYTES, groups: bool = True) -> None:
        self.limit = limit
        self._group = _new_group(limit) if groups else None
        self._roots: set[int] = set()
        self._looked = 0.0

    @property
    def look_s(self) -> float | None:
        """Interval at which `over` should be asked; None: the kernel looks."""
        return None if self._group else LOOK_S

    def add(self, pid: int) -> None:
        """Count a process, and those that it will start."""
        self._roots.add(pid)
        if self._group is None:
            return
        try:
            (self._group / "cgroup.procs").write_text(str(pid))
        except OSError:  # it may make groups, and not fill them
            _remove(self._group)
            self._group = None

    def discard(self, pid: int) -> None:
        """The process has ended."""
        self._roots.discard(pid)

    def over(self) -> bool:
        """Together they have more than the limit, as far as that is looked at here."""
        now = time.monotonic()
        if self._group is not None or now - self._looked < LOOK_S:
            return False
        self._looked = now
        return self.used() > self.limit

    def used(self) -> int:
        """Bytes that the processes have for themselves."""
        return sum(_bytes(pid) for pid in _with_descendants(self._roots))

    def close(self) -> None:
        """Forget all; after the last process has ended."""
        if self._group is not None:
            _remove(self._group)
            self._group = None


def _bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.findall(r"^Rss(?:Anon|Shmem):\s*(\d+) kB", text, re.MULTILINE)
    return 1024 * sum(map(int, found))


def _with_descendants(roots: set[int]) -> set[int]:
    """Processes, and all that they have started; only the compiler's start any."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, front = set(roots), list(roots)
    while front:
        for pid in children.get(front.pop(), []):
            if pid not in found:
                found.add(pid)
                front.append(pid)
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            yield int(path.parent.name), int(fields[1])


def _new_group(limit: int) -> Path | None:
    """A new control group with a limit on its memory; None where there can be none."""
    for parent, names in _places():
        path = parent / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            for left in parent.glob(f"{PREFIX}*-*"):  # of graders that were killed
                owner = left.name.removeprefix(PREFIX).partition("-")[0]
                if not Path(f"/proc/{owner}").exists():
                    with contextlib.suppress(OSError):
                        left.rmdir()
            path.mkdir()
        except OSError:
            continue
        try:
            (path / names[0]).write_text(str(limit))
            for name, value in ((names[1], str(limit)), (names[2], "0")):
                if name and (path / name).exists():  # where swap is counted
                    (path / name).write_text(value)
        except OSError:
            _remove(path)
            continue
        return path
    return None


def _places() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders in which a group could be made, and its files: the limit, one on memory and swap
    together, one on swap alone."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "")
            yield GROUPS / "memory" / own.strip("/"), names
        elif not controllers:
            # A group with processes has no groups below it, but beside it there may be some.
            for folder in (GROUPS / own.strip("/")).parents:
                with contextlib.suppress(OSError):
                    if "memory" in (folder / "cgroup.subtree_control").read_text().split():
                        yield folder, ("memory.max", "", "memory.swap.max")


def _remove(group: Path) -> None:
    end = time.monotonic() + REMOVE_S
    while group.exists() and time.monotonic() < end:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.01)
