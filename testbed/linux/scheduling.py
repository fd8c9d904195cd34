"""How the kernel should treat hosts and switches: woken at once, not after the running process.

Such a process sleeps most of the time and works for microseconds. With the defaults its sleeps end
up to 50 us late, and a process that has used little of its share still waits for another's time
slice of some milliseconds to end; at 10 thousand packets/s both are visible as lag. All three
settings are asked for and none is needed: what the kernel or missing rights refuse shows in the
measured lag.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform

from testbed.linux import kernel

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
    """Ask for precise timers, a higher weight and a short time slice for this process."""
    with contextlib.suppress(OSError):
        kernel.set_timer_slack(TIMER_SLACK_NS)
    with contextlib.suppress(OSError):
        os.nice(NICE)
    number = SCHED_SETATTR.get(platform.machine())
    if number is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        size = ctypes.sizeof(_SchedulingAttributes)
        attributes = _SchedulingAttributes(size=size, nice=nice, runtime_ns=SLICE_NS)
        with contextlib.suppress(OSError):
            kernel.call("syscall", number, 0, ctypes.byref(attributes), 0)
