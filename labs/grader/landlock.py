"""Landlock: a process permanently gives up access to files outside a few folders.

A kernel feature since Linux 5.13 that needs no privileges, has no wrapper in libc and none in
Python, so the three system calls are made by number; they are the same on all architectures. What
is given up holds for everything that the process starts later. The constants are those of the
kernel's linux/landlock.h; a kernel of ABI n knows the rights up to version n.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from testbed.linux import kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FIRST_RIGHTS = (1 << 13) - 1  # ABI 1: the four above, and removing and making of every kind
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the others are of folders
TCP_BIND_CONNECT = 3  # ABI 4
SCOPE_SOCKETS_SIGNALS = 3  # ABI 6: abstract sockets and signals stay inside


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def _call(number: int, *arguments: object) -> int:
    return kernel.call("syscall", ctypes.c_long(number), *arguments, about="Landlock")


def version() -> int:
    """The kernel's Landlock ABI; 0 where it has none or it is switched off."""
    try:
        return _call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ASK_VERSION))
    except OSError:
        return 0


def restrict(read: Iterable[Path], write: Iterable[Path]) -> int:
    """From now on this process can only read below `read`, and read and write below `write`.

    What does not exist is left out. Returns the ABI in force.

    Raises:
        OSError: the kernel has no Landlock, or `no_new_privs` is not set.
    """
    abi = version()
    if not abi:
        raise OSError("this kernel has no Landlock")
    handled = FIRST_RIGHTS
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        handled |= right if abi >= since else 0
    net = TCP_BIND_CONNECT if abi >= 4 else 0
    scoped = SCOPE_SOCKETS_SIGNALS if abi >= 6 else 0
    size = 8 * (1 + (abi >= 4) + (abi >= 6))
    wanted = _Ruleset(handled, net, scoped)
    ruleset = _call(CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for rights, paths in ((READ, read), (handled, write)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= OF_FILES
        rule = _PathBeneath(rights, descriptor)
        arguments = (ctypes.c_int(PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
        _call(ADD_RULE, ctypes.c_int(ruleset), *arguments)
    finally:
        os.close(descriptor)
