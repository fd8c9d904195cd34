"""A seccomp filter: system calls that a submission has no business with fail from now on.

It closes what files (landlock.py) and resource limits leave open: sockets, signals to other
processes, looking into them, changing their limits, System V memory that outlives its makers, and,
where nothing has to be started any more, new processes and threads. A call that is refused returns
EPERM, so that Python reports it like any other error. libseccomp makes the filter; that works
without privileges, and the filter holds for everything that the process starts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

from testbed.errors import UserError

REFUSED = (
    *("socket", "io_uring_setup"),
    *("kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"),
    *("pidfd_open", "pidfd_getfd", "ptrace", "process_vm_readv", "process_vm_writev"),
    *("setpriority", "sched_setscheduler", "sched_setaffinity"),
    *("shmget", "semget", "msgget", "mq_open", "keyctl", "add_key"),
    *("bpf", "perf_event_open", "userfaultfd", "mount", "unshare", "setns"),
)
STARTING = ("fork", "vfork", "clone", "clone3", "execve", "execveat")


def library() -> Any:
    """libseccomp's Python interface. To be called before a process confines itself: the search for
    libseccomp starts programs. Raises UserError where one of them is missing."""
    remedy = "pip install pyseccomp, apt-get install libseccomp2"
    try:
        import pyseccomp
    except (ImportError, RuntimeError) as error:  # the latter: there is no libseccomp
        raise UserError(f"grading needs pyseccomp and libseccomp: {remedy} ({error})") from None
    return pyseccomp


def restrict(may_start: bool, sockets: Sequence[int] = ()) -> None:
    """Install the filter in all threads of this process.

    Args:
        may_start: the process can still start programs.
        sockets: address families of which it can still open sockets; neighbouring numbers.

    Raises:
        OSError: this kernel has no such filters, or `no_new_privs` is not set.
    """
    scmp = library()
    refuse = scmp.ERRNO(errno.EPERM)
    rules = scmp.SyscallFilter(scmp.ALLOW)
    rules.set_attr(scmp.Attr.ACT_BADARCH, refuse)  # the calls of 32-bit programs
    rules.set_attr(scmp.Attr.CTL_NNP, 0)
    rules.set_attr(scmp.Attr.CTL_TSYNC, 1)
    for name in REFUSED if may_start else REFUSED + STARTING:
        if name != "socket" or not sockets:
            rules.add_rule(refuse, name)
    # Allowed for the process itself: abort() sends itself a signal, getrlimit() asks for itself.
    for name, allowed in (("tgkill", [os.getpid()]), ("prlimit64", [0]), ("socket", sockets)):
        if allowed:
            low, high = min(allowed), max(allowed)
            assert high - low < len(allowed), "a rule compares an argument once"
            rules.add_rule(refuse, name, scmp.Arg(0, scmp.GT, high))
            if low:
                rules.add_rule(refuse, name, scmp.Arg(0, scmp.LT, low))
    rules.load()
