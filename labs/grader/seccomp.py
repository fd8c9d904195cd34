"""Filters of system calls: what a process in the sandbox may still ask of the kernel. Everything
else fails with EPERM, so that Python reports it like any other error.

They are lists of what is allowed; a list of what is forbidden is never complete. A submission's
process reads files and memory of its own and looks at the clock. The compiler's also starts
programs and writes files. A switch on a network sends and receives frames. libseccomp compiles the
lists, here in the grader; inside, the result is only loaded (inside/walls.py).
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import tempfile
from typing import Any

from p4fabric.base.errors import UserError

# Memory, threads' own business, and the end.
_SELF = (
    *("brk", "munmap", "mprotect", "mremap", "set_robust_list", "rseq", "set_tid_address"),
    *("arch_prctl", "restart_syscall"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "exit", "exit_group"),
    *("getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getgroups"),
    *("getresuid", "getresgid", "getpgrp", "getpgid", "getsid", "uname", "getcwd", "getrusage"),
    *("getrlimit", "getcpu", "sched_yield", "sched_getaffinity", "getrandom", "umask"),
)
_CLOCKS = (
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time"),
    *("times",),
)
# Reading files, and writing to what is open (the pipes to the grader).
_FILES = (
    *("read", "readv", "pread64", "preadv", "write", "writev", "lseek", "close", "close_range"),
    *("fstat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
    *("readlink", "readlinkat", "getdents64", "dup", "poll", "ppoll", "select", "pselect6"),
)
_PROGRAMS = (
    *("fork", "vfork", "clone", "execve", "execveat", "wait4", "waitid", "pipe", "pipe2"),
    *("dup2", "dup3", "chdir", "fchdir", "setsid", "setpgid", "prlimit64", "setrlimit", "statfs"),
    *("fstatfs", "flock", "fcntl", "ioctl", "open", "openat", "creat", "mkdir", "mkdirat"),
    *("rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat"),
    *("symlink", "symlinkat", "truncate", "ftruncate", "fallocate", "utimensat", "fsync"),
    *("fdatasync", "pwrite64", "copy_file_range", "sendfile"),
)
_CHANGE_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2}  # the argument that is the mode
_FRAMES = (
    *("bind", "setsockopt", "getsockopt", "getsockname", "sendto", "sendmsg", "sendmmsg"),
    *("recvfrom", "recvmsg", "recvmmsg", "ioctl", "fcntl", "eventfd2"),
)
_FAMILIES = (socket.AF_PACKET, socket.AF_NETLINK)  # the latter tells of interfaces that go down
_FUTEX_PRIVATE = 128  # in the operation: of this process alone
# Advice on memory of one's own (linux/mman.h): DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, and guards of
# stacks. What is left out moves pages of files, or merges pages of several processes.
_MADVISE = (4, 8, 14, 15, 102, 103)
_MAP_SHARED, _MAP_HUGETLB = 0x01, 0x40000
_FCNTL = (1, 2, 3, 1030)  # F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
_IOCTL = (0x5401, 0x5451, 0x5413)  # TCGETS, FIOCLEX, TIOCGWINSZ
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | 0o20000000  # O_TMPFILE
_SPECIAL_BITS = 0o7000  # set-uid, set-gid, sticky

KINDS = ("compile", "switch", "python", "network")


def library() -> Any:
    """libseccomp's Python interface. Raises UserError where one of them is missing."""
    remedy = "pip install pyseccomp, apt-get install libseccomp2"
    try:
        import pyseccomp
    except (ImportError, RuntimeError) as error:  # the latter: there is no libseccomp
        raise UserError(f"grading needs pyseccomp and libseccomp: {remedy} ({error})") from None
    return pyseccomp


@functools.cache
def allowed(kind: str) -> frozenset[str]:
    """The names of the calls that a process of this kind may make with any arguments."""
    more = {"compile": _PROGRAMS, "network": _FRAMES}.get(kind, ())
    return frozenset([*_SELF, *_CLOCKS, *_FILES, *more])


def _memory(scmp: Any, rules: Any, kind: str) -> None:
    """Rules for memory: what processes could have in common, or see of each other, is left out.

    A futex in a file that several processes map is woken across them. Huge pages are one pool for
    all. The compiler writes files that it maps, and packets come through memory that a switch on a
    network shares with the kernel.
    """
    private = scmp.Arg(1, scmp.MASKED_EQ, _FUTEX_PRIVATE, _FUTEX_PRIVATE)
    rules.add_rule(scmp.ALLOW, "futex", private)
    for advice in _MADVISE:
        rules.add_rule(scmp.ALLOW, "madvise", scmp.Arg(2, scmp.EQ, advice))
    refused = _MAP_HUGETLB | (0 if kind in ("compile", "network") else _MAP_SHARED)
    rules.add_rule(scmp.ALLOW, "mmap", scmp.Arg(3, scmp.MASKED_EQ, refused, 0))


@functools.cache
def program(kind: str) -> bytes:
    """The filter for one kind of process (KINDS), as the kernel takes it (struct sock_filter[])."""
    assert kind in KINDS, kind
    scmp = library()
    refuse = scmp.ERRNO(errno.EPERM)
    rules = scmp.SyscallFilter(refuse)
    rules.set_attr(scmp.Attr.ACT_BADARCH, refuse)  # the calls of 32-bit programs
    names = allowed(kind)
    for name in sorted(names):
        rules.add_rule(scmp.ALLOW, name)
    _memory(scmp, rules, kind)
    if kind == "compile":
        for name, argument in _CHANGE_MODE.items():
            rules.add_rule(scmp.ALLOW, name, scmp.Arg(argument, scmp.MASKED_EQ, _SPECIAL_BITS, 0))
        # Its flags are in memory, where a filter cannot see them; libc then uses clone.
        rules.add_rule(scmp.ERRNO(errno.ENOSYS), "clone3")
    else:
        for name, argument in (("open", 1), ("openat", 2)):
            rules.add_rule(scmp.ALLOW, name, scmp.Arg(argument, scmp.MASKED_EQ, _WRITING, 0))
        # Asking for its own limits, not setting them.
        own = [scmp.Arg(0, scmp.EQ, 0), scmp.Arg(2, scmp.EQ, 0)]
        rules.add_rule(scmp.ALLOW, "prlimit64", *own)
    for name, numbers in (("fcntl", _FCNTL), ("ioctl", _IOCTL)):
        for number in numbers if name not in names else ():
            rules.add_rule(scmp.ALLOW, name, scmp.Arg(1, scmp.EQ, number))
    for family in _FAMILIES if kind == "network" else ():
        rules.add_rule(scmp.ALLOW, "socket", scmp.Arg(0, scmp.EQ, family))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
