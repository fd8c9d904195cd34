"""Checks of lab 7: integers that stand for gradients, and a model that learns from them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from labs.grader.bench import Bench, Failure, Python
from labs.grader.lab import Lab
from labs.lab7_numbers.model import WORKERS, Task

LAB = Lab(title="Numbers", hand_in=("quantise.py",), module="quantise.py")
LARGEST, SMALLEST, BLOCK, NO_VALUE = 2**31 - 1, -(2**31), 64, -127


def array(value: Any, name: str, dtype: str, size: int) -> np.ndarray:
    """The array that a function has returned. Raises Failure."""
    if not isinstance(value, np.ndarray):
        raise Failure(f"{name} returns no array of {dtype}, but a {type(value).__name__}")
    if value.dtype != np.dtype(dtype) or value.shape != (size,):
        got = f"{value.dtype} of shape {value.shape}"
        raise Failure(f"{name} returns {got}, not {dtype} of shape ({size},)")
    return value


def compare(name: str, given: Any, got: np.ndarray, want: np.ndarray, why: str) -> None:
    """Element by element, with what was given at the first that differs."""
    wrong = np.flatnonzero(got != want)
    if len(wrong):
        i = int(wrong[0])
        at = ", ".join(f"{k} = {np.asarray(v)[i]!r}" for k, v in given.items())
        text = f"expected {want[i]!r}, got {got[i]!r}"
        more = f" ({len(wrong)} of {len(want)} elements differ)"
        raise Failure(why, details=[f"{name}: element {i} ({at}): {text}{more}"])


def floats(t: Bench, size: int, scale: float = 1.0) -> np.ndarray:
    made = [t.random.gauss(0, 1) * scale for _ in range(size)]
    return np.array(made, np.float32)


class Fleet:
    """Workers, and the end where sums become floats, each in a process of its own: nothing gets
    from one to the other but what the grader hands over."""

    def __init__(self, t: Bench, workers: int) -> None:
        self.workers = [t.python() for _ in range(workers)]
        self.receiver = t.python()

    def blocks(self, parts: list[np.ndarray]) -> np.ndarray:
        """The sum of the workers' gradients by way of a switch that adds int32."""
        size, workers = len(parts[0]), len(parts)
        pairs = list(zip(self.workers, parts, strict=False))
        own = [
            array(p.function("block_exponents", part), "block_exponents", "int8", size // BLOCK)
            for p, part in pairs
        ]
        shared = self.receiver.function("shared_exponents", own)
        shared = array(shared, "shared_exponents", "int8", size // BLOCK)
        numbers = [p.function("quantise_blocks", part, shared, workers) for p, part in pairs]
        total = added([array(each, "quantise_blocks", "int32", size) for each in numbers])
        made = self.receiver.function("dequantise_blocks", total, shared, workers)
        return array(made, "dequantise_blocks", "float32", size)

    def fixed(self, parts: list[np.ndarray], scale: float) -> np.ndarray:
        """The same, with one scale for everything."""
        pairs = zip(self.workers, parts, strict=False)
        total = added([quantised(p, part, scale) for p, part in pairs])
        made = self.receiver.function("dequantise", total, scale)
        return array(made, "dequantise", "float32", len(total))


def added(numbers: list[np.ndarray]) -> np.ndarray:
    """The sums of a switch."""
    total = np.zeros(len(numbers[0]), np.int32)
    with np.errstate(over="ignore"):
        for each in numbers:
            total = total + each
    return total


def quantised(p: Python, values: np.ndarray, scale: float) -> np.ndarray:
    return array(p.function("quantise", values, scale), "quantise", "int32", len(values))


@LAB.check(10, "Quantising rounds to the nearest integer, ties to even")
def rounding(t: Bench) -> None:
    p = t.python()
    whole = [t.random.randrange(-100, 100) for _ in range(20)]
    ties = np.array([0.5, 1.5, -0.5, -1.5, 0.49, -0.51, *(n + 0.5 for n in whole)], np.float32)
    beside = [np.nextafter(ties, np.float32(end)) for end in (-1e9, 1e9)]
    values = np.concatenate([ties, *beside, floats(t, 200, 100)])
    for scale in (1.0, 2.0 ** t.random.randrange(6, 14), t.random.uniform(1e5, 1e6)):
        want = np.rint(values.astype(np.float64) * scale).astype(np.int32)
        got = quantised(p, values, scale)
        compare("quantise", {"value": values}, got, want, f"values times {scale:g}, rounded")


@LAB.check(10, "Values that do not fit into int32 saturate")
def saturation(t: Bench) -> None:
    p = t.python()
    large = [10 ** t.random.uniform(9.4, 37) * t.random.choice((1, -1)) for _ in range(30)]
    fits = [float(t.random.randrange(-1000, 1000)) for _ in range(5)]
    ends = [2.0**31, -(2.0**31), 2.0**31 - 128, -(2.0**31) - 256, 128 - 2.0**31]
    values = np.array([*ends, *large, *fits], np.float32)
    want = [max(SMALLEST, min(LARGEST, int(value))) for value in values.tolist()]
    got = quantised(p, values, 1.0)
    why = "a value beyond the range becomes the largest or smallest, and never changes its sign"
    compare("quantise", {"value": values}, got, np.array(want, np.int32), why)


@LAB.check(5, "Dequantising comes back to within half a step")
def inverse(t: Bench) -> None:
    sender, receiver, values = t.python(), t.python(), floats(t, 300)
    for scale in (2.0 ** t.random.randrange(8, 13), 2.0**20):
        numbers = quantised(sender, values, scale)
        made = receiver.function("dequantise", numbers, scale)
        back = array(made, "dequantise", "float32", 300)
        error = float(np.abs(back.astype(np.float64) - values).max())
        if not error <= 0.5 / scale + 2.0**-21:
            raise Failure(
                f"scale {scale:g}: off by {error:g}, more than half a step, {0.5 / scale:g}"
            )


@LAB.check(10, "The switch's addition wraps, and every overflow is detected")
def overflow(t: Bench) -> None:
    p = t.python()
    edge = [(LARGEST, 1), (SMALLEST, -1), (SMALLEST, SMALLEST), (LARGEST, SMALLEST), (-1, 1)]
    edge += [(LARGEST, LARGEST), (1 << 30, 1 << 30), (-(1 << 30), -(1 << 30)), (LARGEST, 0)]
    pairs = [*edge, *((t.random.randrange(SMALLEST, 1 << 31),) * 2 for _ in range(50))]
    draw = functools.partial(t.random.randrange, SMALLEST, 1 << 31)
    pairs += [(draw(), draw()) for _ in range(200)]
    a, b = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    exact = a.astype(np.int64) + b
    result = p.function("switch_add", a, b)
    if not isinstance(result, list) or len(result) != 2:
        raise Failure("switch_add returns two arrays: the sums, and where they have overflowed")
    size, given = len(a), {"a": a, "b": b}
    sums = array(result[0], "switch_add", "int32", size)
    compare("sum", given, sums, exact.astype(np.int32), "sums wrap as in a switch")
    flags = array(result[1], "switch_add", "bool", size)
    why = "an overflow is a sum outside of int32"
    compare("overflow", given, flags, (exact > LARGEST) | (exact < SMALLEST), why)


@LAB.check(10, "The safe scale never overflows and is the largest such scale")
def scales(t: Bench) -> None:
    p = t.python()
    cases = [(1.0, 1), (1.0, 2), (1.0, 3), (0.7, 8), (1000.0, 5), (2.0**-20, 64)]
    cases.append((LARGEST / 2.0**31, 1))  # as large as int32 allows, and no larger
    for workers in (1, 2, *(t.random.randrange(3, 257) for _ in range(6))):  # at the corners
        most, step = LARGEST // workers, 2.0 ** t.random.randrange(-40, 40)
        cases += [((most + part) * step, workers) for part in (-0.5, 0.4, 0.5, 0.6)]
    cases += [(10 ** t.random.uniform(-6, 6), t.random.randrange(1, 257)) for _ in range(40)]
    for largest, workers in cases:
        scale = float(p.function("safe_scale", largest, workers))
        where = f"safe_scale({largest:g}, {workers}) = {scale:g}"
        if not scale > 0 or np.frexp(scale)[0] != 0.5:
            raise Failure(f"{where} is no power of two")
        if workers * np.rint(largest * scale) > LARGEST:
            raise Failure(f"{where}: the sum of {workers} values of {largest:g} overflows")
        if workers * np.rint(largest * scale * 2) <= LARGEST:
            raise Failure(f"{where}: twice as much would be safe, too")


def blocks(t: Bench, count: int) -> np.ndarray:
    """Blocks of very different size."""
    parts = [floats(t, BLOCK, 10.0 ** t.random.uniform(-8, 6)) for _ in range(count)]
    return np.concatenate(parts)


@LAB.check(10, "A block's exponent is the smallest that covers its values")
def exponents(t: Bench) -> None:
    p = t.python()
    values = blocks(t, 20)
    special = np.zeros((4, BLOCK), np.float32)
    special[0, 3], special[1, 60], special[2, :] = 8.0, -8.000001, 1.0
    powers = np.zeros((10, BLOCK), np.float32)
    for row, end in zip(powers[:-1], (np.inf, np.inf, 0) * 3, strict=True):
        power = np.float32(2.0 ** t.random.randrange(-40, 40))
        beside = np.nextafter(power, np.float32(end))
        row[t.random.randrange(BLOCK)] = t.random.choice((-beside, beside))
    powers[-1, 5] = 2.0**-140
    values = np.concatenate([values, special.ravel(), powers.ravel()])
    count = len(values) // BLOCK
    got = array(p.function("block_exponents", values), "block_exponents", "int8", count)
    for i, (e, block) in enumerate(zip(got.tolist(), values.reshape(-1, BLOCK), strict=True)):
        top = float(np.abs(block.astype(np.float64)).max())
        where = f"block {i}, largest |value| {top!r}: exponent {e}"
        if top == 0 and e != NO_VALUE:
            raise Failure(f"block {i} is all zeros: exponent {e}, not NO_VALUE ({NO_VALUE})")
        if top > 2.0**e:
            raise Failure(f"{where}, but 2^{e} is smaller")
        if top and e != NO_VALUE and top <= 2.0 ** (e - 1):
            raise Failure(f"{where}, but {e - 1} would do")


@LAB.check(10, "Sums of block floating point do not overflow and are nearly exact")
def block_sums(t: Bench) -> None:
    fleet = Fleet(t, 5)
    for workers in (2, t.random.randrange(3, 5), 5):
        same = blocks(t, 2)  # all workers at their largest: what overflows first
        power = 2.0 ** t.random.randrange(-20, 20)  # what fills its range to the end
        full = [t.random.choice((-power, power)) for _ in range(BLOCK)]
        same = np.concatenate([same, np.array(full, np.float32)])
        parts = [np.concatenate([blocks(t, 4), same]) for _ in range(workers)]
        exact = np.sum(np.array(parts, np.float64), axis=0)
        got = fleet.blocks(parts)
        bound = nearest(parts) + np.abs(exact) * 2.0**-23  # the latter: float32 itself
        wrong = np.flatnonzero(~(np.abs(got.astype(np.float64) - exact) <= bound))
        if len(wrong):
            i = int(wrong[0])
            text = f"{workers} workers, element {i}: expected {exact[i]:.9g}, got {got[i]:.9g}"
            raise Failure("the sum is farther from the exact one than it need be", details=[text])


def nearest(parts: list[np.ndarray]) -> np.ndarray:
    """The allowed error of the sum at each position: half a step for each worker, with
    the steps that the workers' values need, whatever a submission says of them."""
    largest = np.abs(np.array(parts, np.float64)).reshape(len(parts), -1, BLOCK).max(axis=(0, 2))
    mantissa, exponent = np.frexp(largest)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    room = np.floor(np.log2(LARGEST / len(parts)))
    return np.repeat(0.5 * len(parts) * 2.0 ** (exponent - room), BLOCK) * (1 + 1e-9)


@LAB.check(15, "A model learns from the integers as it does from float32")
def training(t: Bench) -> None:
    fleet = Fleet(t, WORKERS)
    task = Task(t.random.getrandbits(32))
    plain = task.train(lambda parts: np.sum(np.array(parts, np.float64), axis=0))
    through = task.train(fleet.blocks)
    losses = {}
    for scale in (10.0, 2.0**12, 2.0**36):
        losses[scale] = task.train(functools.partial(fleet.fixed, scale=scale))
    t.note(f"loss {task.first_loss:.3f} at first; after training {plain:.4f} with float numbers,")
    t.note(f"{through:.4f} with block floating point; with one fixed scale:")
    t.note(", ".join(f"{loss:.4f} at {scale:.5g}" for scale, loss in losses.items()))
    if not through <= plain * 1.02 + 1e-4:
        text = f"loss {through:.4f} with block floating point, {plain:.4f} with float numbers"
        raise Failure(f"the model learns less from your integers: {text}")
    if not losses[2.0**12] <= plain * 1.5 + 1e-2:
        text = f"loss {losses[2.0**12]:.4f}, {plain:.4f} with float numbers"
        raise Failure(f"with a fixed scale of 4096 the model learns less than it could: {text}")
