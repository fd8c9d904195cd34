"""The four system calls of a host's loop, callable from compiled code.

numba links them by name, so code that uses them can be cached (a ctypes pointer would be an address
of one process). Without JIT, ctypes makes the same calls.

Descriptors are arrays of 64-bit words laid out as the kernel wants them, on 64-bit little-endian
machines (x86-64, arm64): a `mmsghdr` is 8 words, an `iovec` 2, a `pollfd` 1, a `timespec` 2.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba import types
from p4fabric.base.linux import kernel
from p4fabric.simulate.jit import njit
from p4fabric.simulate.native import INTERPRETED

MSG_DONTWAIT = 0x40
CLOCK_MONOTONIC = 1
POLLIN = 1

# Words of a mmsghdr
NAME, NAME_LENGTH, VECTOR, VECTORS, CONTROL, CONTROL_LENGTH, FLAGS, LENGTH = range(8)

if INTERPRETED:
    _i, _p = ctypes.c_int, ctypes.c_size_t
    _recvmmsg = kernel.function("recvmmsg", _i, _p, ctypes.c_uint, _i, _p)
    _sendmmsg = kernel.function("sendmmsg", _i, _p, ctypes.c_uint, _i)
    _ppoll = kernel.function("ppoll", _p, ctypes.c_ulong, _p, _p)
    _clock_gettime = kernel.function("clock_gettime", _i, _p)
else:
    _int, _word = types.int32, types.uintp
    _recvmmsg = types.ExternalFunction("recvmmsg", _int(_int, _word, types.uint32, _int, _word))
    _sendmmsg = types.ExternalFunction("sendmmsg", _int(_int, _word, types.uint32, _int))
    _ppoll = types.ExternalFunction("ppoll", _int(_word, types.uint64, _word, _word))
    _clock_gettime = types.ExternalFunction("clock_gettime", _int(_int, _word))


@njit(cache=True)
def monotonic_ns(scratch):
    """CLOCK_MONOTONIC in ns. `scratch` is int64[2]."""
    _clock_gettime(CLOCK_MONOTONIC, scratch.ctypes.data)
    return scratch[0] * 1_000_000_000 + scratch[1]


@njit(cache=True)
def receive_messages(fd, messages):
    """Take what has arrived, without waiting, into up to all `messages`, uint64[rows, 8]; returns
    how many, or -1."""
    return _recvmmsg(fd, messages.ctypes.data, messages.shape[0], MSG_DONTWAIT, 0)


@njit(cache=True)
def receive(fd, messages, lengths):
    """Take what has arrived, without waiting; returns the number of packets.

    `messages` is uint64[rows, 8]; the payload lengths in bytes go to `lengths`."""
    count = receive_messages(fd, messages)
    if count < 0:
        return 0
    for i in range(count):
        lengths[i] = np.int64(messages[i, LENGTH] & np.uint64(0xFFFFFFFF))
    return count


@njit(cache=True)
def send(fd, messages, vectors, names, lengths, destinations, count):
    """Send the first `count` rows; returns how many the kernel took.

    `vectors` is uint64[rows, 2], `names` uint64[*], the addresses of the peers' sockaddr."""
    for i in range(count):
        messages[i, NAME] = names[destinations[i]]
        vectors[i, 1] = np.uint64(lengths[i])
    return send_messages(fd, messages, count)


@njit(cache=True)
def send_messages(fd, messages, count):
    """Send the first `count` of `messages`, uint64[rows, 8]; returns how many the kernel took."""
    done = 0
    failures = 0
    while done < count:
        sent = _sendmmsg(fd, messages[done:].ctypes.data, count - done, 0)
        if sent > 0:
            done += sent
            continue
        failures += 1
        if failures > 3:
            break
    return done


@njit(cache=True)
def _write_timespec(timespec, duration_ns):
    timespec[0] = duration_ns // 1_000_000_000
    timespec[1] = duration_ns % 1_000_000_000


@njit(cache=True)
def pause(duration_ns, scratch):
    """Sleep for a time, without a look at packets."""
    _write_timespec(scratch, duration_ns)
    _ppoll(0, 0, scratch.ctypes.data, 0)


@njit(cache=True)
def wait(descriptors, timeout_ns, scratch):
    """Sleep until a packet arrives, the control socket is readable or the time has passed.

    `descriptors` is int64[2], a pollfd each: the packet socket's, then the control socket's.
    Returns True if the control socket is readable."""
    for i in range(2):
        descriptors[i] = (descriptors[i] & 0xFFFFFFFF) | (POLLIN << 32)
    _write_timespec(scratch, timeout_ns)
    _ppoll(descriptors.ctypes.data, 2, scratch.ctypes.data, 0)
    return (descriptors[1] >> 48) != 0
