"""Sizes and limits: fragments of a gradient, words and bytes of a packet, their time on a link,
shares of switch memory, and how many workers and jobs there can be.

Validation, set-up and hosts ask for these numbers here and nowhere else. All arguments are plain
numbers. The module imports neither numba nor, at its top, numpy: what only reads an experiment or a
trace starts without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p4fabric.base.topology import FRAME_OVERHEAD as FRAME_OVERHEAD

if TYPE_CHECKING:
    import numpy as np


HEADER_WORDS = 6
# Of a job, in all iterations: fragment numbers are int32 on their way through the hosts.
MAX_FRAGMENTS = 2**31 - 1
NO_NODE = 0xFFFF  # in a header instead of a switch's number: no switch aggregates the fragment
BITMAP_WIDTHS = (32, 64, 128, 256, 512, 1024)  # for which P4 programs are compiled
MAX_WORKERS = BITMAP_WIDTHS[-1]  # of a job
MAX_VALUES = 2048  # of a packet: a jumbo frame holds them and the largest bitmap
MAX_JOBS = (1 << 16) - 1  # of a run: numbers and multicast groups (from 1) have 16 bits
FEWEST_JOBS = 256  # that a P4 program is compiled for
FEWEST_AGGREGATORS = 256  # likewise


def fragments(sizes: Iterable[int], values: int) -> int:
    """Fragments of tensors with `sizes` values each, `values` to a packet. A fragment has values of
    one tensor only, so each tensor's last may be shorter."""
    return sum(-(-size // values) for size in sizes)


def fragments_of(sizes: Sequence[int], values: int) -> np.ndarray:
    """First fragment of each tensor and, last, the number of fragments; int64[T + 1].

    `sizes`: values of each tensor; `values`: of a packet."""
    import numpy as np

    counts = -(-np.asarray(sizes, np.int64) // values)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def sending_order(first: np.ndarray) -> np.ndarray:
    """Fragments as backward makes them ready, int32[F]: tensors from the last to the first.

    `first`: as `fragments_of` returns it."""
    import numpy as np

    tensors = reversed(range(len(first) - 1))
    return np.concatenate([np.arange(first[t], first[t + 1], dtype=np.int32) for t in tensors])


def bitmap_width(workers: int) -> int:
    """Bits of a bitmap that can name so many workers: the smallest of BITMAP_WIDTHS."""
    return next(bits for bits in BITMAP_WIDTHS if bits >= workers)


def job_places(jobs: int) -> int:
    """Number of jobs for which a P4 program is compiled that is to serve `jobs`: a power of two."""
    return max(FEWEST_JOBS, 1 << (jobs - 1).bit_length())


def aggregator_places(aggregators: int) -> int:
    """Size of the registers of a P4 program that is to have this many aggregators: a power of two,
    so that few programs are compiled. Their number is in the tables alone."""
    return max(FEWEST_AGGREGATORS, 1 << (aggregators - 1).bit_length())


def rounded_bits(workers: int) -> int:
    """Number of bits by which a sum of so many workers' values of 16 or 8 bits is rounded
    (block_float.py)."""
    return (workers - 1).bit_length()


def packet_words(values: int, bitmap_width: int) -> int:
    """32-bit words of a packet that carries `values` values and a bitmap of `bitmap_width` bits."""
    return HEADER_WORDS + bitmap_width // 32 + values


def frame_bytes(values: int, bitmap_width: int) -> int:
    """Bytes of such a packet's frame, from the Ethernet header to the end of the payload."""
    return FRAME_OVERHEAD + 4 * packet_words(values, bitmap_width)


def frame_bits(values: int, bitmap_width: int) -> int:
    """Bits of such a packet's frame."""
    return 8 * frame_bytes(values, bitmap_width)


def frame_ps(values: int, bitmap_width: int, rate_bps: int) -> int:
    """Time of such a frame on a link of this rate, in ps; 0 if the rate is (unlimited)."""
    return frame_bits(values, bitmap_width) * 10**12 // rate_bps if rate_bps else 0


@dataclass(frozen=True)
class Part:
    """A job's part of a pool: slots base .. base + slots - 1."""

    base: int
    slots: int

    def window(self, most: int | None) -> int:
        """Slots that a worker uses, with one chunk in flight in each: all, or at most `most`."""
        return min(self.slots, most or self.slots)


def memory_part(aggregators: int, sets: int, parts: int, part: int) -> Part:
    """Part `part` (from 0) of a switch's memory that `parts` jobs share equally, in slots of `sets`
    aggregators; what cannot be divided equally stays unused."""
    slots = aggregators // sets // parts
    return Part(part * slots, slots)
