"""A seccomp filter: system calls that a submission has no business with fail from now on.

It closes what files (landlock.py) and resource limits leave open: sockets, signals to other
processes, looking into them, changing their limits, System V memory that outlives its makers, and,
where nothing has to be started any more, new processes and threads. A call that is refused returns
EPERM, so that Python reports it like any other error. The filter is classic BPF and works without
privileges; it holds for everything that the process starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Collection

# Numbers on x86-64 and on arm64 (which lacks the oldest calls).
CALLS: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198),
    "io_uring_setup": (425, 425),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "execveat": (322, 281),
}
STARTING = ("fork", "vfork", "clone", "clone3", "execve", "execveat")
# Allowed for the process itself: abort() sends itself a signal, getrlimit() asks for itself.
TGKILL, PRLIMIT = (234, 131), (302, 261)
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # AUDIT_ARCH, column of CALLS

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENT_0 = 0, 4, 16
ALLOW, FAIL = 0x7FFF0000, 0x00050000
X32 = 0x40000000  # x86-64's third numbering
SECCOMP = (317, 277)  # the call itself
SET_FILTER, ALL_THREADS = 1, 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("k", ctypes.c_uint32),
    ]


def restrict(may_start: bool, sockets: Collection[int] = ()) -> None:
    """Install the filter in all threads of this process.

    Args:
        may_start: the process can still start programs.
        sockets: address families of which it can still open sockets.

    Raises:
        OSError: this kernel or machine has no such filters, or `no_new_privs` is not set.
    """
    machine = os.uname().machine
    if machine not in MACHINES:
        raise OSError(f"no system call numbers known for {machine}")
    architecture, column = MACHINES[machine]
    refuse = (RETURN, 0, 0, FAIL | errno.EPERM)
    code: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, architecture),
        refuse,
        (LOAD, 0, 0, AT_NUMBER),
    ]
    if machine == "x86_64":
        code += [(JUMP_AT_LEAST, 0, 1, X32), refuse]
    for name, numbers in CALLS.items():
        number = numbers[column]
        if number is None or (may_start and name in STARTING):
            continue
        if name == "socket" and sockets:
            code += _for_first_argument(number, sockets, refuse)
            continue
        code += [(JUMP_EQUAL, 0, 1, number), refuse]
    for numbers, own in ((TGKILL, os.getpid()), (PRLIMIT, 0)):
        code += _for_first_argument(numbers[column], [own], refuse)
    code.append((RETURN, 0, 0, ALLOW))
    array = (_Instruction * len(code))(*(_Instruction(*each) for each in code))
    program = _Program(len(code), ctypes.cast(array, ctypes.c_void_p))
    call = ctypes.c_long(SECCOMP[column])
    if _libc.syscall(call, SET_FILTER, ALL_THREADS, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _for_first_argument(number: int, allowed: Collection[int], refuse: tuple) -> list[tuple]:
    """System call `number` only with one of `allowed` as its first argument. What a BPF program has
    loaded is gone afterwards, so both ways end here."""
    values = list(allowed)
    code: list[tuple] = [
        (JUMP_EQUAL, 0, len(values) + 3, number),
        (LOAD, 0, 0, AT_ARGUMENT_0),
    ]
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        code.append((JUMP_EQUAL, left, 0, value))
    return [*code, refuse, (RETURN, 0, 0, ALLOW)]
