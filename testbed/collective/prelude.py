"""Words that ranks exchange before the values of a call: its arguments and the blocks' exponents.

Switches and servers add int32, nothing else. So the prelude is an array of int32 whose *sum* over
the ranks tells every rank the same:

- three words for each rank, in which only that rank has something: how many values the call has,
  how many the whole array has, and which collective it belongs to (with its type of numbers and its
  root). If they differ, the call fails on all ranks.
- for each block of a float32 call a histogram with `LEVELS` counters, packed into words. A rank
  counts itself at the level of its block's largest value, and at `RARE` if the block has a value
  that is not finite. The highest level with a count is the maximum over the ranks.

A counter has `bits` bits, enough to count all ranks, so no sum runs into its neighbour and none
leaves int32. A level is two octaves: level l stands for abs(x) < 2^(2l - 149).

Scale. With b = bits and the exponent e of a block's level, a rank sends round(x * 2^(31 - b - e)).
W < 2^b ranks' sum stays inside int32, whatever the rounding. The result is that sum divided by the
scale, which is exact in double precision, rounded once to float32. So it differs from the sum of
the ranks' numbers by at most W/2 steps, `error_bound`, and half a unit in the last place.

A block with a value that is not finite on some rank is *rare*: each word then has, from the top,
b bits that count the ranks with +infinity or NaN, b bits for -infinity or NaN, and the rest for the
finite values, whose steps are coarser by that much.

Programs fill preludes in, and the host process reads their sum: testbed/workload/feed.py has numba
compile the functions that it uses, so a formula is here once.
"""

from __future__ import annotations

import numpy as np

from testbed.collective_kinds import CARRIED, Collective

LEVELS = 141  # counters of a block; level 0 has no count: all values are 0
RARE = 140  # the counter of ranks whose block has a value that is not finite
LEVEL_BASE = 149  # level l: abs(x) < 2^(2l - LEVEL_BASE)
WORDS_PER_RANK = 3
LARGEST_WORD = 2**31 - 1

# The third word of a rank: the collective's number in 4 bits, the root in 10, the type of numbers
# in 7, and WIDE for those that are not rounded to fewer bits.
WIDE = 1 << 21
NUMBERS = {name: number for number, name in enumerate(CARRIED)}


def counter_bits(ranks: int) -> int:
    """Bits of a counter of so many ranks."""
    bits = 1
    while ranks >> bits:
        bits += 1
    return bits


def counters_per_word(ranks: int) -> int:
    """Number of counters in a word; its sign bit stays free."""
    return 31 // counter_bits(ranks)


