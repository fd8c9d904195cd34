"""Rights that a process in the sandbox gives up by itself, after it has started and before it reads
a student's files: resources, the identity of root, and system calls.

The sandbox (sandbox.py) has taken the machine's files, processes and network away before. The
filter of system calls comes from outside, compiled (seccomp.py), because making it needs libraries
that a submission has no business with.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Callable, Mapping

NOBODY = 65534
CAP_NET_RAW, CAPABILITIES_3 = 13, 0x20080522
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 1, 8, 38
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
INSTRUCTION_BYTES = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def _prctl(option: int, argument: int) -> None:
    _call("prctl", option, ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)


def limit(limits: Mapping[str, int]) -> None:
    """Limits on what the process may use up: RLIMIT_... to a number."""
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def become_nobody(sends_frames: bool) -> None:
    """If root grades: become the user that owns nothing, for ever, without root's privileges, but
    for the one to send and receive frames if `sends_frames`."""
    if os.geteuid() != 0:
        return
    _prctl(PR_SET_KEEPCAPS, int(sends_frames))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    bit = 1 << CAP_NET_RAW if sends_frames else 0
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_3, 0)
    sets = (ctypes.c_uint32 * 6)(bit, bit, 0, 0, 0, 0)  # effective, permitted, inheritable; twice
    _call("capset", header, sets)


def put_up(
    limits: Mapping[str, int],
    filter_program: bytes,
    sends_frames: bool,
    start_threads: Callable[[], None],
) -> None:
    """Give up everything that is not needed, for ever.

    Args:
        filter_program: the filter of system calls, for all threads.
        start_threads: starts the threads that the process needs; none can be started afterwards.

    Raises OSError where the kernel refuses.
    """
    limit(limits)
    become_nobody(sends_frames)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user switches it off
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    start_threads()
    code = ctypes.create_string_buffer(filter_program, len(filter_program))
    program = _Program(len(filter_program) // INSTRUCTION_BYTES, ctypes.addressof(code))
    number = ctypes.c_long(SYS_SECCOMP[os.uname().machine])
    operation, flags = SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
    _call("syscall", number, operation, flags, ctypes.byref(program))
