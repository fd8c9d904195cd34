"""A process shuts itself in before it touches what a student has written.

Several walls stand behind each other, because not every kernel has them all: limits on what the
process may use up, a network namespace of its own, Landlock for files, seccomp for the rest. The
process tells the grader which of them are active (`Confinement`), and the grader tells its user
which are not.

There are three kinds of process. *compile* runs our P4 compiler and the system's C compiler on a
student's program: it may start programs and write to its scratch folder. *run* executes what came
of it, or a student's Python: it may write nowhere and start nothing. *network* is *run* for a
switch on a Mininet network: root has put it into the switch's network namespace, in which there is
nothing but the links to the hosts, and of root's privileges it keeps the one to send and receive
frames.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import p4engine
from testbed.labs.grader import landlock, seccomp
from testbed.linux import kernel
from testbed.paths import LABS, PACKAGE

ROOT = PACKAGE.parent
ENGINE = Path(p4engine.__file__).resolve().parent
KINDS = ("compile", "run", "network")
MEMORY_BYTES = {"compile": 3 << 30, "run": 1 << 30, "network": 1 << 30}
FILE_BYTES = {"compile": 128 << 20, "run": 0, "network": 0}
DESCRIPTORS = {"compile": 256, "run": 64, "network": 64}
FRAMES = (socket.AF_PACKET, socket.AF_NETLINK)  # the latter tells of interfaces that go down

CAP_NET_RAW, CAPABILITIES_3 = 13, 0x20080522
# Counters of the process's own interfaces (the packet loop of the switch process reads them).
OWN_INTERFACES = Path("/proc/thread-self/net")

# What a Python program and a C compiler read; nothing in it belongs to a user of the machine.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


@dataclass(frozen=True)
class Confinement:
    """Which walls stand: "" or the reason for which one does not."""

    files: str = ""  # Landlock
    network: str = ""  # namespace
    calls: str = ""  # seccomp

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def gaps(self) -> list[str]:
        """What a submission could do here that it should not, as sentences."""
        made = []
        if self.files:
            made.append(
                f"files: {self.files}; a submission can read and write what you can."
                " Landlock (Linux 5.13 and newer) stops that"
            )
        if self.network and self.calls:
            made.append(f"network: {self.network}; {self.calls}; a submission can open connections")
        if self.calls:
            made.append(
                f"system calls: {self.calls}; a submission can send signals to your processes"
            )
        return made


def _limits(kind: str, cpu_s: int) -> None:
    values = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: MEMORY_BYTES[kind],
        resource.RLIMIT_FSIZE: FILE_BYTES[kind],
        resource.RLIMIT_NOFILE: DESCRIPTORS[kind],
        resource.RLIMIT_CORE: 0,
    }
    if kind == "run":
        values[resource.RLIMIT_NPROC] = 0  # it does not bind root, whom "network" needs
    for which, value in values.items():
        resource.setrlimit(which, (value, value))


def readable() -> list[Path]:
    """What a confined process may read besides its scratch folder: no checks, no solutions."""
    python = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    trees = [*map(Path, SYSTEM), *python, ENGINE, PACKAGE]
    allowed = [path for tree in trees for path in _all_but(tree, LABS)]
    return [*allowed, LABS / "grader", LABS / "__init__.py", Path("/proc/cpuinfo")]


def _all_but(tree: Path, hidden: Path) -> Iterator[Path]:
    """The folder `tree`, or, if `hidden` is in it, everything in it except the path to `hidden`."""
    if not hidden.is_relative_to(tree):
        yield tree
    elif hidden != tree:
        for child in tree.iterdir():
            yield from _all_but(child, hidden)


def _keep_capability(number: int) -> None:
    """Give up all privileges but one."""
    bit = 1 << number
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
    sets = (ctypes.c_uint32 * 6)(bit, bit, 0, 0, 0, 0)  # effective, permitted, inheritable; twice
    kernel.call("capset", header, sets)


def _own_namespaces(kind: str) -> str:
    """Leave the machine's network and interprocess communication; "" or why that is impossible."""
    if kind == "network":
        wanted = kernel.CLONE_NEWIPC  # it is in the switch's network namespace already
    else:
        # A user namespace also takes root's privileges over the machine away from the process.
        wanted = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
    try:
        kernel.unshare(wanted)
    except OSError as error:
        return f"no namespace ({error.strerror})"
    return ""


def confine(
    kind: str, scratch: Path, cpu_s: int, start_threads: Callable[[], None] = lambda: None
) -> Confinement:
    """Confine this process permanently.

    Args:
        cpu_s: seconds of CPU time until it is killed.
        start_threads: starts the threads that the process needs; none can be started afterwards.
    """
    assert kind in KINDS, kind
    seccomp.library()
    kernel.die_with_parent(os.getppid())  # nothing survives the grader
    _limits(kind, cpu_s)
    kernel.set_no_new_privileges()
    files = calls = ""
    network = _own_namespaces(kind)
    read, write = [*readable(), scratch], [Path(d) for d in DEVICES]
    if kind == "compile":
        write.append(scratch)
    if kind == "network":
        read.append(OWN_INTERFACES)
        os.open(OWN_INTERFACES, os.O_PATH)  # the permission lasts as long as it is in use
    try:
        landlock.restrict(read, write)
    except OSError as error:
        files = error.strerror or str(error)
    if kind == "network":
        _keep_capability(CAP_NET_RAW)
    start_threads()
    try:
        seccomp.restrict(kind == "compile", FRAMES if kind == "network" else ())
    except OSError as error:
        calls = f"no filter ({error.strerror or error})"
    return Confinement(files, network, calls)
