"""A few Linux calls that Python 3.10 does not have, or that would be slow as shell commands.

`setns` and `unshare` came to the os module with Python 3.12, `prctl` never did, and one `ethtool`
process per interface and setting costs more than building the rest of a small network. All
functions raise OSError as the os module would. Other modules reach libc through `call`.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 1 << 19

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_TIMERSLACK = 29
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCETHTOOL = 0x8946
_IFF_UP = 0x1
_IFF_RUNNING = 0x40
# ethtool's one-word settings: transmit checksum, TCP segmentation, generic segmentation, generic
# receive.
_OFFLOADS = {"tx": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
_TCP_OFFLOADS = ("tso", "gro")

_SYS_PIDFD_GETFD = 438  # on every architecture

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object, about: str = "") -> int:
    """Call a function of libc; returns what it returns. A negative number is a failure, which the
    OSError says of `about`, by default the function."""
    result = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about or name)
    return result


def _prctl(option: int, argument: object) -> None:
    """prctl(2) with one argument."""
    call("prctl", option, argument, 0, 0, 0)


def function(name: str, *argument_types: type) -> Callable[..., int]:
    """A function of libc as it is, for arguments of these types of ctypes; -1 is a failure."""
    made = getattr(_libc, name)
    made.argtypes = argument_types
    return made


def unshare(flags: int) -> None:
    """Give this process namespaces of its own (CLONE_NEWNET, CLONE_NEWNS, ...)."""
    call("unshare", flags)


def enter_network(pid: int) -> None:
    """Move this thread into the network namespace of process `pid`."""
    _enter(pid, "net", CLONE_NEWNET)


def enter_mounts(pid: int) -> None:
    """Move this process, which must have one thread, into the mount namespace of process `pid`."""
    _enter(pid, "mnt", CLONE_NEWNS)


def enter_node(pid: int) -> None:
    """Move this process, which must have one thread, into the network, host name and mounts of
    process `pid`. Its current folder is then the root."""
    enter_network(pid)
    _enter(pid, "uts", CLONE_NEWUTS)
    enter_mounts(pid)


def _enter(pid: int, kind: str, flag: int) -> None:
    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("setns", descriptor, flag)
    finally:
        os.close(descriptor)


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """mount(2) without data."""
    kind_bytes = kind.encode() if kind else None
    arguments = source.encode(), target.encode(), kind_bytes, ctypes.c_ulong(flags), None
    call("mount", *arguments, about=f"mount {target}")


def die_with_caller(pidfd: int) -> None:
    """The same for the process that `pidfd` is of, where that is the parent outside of this
    process's PID namespace: its id is unknown here."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if select.select([pidfd], [], [], 0)[0]:
        os._exit(1)


def die_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when process `parent`, its parent, ends.

    A parent that died before the call is noticed, too: the process then ends at once.
    """
    _prctl(_PR_SET_PDEATHSIG, with_signal)
    if os.getppid() != parent:
        os._exit(1)


def pidfd_getfd(pidfd: int, descriptor: int) -> int:
    """A duplicate, in this process, of another process's descriptor (Linux 5.6; needs the right to
    trace that process)."""
    return call("syscall", _SYS_PIDFD_GETFD, pidfd, descriptor, 0, about="pidfd_getfd")


def set_process_name(name: str) -> None:
    """Set the command that `ps` and `top` show (the first 15 bytes)."""
    _prctl(_PR_SET_NAME, name.encode()[:15])


def set_timer_slack(slack_ns: int) -> None:
    """Allow the kernel to end this thread's sleeps that much late."""
    _prctl(_PR_SET_TIMERSLACK, slack_ns)


def switch_offloads_off(interfaces: list[str], *, udp: bool = True) -> None:
    """Make packets on these interfaces of this namespace equal to those on a wire.

    With checksum offload a capture shows checksums that nobody computed, and a P4 program that
    verifies them drops everything; with segmentation offload it shows packets larger than the MTU.
    Without `udp` those stay on that UDP packets in trains need: the other end must then be a switch
    that takes trains apart. TCP's packets come one by one in any case.
    A setting that the driver does not know is already off.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in interfaces:
            for offload in _OFFLOADS if udp else _TCP_OFFLOADS:
                value = array.array("B", struct.pack("II", _OFFLOADS[offload], 0))
                request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
                try:
                    fcntl.ioctl(control, _SIOCETHTOOL, request)
                except OSError as error:
                    if error.errno != 95:  # EOPNOTSUPP
                        raise OSError(
                            error.errno, f"offloads of {name}: {error.strerror}"
                        ) from error


def set_interfaces_up(interfaces: list[str]) -> None:
    """Bring up an interface of this namespace, as `ip link set NAME up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in interfaces:
            request = struct.pack("16sh22x", name.encode(), _flags(control, name) | _IFF_UP)
            fcntl.ioctl(control, _SIOCSIFFLAGS, request)


def wait_running(interfaces: list[str], timeout: float) -> None:
    """Wait until interfaces of this namespace carry packets; else TimeoutError with the name.

    An interface that came up before its peer drops what is sent until the kernel has taken notice
    of the link in the background.
    """
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in interfaces:
            while not _flags(control, name) & _IFF_RUNNING:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{name} is not up after {timeout:g} s")
                time.sleep(0.001)


def _flags(control: socket.socket, name: str) -> int:
    request = struct.pack("16sh22x", name.encode(), 0)
    return struct.unpack_from("16sh", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]


def set_command_line(text: str) -> None:
    """Replace this process's command line, which `ps`, `top -c` and `pgrep -f` show. It is cut at
    the length of the one that the process was started with. Where the kernel does not say where
    that is, nothing happens."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # fields 48 and 49: arg_start, arg_end
    if not 0 < start < end:
        return
    room = end - start
    ctypes.memmove(start, text.encode()[: room - 1].ljust(room, b"\0"), room)


# -- scheduling

TIMER_SLACK_NS = 1000
SLICE_NS = 100_000  # the shortest that EEVDF takes; a short slice is an early deadline
NICE = -10
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


class _SchedulingAttributes(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    ]


def wake_promptly() -> None:
    """Ask for precise timers, a higher weight and a short time slice for this process.

    Hosts and switches sleep most of the time and work for microseconds. With the defaults their
    sleeps end up to 50 us late, and a process that has used little of its share still waits for
    another's time slice of some milliseconds to end; at 10 thousand packets/s both are visible as
    lag. None of the three is needed: what the kernel or missing rights refuse shows in the
    measured lag."""
    with contextlib.suppress(OSError):
        set_timer_slack(TIMER_SLACK_NS)
    with contextlib.suppress(OSError):
        os.nice(NICE)
    number = SCHED_SETATTR.get(platform.machine())
    if number is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        size = ctypes.sizeof(_SchedulingAttributes)
        attributes = _SchedulingAttributes(size=size, nice=nice, runtime_ns=SLICE_NS)
        with contextlib.suppress(OSError):
            call("syscall", number, 0, ctypes.byref(attributes), 0)
