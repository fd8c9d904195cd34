"""The packet as the hosts see it: rows of 32-bit words in network byte order.

A packet's UDP payload is one row of a uint32 array: six header words, the bitmap, the values
(docs/wire.md; p4/ina.p4 declares the same header). Batches of packets are such arrays, which the
host process hands to the kernel as they are, so that nothing is copied or packed per packet.

Arithmetic here is int64 on the inside: uint64 mixed with int64 is an integer in numba and a float
in numpy.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.number_formats import BLOCKS, HALVES
from testbed.protocols.formats import mx8
from testbed.protocols.sizes import HEADER_WORDS

PORT = 18766
VERSION = 1

GRADIENT = 1
RESULT = 2
RESULT_ONE = 3
REMINDER = 4
REMINDER_EMPTY = 5
ASK = 6
CONTROL = 7
COLLIDED = 8
GRADIENT_ZEROS = 9
RESULT_ZEROS = 10
RESULT_ONE_ZEROS = 11

WITHOUT_VALUES = 8  # added to the kind of a gradient or result whose values are all 0

PARTIAL = 0x0001
COLLISION = 0x0002
RESEND = 0x0004
ECN = 0x0008
OVERFLOW = 0x0010
REMINDED = 0x0020
OVER_RATE = 0x0040
FLOAT = 0x0080
SHORT = 0x0100
ROUND = 0x0200
FOR_ONE = 0x0400  # of a result's values only the worker `meant` needs any
FROM_ONE = 0x0800  # the worker `meant` alone gives values, and only the others need the result's
AGAIN = 0x1000  # of a request: the worker is to send its part, or the result, if it has that
CONTENDED = 0x2000  # of a result: fragments have met in its aggregator (a2tp.py)
INTEGERS = (
    0x4000  # the values are int32, where sums are those of floats (testbed/number_formats.py)
)
FOR_SOME = FOR_ONE | FROM_ONE

# Values of fewer than 32 bits, `short` in machines
SHORT_INTEGERS = 1  # int16
SHORT_FLOATS = 2  # bfloat16, the upper halves of float32
SHORT_BYTES = 3  # int8
SHORT_BLOCKS = 4  # mx8, with a scale for each block behind the values

SERVER = 0x4000  # in place of a worker's number


def short_of(bits: int, numbers: int) -> int:
    """Kind of short values for values of so many bits, of `numbers` (testbed/number_formats.py);
    0: there are none."""
    if bits == 32:
        return 0
    if bits == 8:
        return SHORT_BLOCKS if numbers == BLOCKS else SHORT_BYTES
    return SHORT_FLOATS if numbers == HALVES else SHORT_INTEGERS


@njit(cache=True)
def bits_of(short):
    """Bits of a short value of this kind."""
    return 8 if short >= SHORT_BYTES else 16


@njit(cache=True)
def short_bytes(short, values):
    """Bytes of so many short values of this kind."""
    scales = values // mx8.BLOCK if short == SHORT_BLOCKS else 0
    return bits_of(short) // 8 * values + scales


@njit(cache=True)
def swap(word):
    """A uint32 with its bytes reversed."""
    return np.uint32(
        ((word & np.uint32(0xFF)) << np.uint32(24))
        | ((word & np.uint32(0xFF00)) << np.uint32(8))
        | ((word >> np.uint32(8)) & np.uint32(0xFF00))
        | (word >> np.uint32(24))
    )


@njit(cache=True)
def word(row, position):
    """Word `position` of a packet as an int64 from 0 to 2^32 - 1."""
    return np.int64(swap(row[position]))


@njit(cache=True)
def set_word(row, position, value):
    row[position] = swap(np.uint32(np.int64(value) & 0xFFFFFFFF))


@njit(cache=True)
def write_header(row, kind, priority, flags, job, node, fragment, index, sender):
    """Fill the six header words; `extra` and the exponents are 0."""
    set_word(row, 0, (VERSION << 28) | (kind << 24) | (priority << 16) | flags)
    set_word(row, 1, (job << 16) | node)
    set_word(row, 2, fragment)
    set_word(row, 3, index)
    row[4] = np.uint32(0)
    set_word(row, 5, sender << 16)


@njit(cache=True)
def version(row):
    return word(row, 0) >> 28


@njit(cache=True)
def kind(row):
    return (word(row, 0) >> 24) & 0xF


@njit(cache=True)
def flags(row):
    return word(row, 0) & 0xFFFF


@njit(cache=True)
def job(row):
    return word(row, 1) >> 16


@njit(cache=True)
def is_foreign(row, length, least_words, own_job):
    """True if a packet of `length` bytes is too short, of another version, or of another job."""
    return length < 4 * least_words or version(row) != VERSION or job(row) != own_job


@njit(cache=True)
def node(row):
    return word(row, 1) & 0xFFFF


@njit(cache=True)
def fragment(row):
    return word(row, 2)


@njit(cache=True)
def index(row):
    return word(row, 3)


@njit(cache=True)
def extra(row):
    return word(row, 4)


@njit(cache=True)
def set_extra(row, value):
    set_word(row, 4, value)


@njit(cache=True)
def sender(row):
    return word(row, 5) >> 16


@njit(cache=True)
def set_exponents(row, exponent, next_exponent):
    """Fill in the two block exponents, -128 to 127."""
    set_word(
        row, 5, (word(row, 5) & 0xFFFF0000) | ((exponent & 0xFF) << 8) | (next_exponent & 0xFF)
    )


@njit(cache=True)
def exponent(row):
    return ((word(row, 5) >> 8 & 0xFF) ^ 0x80) - 0x80


@njit(cache=True)
def next_exponent(row):
    return ((word(row, 5) & 0xFF) ^ 0x80) - 0x80


@njit(cache=True)
def meant(row):
    """The worker that a packet with FOR_ONE or FROM_ONE names, in place of the exponents."""
    return word(row, 5) & 0xFFFF


@njit(cache=True)
def set_meant(row, worker):
    set_word(row, 5, (word(row, 5) & 0xFFFF0000) | worker)


@njit(cache=True)
def set_worker(row, bitmap_words, worker):
    """Make the bitmap name `worker` alone. Bit 0 is the last bit of the last bitmap word."""
    for i in range(bitmap_words):
        row[HEADER_WORDS + i] = np.uint32(0)
    set_word(row, HEADER_WORDS + bitmap_words - 1 - worker // 32, 1 << (worker % 32))


@njit(cache=True)
def omit_values(row, base):
    """Let a gradient or result go without its values, `base` words long; returns its bytes."""
    set_word(row, 0, (word(row, 0) | WITHOUT_VALUES << 24) & ~SHORT)
    return 4 * base


@njit(cache=True)
def compact(row, base, values, omit_zeros, short):
    """Let a gradient or result that has been written, `values` values from word `base` on, be as
    short as it can: with `omit_zeros` without values if all are 0, with `short` with short values,
    of this kind, if they fit. Returns the bytes of the payload."""
    bits = bits_of(short)
    place = row[base : base + values]
    some_bit = np.uint32(0)
    too_wide = np.int64(0)
    for i in range(place.size):
        some_bit |= place[i]
        if short == SHORT_FLOATS:
            too_wide |= np.int64(swap(place[i]) & np.uint32(0xFFFF))
        else:
            too_wide |= (np.int64(np.int32(swap(place[i]))) + (1 << (bits - 1))) >> bits
    if omit_zeros == 1 and some_bit == 0:
        return omit_values(row, base)
    if flags(row) & (FLOAT | INTEGERS):
        return 4 * (base + values)
    if short == SHORT_BLOCKS:
        return _compact_blocks(row, base, values)
    if short == 0 or too_wide != 0:
        return 4 * (base + values)
    down = 16 if short == SHORT_FLOATS else 0
    per_word, mask = 32 // bits, (1 << bits) - 1
    for i in range(values // per_word):
        packed = np.int64(0)
        for j in range(per_word):
            packed = packed << bits | word(row, base + per_word * i + j) >> down & mask
        set_word(row, base + i, packed)
    set_word(row, 0, word(row, 0) | SHORT)
    return 4 * base + bits // 8 * values


@njit(cache=True)
def _block(row, base, block):
    """The float32 of a block, uint32[BLOCK]."""
    words = np.empty(mx8.BLOCK, np.uint32)
    for i in range(mx8.BLOCK):
        words[i] = swap(row[base + mx8.BLOCK * block + i])
    return words


@njit(cache=True)
def round_blocks(row, base, values):
    """Round float32, `values` from word `base` on, to blocks of mx8."""
    for block in range(values // mx8.BLOCK):
        words = _block(row, base, block)
        mx8.round_blocks(words)
        for i in range(mx8.BLOCK):
            row[base + mx8.BLOCK * block + i] = swap(words[i])


@njit(cache=True)
def _compact_blocks(row, base, values):
    """`compact` for values that are float32 of mx8."""
    blocks = values // mx8.BLOCK
    scales = np.empty(blocks, np.int64)
    for block in range(blocks):
        words = _block(row, base, block)
        scales[block], _ = mx8.scale_of(words)
        if scales[block] == mx8.NONE:
            return 4 * (base + values)
        for each in words:
            _, exact = mx8.steps_of(each, scales[block])
            # -0 has no place in a block.
            if not exact or each == np.uint32(mx8.SIGN):
                return 4 * (base + values)
    for block in range(blocks):
        words = _block(row, base, block)
        for i in range(0, mx8.BLOCK, 4):
            packed = np.int64(0)
            for j in range(4):
                m, _ = mx8.steps_of(words[i + j], scales[block])
                packed = packed << 8 | m & 0xFF
            set_word(row, base + (mx8.BLOCK * block + i) // 4, packed)
    for first in range(0, blocks, 4):
        packed = np.int64(0)
        for j in range(4):
            packed = packed << 8 | (scales[first + j] if first + j < blocks else 0)
        set_word(row, base + (values + first) // 4, packed)
    set_word(row, 0, word(row, 0) | SHORT)
    return 4 * base + short_bytes(SHORT_BLOCKS, values)


@njit(cache=True)
def _expand_blocks(row, base, values):
    """`expand` for short values of mx8."""
    blocks = values // mx8.BLOCK
    scales = np.empty(blocks, np.int64)
    for block in range(blocks):
        scales[block] = word(row, base + (values + block) // 4) >> (24 - 8 * (block & 3)) & 0xFF
    for i in range(values // 4 - 1, -1, -1):
        packed, scale = word(row, base + i), scales[4 * i // mx8.BLOCK]
        for j in range(3, -1, -1):
            m = ((packed & 0xFF) ^ 0x80) - 0x80
            packed >>= 8
            row[base + 4 * i + j] = swap(mx8.word_of(m, scale))


@njit(cache=True)
def expand(row, length, base, values, short):
    """Give what has come without values its zeros, and what has short values wide ones, with the
    kind and the flags that this has. `short`: the kind of short values. Returns the bytes of the
    payload, which were `length`."""
    if length == 4 * base and GRADIENT_ZEROS <= kind(row) <= RESULT_ONE_ZEROS:
        row[base : base + values] = np.uint32(0)
        set_word(row, 0, word(row, 0) & ~(WITHOUT_VALUES << 24))
        return 4 * (base + values)
    bits = bits_of(short)
    if length != 4 * base + short_bytes(short, values) or flags(row) & SHORT == 0:
        return length
    if short == SHORT_BLOCKS:
        _expand_blocks(row, base, values)
        set_word(row, 0, word(row, 0) & ~SHORT)
        return 4 * (base + values)
    per_word, mask, sign = 32 // bits, (1 << bits) - 1, 1 << (bits - 1)
    for i in range(values // per_word - 1, -1, -1):
        packed = word(row, base + i)
        for j in range(per_word - 1, -1, -1):
            part = packed & mask
            packed >>= bits
            wide = part << 16 if short == SHORT_FLOATS else (part ^ sign) - sign
            set_word(row, base + per_word * i + j, wide)
    set_word(row, 0, word(row, 0) & ~SHORT)
    return 4 * (base + values)
