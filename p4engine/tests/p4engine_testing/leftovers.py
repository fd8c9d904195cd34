"""Traces of a test on the machine, as a set of strings compared before and after it.

Only what can be the test's is looked at: processes that descend from this one, network interfaces
in its namespace, named namespaces. Others on the same machine come and go during a test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

LASTING: set[int] = set()  # processes that end with this one


def _interfaces() -> set[str]:
    return {f"interface {name}" for name in os.listdir("/sys/class/net")}


def _named_namespaces() -> set[str]:
    try:
        return {f"namespace {name}" for name in os.listdir("/run/netns")}
    except FileNotFoundError:
        return set()


def children_of(pid: int) -> set[int]:
    """All living descendants of a process (zombies included: they too are left behind)."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = set()
    grown = {pid}
    while grown:
        grown = {child for child, parent in parents.items() if parent in grown} - found
        found |= grown
    return found


def _processes() -> set[str]:
    # Python keeps its helper for shared resources from its first use to the end of the process.
    own = {resource_tracker._resource_tracker._pid} | LASTING  # type: ignore[attr-defined]
    found = set()
    for pid in children_of(os.getpid()) - own:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found.add(f"process {pid} {command.strip()}")
    return found


def data_bytes() -> int:
    """Memory of this process that a leak adds to: its heap and what it has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def leftovers() -> set[str]:
    """A snapshot; what is in a later one and not in an earlier one was left behind."""
    return _interfaces() | _named_namespaces() | _processes()


VANISHING_S = 5.0


@contextmanager
def nothing_left(look: Callable[[], set[str]] = leftovers) -> Iterator[None]:
    """Compare what `look` finds before and after.

    The kernel takes interfaces and dead processes away a moment after their last user is gone, so a
    difference gets some seconds to vanish before it counts.
    """
    before = look()
    yield
    deadline = time.monotonic() + VANISHING_S
    while (left := look() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "left behind:\n" + "\n".join(sorted(left))