def words_per_block(ranks: int) -> int:
    """Words of one block's histogram."""
    return -(-LEVELS // counters_per_word(ranks))


def most_blocks(ranks: int, block_values: int) -> int:
    """Number of blocks that one prelude, which has the room of a block, can describe."""
    return (block_values - WORDS_PER_RANK * ranks) // words_per_block(ranks)


def exponent_of(level: int) -> int:
    """The e of a level: its values are below 2^e."""
    return 2 * level - LEVEL_BASE


def levels_of(values: np.ndarray, block_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Level of each block and whether it is rare, of float32[n], n at least 1: (int64[B], bool[B]).

    The last block may be shorter."""
    starts = np.arange(0, values.size, block_values)
    with np.errstate(invalid="ignore"):
        largest = np.maximum(
            np.maximum.reduceat(values, starts), -np.minimum.reduceat(values, starts)
        )
    rare = ~np.isfinite(largest)
    for block in np.flatnonzero(rare):
        part = values[starts[block] : starts[block] + block_values]
        finite = np.abs(part[np.isfinite(part)])
        largest[block] = finite.max() if finite.size else 0
    exponents = np.frexp(largest.astype(np.float64))[1].astype(np.int64)
    return np.where(largest > 0, (exponents + LEVEL_BASE + 1) // 2, 0), rare


def write_prelude(
    words: np.ndarray,
    rank: int,
    ranks: int,
    given: tuple[int, int, int],
    levels: np.ndarray,
    rare: np.ndarray,
) -> None:
    """Fill int32 `words` with this rank's part.

    given: of `given_words`, each at least 1. levels, rare: of `levels_of`, empty for int32."""
    words[:] = 0
    words[WORDS_PER_RANK * rank : WORDS_PER_RANK * (rank + 1)] = given
    if not len(levels):
        return
    bits, per_word = counter_bits(ranks), counters_per_word(ranks)
    blocks = words[WORDS_PER_RANK * ranks :].reshape(len(levels), words_per_block(ranks))
    for counter, chosen in ((levels, levels > 0), (np.full(len(levels), RARE), rare)):
        where = np.flatnonzero(chosen)
        place = counter[where]
        blocks[where, place // per_word] += (1 << bits * (place % per_word)).astype(np.int32)


def ranks_agree(words: np.ndarray, ranks: int) -> bool:
    """True if all ranks give the same, from the beginning of the sum of their preludes."""
    for i in range(WORDS_PER_RANK, WORDS_PER_RANK * ranks):
        if words[i] != words[i % WORDS_PER_RANK]:
            return False
    return True


def read_levels(
    words: np.ndarray, ranks: int, blocks: int, levels: np.ndarray, rare: np.ndarray
) -> int:
    """Read the largest level of each block over the ranks, and 1 if it is rare, from the sum of
    their preludes; returns how many are rare."""
    bits, per_word, size = counter_bits(ranks), counters_per_word(ranks), words_per_block(ranks)
    mask = (1 << bits) - 1
    start = WORDS_PER_RANK * ranks
    count = 0
    for block in range(blocks):
        levels[block] = 0
        for level in range(1, RARE):
            if (words[start + level // per_word] >> (bits * (level % per_word))) & mask:
                levels[block] = level
        rare[block] = 0
        if (words[start + RARE // per_word] >> (bits * (RARE % per_word))) & mask:
            rare[block] = 1
            count += 1
        start += size
    return count


def prelude_words(ranks: int, blocks: int) -> int:
    """Size of a prelude for so many blocks (0 for int32)."""
    return WORDS_PER_RANK * ranks + blocks * words_per_block(ranks)


def given_words(
    values: int, whole: int, collective: str, dtype: np.dtype, root: int = 0, wide: bool = False
) -> tuple[int, int, int]:
    """Words of a rank about a call: its number of values, that of the whole array (the low bits of
    larger numbers), and the collective, by its name, with its type and root."""
    detail = NUMBERS[collective] | root << 4 | ord(dtype.char) << 14 | (WIDE if wide else 0)
    return values % (LARGEST_WORD - 1) + 1, whole % (LARGEST_WORD - 1) + 1, detail + 1


def collective_of(words: tuple[int, int, int]) -> Collective:
    """The collective that a rank's words name."""
    return [*CARRIED.values()][(words[2] - 1 & 15) % len(CARRIED)]


def described(words: tuple[int, int, int]) -> str:
    """The same as a message says it."""
    detail, kind = words[2] - 1, collective_of(words)
    name = kind.call or kind.name
    if kind.empty:
        return name
    if kind.rooted:
        name += f" {'to' if kind.sums else 'from'} rank {detail >> 4 & 1023}"
    bits = " of all bits" if detail & WIDE else ""
    return f"{name} of {words[1] - 1} {np.dtype(chr(detail >> 14 & 127)).name} values{bits}"


def steps(ranks: int, exponent: int, rare: bool) -> float:
    """Steps per unit of a block's values, a power of two."""
    bits = counter_bits(ranks)
    shift = 30 - 3 * bits if rare else 31 - bits
    return float(np.ldexp(1.0, shift - exponent))


def error_bound(ranks: int, largest: float, rare: bool = False) -> float:
    """Largest difference between a sum and the exact sum of the float32 numbers, before its own
    rounding to float32: half a step for each rank. `largest`: the largest finite absolute value in
    the block on any rank."""
    if largest == 0:
        return 0.0
    level = (int(np.frexp(largest)[1]) + LEVEL_BASE + 1) // 2
    return ranks / (2 * steps(ranks, exponent_of(level), rare))
