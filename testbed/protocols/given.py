"""Values that a program gives, and their sums for it: arrays in memory that it shares.

In replay a worker makes its values and checks the sums. Here a round has *blocks* of a program's
arrays in place of tensors (testbed/workload/feed.py lays them out): values are taken from `source`
when a packet is written, and a result goes to `target`, in the words of an arena that both
processes see. So values are copied once on their way to the packet and once on the way back.

How float32 become int32, and what a block that is not finite looks like, is in
testbed/collective/prelude.py. With a fixed scale, as ATP has it, a fragment with a value that does
not fit travels as float32, which the server adds (floats.py); NaN and infinities do not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.collective import prelude
from testbed.protocols import floats, wire
from testbed.protocols.sizes import rounded_bits

# Given.form
WHOLE = 0  # int32 as they are
SCALED = 1  # float32 in steps
RARE = 2  # float32 in coarser steps, with marks of what is not finite
FIXED = 3  # float32 in steps of a fixed size, or, if one of a fragment does not fit, as they are
ROUNDED = 4  # float32 in steps of 16 or 8 bits; the sum is rounded (block_float.py)
UNSCALED = 5  # float32, rounded to the numbers of a format of floats, and added as such
WIDE = 6  # the same, not rounded

# In `from_one`: the rank with the share gives values, and all others get them; or it gets the sum
# of theirs. 0: it gets the sum of all.
ONE, OTHERS = 1, 2


class Given(NamedTuple):
    """T blocks of a round, C counters of results. Empty (T = 0) where no program gives values."""

    words: np.ndarray  # int32[*], the arena
    numbers: np.ndarray  # float32[*], the same memory
    source: np.ndarray  # int64[T], where in it a block's values begin
    target: np.ndarray  # int64[T], and its sums
    form: np.ndarray  # int64[T]
    scale: np.ndarray  # float64[T], steps per unit
    divisor: np.ndarray  # float64[T], of sums of float32
    counter: np.ndarray  # int64[T], which counter a block's results have
    left: np.ndarray  # int64[C], results that are still to come, by counter
    bits: np.ndarray  # int64[1], of a counter of workers
    fixed: np.ndarray  # float64[2]: steps per unit with a fixed scale; most steps that fit
    rounded: np.ndarray  # int64[2]: by how many bits sums of short steps are rounded, -1: steps
    #                      have 32 bits; and bits of a step
    share: np.ndarray  # int64[T], values of the collective that belong to each rank; 0: to all
    share_at: np.ndarray  # int64[T], the block's first value among those of all ranks
    from_one: np.ndarray  # int64[T]: ONE: a rank gives its share to all; 0, OTHERS: it alone
    #                       gets it
    places: np.ndarray  # int32[memory_map.RANKS], the worker that each rank is


def no_values() -> Given:
    return new_given(0, 0, 1)


def most_steps(workers: int) -> int:
    """Largest value that fits a fixed scale, in steps, so that no sum leaves int32."""
    return min(floats.LARGEST, (2**31 - 1) // workers)


def new_given(
    blocks: int, counters: int, workers: int, fixed_scale: int = 0, value_bits: int = 32
) -> Given:
    """Room for so many blocks and counters; the arena comes later (`_replace`)."""
    return Given(
        words=np.zeros(0, np.int32),
        numbers=np.zeros(0, np.float32),
        source=np.zeros(blocks, np.int64),
        target=np.zeros(blocks, np.int64),
        form=np.zeros(blocks, np.int64),
        scale=np.ones(blocks, np.float64),
        divisor=np.ones(blocks, np.float64),
        counter=np.zeros(blocks, np.int64),
        left=np.zeros(counters, np.int64),
        bits=np.array([prelude.counter_bits(workers)], np.int64),
        fixed=np.array([fixed_scale, most_steps(workers)], np.float64),
        rounded=np.array([rounded_bits(workers) if value_bits < 32 else -1, value_bits], np.int64),
        share=np.zeros(blocks, np.int64),
        share_at=np.zeros(blocks, np.int64),
        from_one=np.zeros(blocks, np.int64),
        places=np.zeros(0, np.int32),
    )


@njit(cache=True)
def meant_for(g, block, offset, count):
    """(flag, worker) of `count` values of a block: FOR_ONE if the worker alone needs their sum,
    FROM_ONE if it alone has them, or 0 if they are of all, or of several workers."""
    share = g.share[block]
    if share == 0:
        return 0, 0
    first = g.share_at[block] + offset
    rank = first // share
    if (first + count - 1) // share != rank:
        return 0, 0
    flag = wire.FROM_ONE if g.from_one[block] == ONE else wire.FOR_ONE
    return flag, np.int64(g.places[rank])


@njit(cache=True)
def write(g, row, base, block, offset, count):
    """Write `count` values of a block, from value `offset` on, into a packet from word `base`."""
    start = g.source[block] + offset
    form = g.form[block]
    if form in (WHOLE, UNSCALED, WIDE):
        for i in range(count):
            row[base + i] = wire.swap(np.uint32(g.words[start + i]))
        return
    scale = g.scale[block]
    if form in (SCALED, FIXED, ROUNDED):
        for i in range(count):
            steps = np.int32(np.rint(np.float64(g.numbers[start + i]) * scale))
            row[base + i] = wire.swap(np.uint32(steps))
        return
    upper, lower = 31 - g.bits[0], 31 - 2 * g.bits[0]
    for i in range(count):
        number = np.float64(g.numbers[start + i])
        if np.isfinite(number):
            word = np.int64(np.rint(number * scale))
        elif np.isnan(number):
            word = (np.int64(1) << upper) + (np.int64(1) << lower)
        else:
            word = np.int64(1) << (upper if number > 0 else lower)
        row[base + i] = wire.swap(np.uint32(word & 0xFFFFFFFF))


@njit(cache=True)
def fits(g, block, offset, count):
    """True if `count` values fit the fixed scale; NaN does not."""
    start = g.source[block] + offset
    scale, most = g.scale[block], g.fixed[1]
    fit = True
    for i in range(count):
        fit &= abs(np.rint(np.float64(g.numbers[start + i]) * scale)) <= most
    return fit


@njit(cache=True)
def write_floats(g, row, base, block, offset, count):
    """Write `count` values as float32."""
    start = g.source[block] + offset
    for i in range(count):
        row[base + i] = wire.swap(np.uint32(g.words[start + i]))


@njit(cache=True)
def take_floats(g, row, base, block, offset, count):
    """Take the sums of `count` values from a result in float32."""
    start = g.target[block] + offset
    g.left[g.counter[block]] -= 1
    divisor = g.divisor[block]
    for i in range(count):
        g.words[start + i] = np.int32(wire.swap(row[base + i]))
        if divisor != 1.0:
            g.numbers[start + i] = np.float32(np.float64(g.numbers[start + i]) / divisor)


@njit(cache=True)
def leave(g, block):
    """A result of a block is here whose values this worker does not need."""
    g.left[g.counter[block]] -= 1


@njit(cache=True)
def take(g, row, base, block, offset, count):
    """Take the sums of `count` values from a result."""
    start = g.target[block] + offset
    form = g.form[block]
    if form in (UNSCALED, WIDE):
        take_floats(g, row, base, block, offset, count)
        return
    g.left[g.counter[block]] -= 1
    if form == WHOLE:
        for i in range(count):
            g.words[start + i] = np.int32(wire.swap(row[base + i]))
        return
    scale, divisor = g.scale[block], g.divisor[block]
    if form in (SCALED, FIXED):
        for i in range(count):
            steps = np.int32(wire.swap(row[base + i]))
            g.numbers[start + i] = np.float32(np.float64(steps) / scale / divisor)
        return
    if form == ROUNDED:
        for i in range(count):
            steps = np.int64(np.int32(wire.swap(row[base + i]))) << g.rounded[0]
            g.numbers[start + i] = np.float32(np.float64(steps) / scale / divisor)
        return
    bits, lower = g.bits[0], 31 - 2 * g.bits[0]
    mask = (np.int64(1) << bits) - 1
    for i in range(count):
        word = np.int64(np.int32(wire.swap(row[base + i])))
        steps = word & ((np.int64(1) << lower) - 1)
        if steps >> (lower - 1):
            steps -= np.int64(1) << lower
        marks = (word - steps) >> lower
        above, below = marks >> bits, marks & mask
        if above > 0 and below > 0:
            number = np.nan
        elif above > 0:
            number = np.inf
        elif below > 0:
            number = -np.inf
        else:
            number = np.float64(steps) / scale / divisor
        g.numbers[start + i] = np.float32(number)
