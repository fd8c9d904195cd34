"""What a run may have left on the machine, as a set of strings that tests compare before and after.

Only what can be ours is looked at: processes that carry the testbed's mark in their environment or
command line, network interfaces and named namespaces that appeared, files below the run directory.
Other people's runs on the same machine come and go during a test, so processes count only when they
descend from this test process (or lost their parent) and interfaces only in the root namespace,
where no run ever puts one.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

RUN_DIRECTORY = Path("/run/ina-testbed")


def why_no_network() -> str | None:
    """The reason why network tests cannot run here, None where they can."""
    if os.geteuid() != 0:
        return "network tests need root (sudo ./test)"
    if importlib.util.find_spec("mininet") is None:
        return "network tests need Mininet (sudo ./demo installs it)"
    return None


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
    found = set()
    for pid in children_of(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found.add(f"process {pid} {command.strip()}")
    return found


def _run_files(owners: set[int]) -> set[str]:
    """Files of runs whose runner is one of `owners` (process ids), or no longer lives."""
    found = set()
    if RUN_DIRECTORY.is_dir():
        for path in RUN_DIRECTORY.iterdir():
            pid = path.name.split("-")[0]
            if pid.isdigit() and (int(pid) in owners or not Path(f"/proc/{pid}").exists()):
                found.add(f"file {path}")
    return found


def leftovers() -> set[str]:
    """A snapshot; what is in a later one and not in an earlier one was left behind."""
    owners = {os.getpid()} | children_of(os.getpid())
    return _interfaces() | _named_namespaces() | _processes() | _run_files(owners)
