"""Acknowledgements between hosts: of the ring's neighbours and of flows.

Each transmission has a sequence number. The receiver collects the numbers of what has come, up to
32 from the first one on, and sends them with one packet of kind `control`: the first number, and a
bitmap in the last 32 bits of the packet's.

The functions take a record with the fields ack_first, ack_bits, ack_count, ack_flags and
ack_due_ns.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import wire

SPAN = 32  # sequence numbers that one acknowledgement can name


@njit(cache=True)
def is_too_far(collected, number):
    """True if a number does not fit into what has been collected, which is to be sent before."""
    ahead = (number - collected.ack_first) & 0xFFFFFFFF
    return collected.ack_count > 0 and ahead >= SPAN


@njit(cache=True)
def collect(collected, number, flags, due_ns):
    """Add a number, with the packet's congestion mark. due_ns: when the acknowledgement is to be
    sent at the latest, if this is its first number."""
    if collected.ack_count == 0:
        collected.ack_first = number
        collected.ack_bits = 0
        collected.ack_flags = 0
        collected.ack_due_ns = due_ns
    collected.ack_bits |= 1 << ((number - collected.ack_first) & 0xFFFFFFFF)
    collected.ack_flags |= flags & wire.ECN
    collected.ack_count += 1


@njit(cache=True)
def write(row, job, number, bitmap_words, fragment, first, bits, flags):
    """Write an acknowledgement of a job's worker `number`; returns the bytes of its payload."""
    wire.write_header(row, wire.CONTROL, 255, flags, job, 0, fragment, first, number)
    for i in range(bitmap_words - 1):
        row[wire.HEADER_WORDS + i] = np.uint32(0)
    wire.set_word(row, wire.HEADER_WORDS + bitmap_words - 1, bits)
    return 4 * (wire.HEADER_WORDS + bitmap_words)


@njit(cache=True)
def bits_of(row, bitmap_words):
    """The bitmap of an acknowledgement: bit n names number n after the first one."""
    return wire.word(row, wire.HEADER_WORDS + bitmap_words - 1)
