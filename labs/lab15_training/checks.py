"""Checks of lab 15: a quantiser with which a model learns, in as few bytes as possible.

Each worker is a process of its own, and so is the end where sums become floats. Between them are
the grader and a switch that runs the testbed's SwitchML program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labs.grader.bench import Bench, Failure, Python
from labs.grader.lab import Lab
from labs.lab15_training.model import BLOCK, WORKERS, Task
from labs.lab15_training.switch import Summing

LAB = Lab(
    title="Training with few bits",
    hand_in=("quantise.py",),
    module="quantise.py",
    testbed=True,
)
NO_VALUE = -127  # the exponent of a block of zeros
BITS = (32, 16, 8)
MOST_WORKERS = 7


def array(value: Any, name: str, dtype: str, size: int) -> np.ndarray:
    """The array that a method has returned. Raises Failure."""
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
        text = f"{name} returns no array of {dtype}"
        raise Failure(text, case=text)
    if value.shape != (size,):
        text = f"{name} returns an array of another length"
        raise Failure(f"{text}: {value.shape}, not ({size},)", case=text)
    return value


class Fleet:
    """Workers that send through a switch, and a receiver.

    Args:
        apart: each worker is a process. Where all have the same values, there is nothing that one
            could learn from another.
    """

    def __init__(self, t: Bench, workers: int, apart: bool = True) -> None:
        first = t.python()
        self.workers = [first, *(t.python() if apart else first for _ in range(workers - 1))]
        self.receiver = t.python()
        self.switch = Summing(workers)

    def adder(self, size: int, bits: int) -> Callable[[list[np.ndarray]], np.ndarray]:
        """New quantisers of all, and what adds up gradients with them."""
        arguments = (size, len(self.workers), bits)
        own = [p.make("Quantiser", *arguments) for p in self.workers]
        end = self.receiver.make("Quantiser", *arguments)

        def add(parts: list[np.ndarray]) -> np.ndarray:
            todo = list(zip(self.workers, own, parts, strict=True))
            count = size // BLOCK
            said = [
                array(p.method(q, "exponents", part), "exponents", "int8", count)
                for p, q, part in todo
            ]
            shared = np.max(np.stack(said), axis=0)
            words = size * bits // 32
            sent = [
                array(p.method(q, "encode", part, shared), "encode", "int32", words)
                for p, q, part in todo
            ]
            sums = self.switch.add(sent)
            made = self.receiver.method(end, "decode", sums, shared)
            return array(made, "decode", "float32", size)

        return add

    def bytes(self, size: int, bits: int) -> int:
        """Bytes that a worker sends for a gradient: packets, and a byte for each exponent."""
        packets = -(-(size * bits // 32) // BLOCK)
        return packets * self.switch.packet_bytes + size // BLOCK


def gradients(t: Bench, workers: int, count: int) -> list[np.ndarray]:
    """Gradients of `count` blocks whose sizes differ by orders of magnitude."""
    sizes = [10.0 ** t.random.uniform(-6, 3) for _ in range(count)]
    return [
        np.array([t.random.gauss(0, s) for s in sizes for _ in range(BLOCK)], np.float32)
        for _ in range(workers)
    ]


def step(parts: list[np.ndarray], bits: int) -> np.ndarray:
    """The allowed error of the sum at each position: half a step of each worker, if a
    block's exponent is the smallest that covers its values."""
    workers = len(parts)
    largest = np.abs(np.array(parts, np.float64)).reshape(workers, -1, BLOCK).max(axis=(0, 2))
    mantissa, exponent = np.frexp(largest)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    room = (2 ** (bits - 1) - 1) // workers
    return np.repeat(0.5 * workers * 2.0**exponent / room, BLOCK) * (1 + 1e-6)


def off(made: np.ndarray, parts: list[np.ndarray], bits: int) -> np.ndarray:
    """bool: where the sum is farther from the exact one than it may be."""
    exact = np.sum(np.array(parts, np.float64), axis=0)
    room = step(parts, bits) + np.abs(exact) * 2.0**-23
    return ~(np.abs(made.astype(np.float64) - exact) <= room)


def right(t: Bench, fleet: Fleet, parts: list[np.ndarray], bits: int) -> None:
    """The sum of these gradients is right. Raises Failure."""
    made = fleet.adder(len(parts[0]), bits)(parts)
    wrong = np.flatnonzero(off(made, parts, bits))
    if len(wrong):
        i = int(wrong[0])
        text = f"with {bits} bits a sum is farther from the exact one than it need be"
        exact = float(np.sum(np.array(parts, np.float64), axis=0)[i])
        told = f"{len(parts)} workers, element {i}: expected {exact:.9g}, got {made[i]:.9g}"
        raise Failure(text, details=[told, f"{len(wrong)} of {len(made)} are"], case=text)


@LAB.check(10, "With 32 bits sums are nearly exact")
def exact(t: Bench) -> None:
    workers = t.random.randrange(2, 4)
    right(t, Fleet(t, workers), gradients(t, workers, 6), 32)


@LAB.check(10, "With 16 and with 8 bits sums are as exact as they can be")
def packed(t: Bench) -> None:
    workers = t.random.randrange(2, 4)
    fleet = Fleet(t, workers)
    for bits in (16, 8):
        t.case = f"{bits} bits"
        right(t, fleet, gradients(t, workers, 6), bits)
        for count in (t.random.choice((1, 2, 4)), t.random.choice((3, 5, 6, MOST_WORKERS))):
            as_written(t, fleet.receiver, count, bits)


def as_written(t: Bench, p: Python, workers: int, bits: int) -> None:
    """Exponents and words of a worker's first gradient are those of the hand-out, to the bit."""
    lanes, room = 32 // bits, (2 ** (bits - 1) - 1) // workers
    steps = [t.random.randrange(-room + 1, room) for _ in range(3 * BLOCK)]
    steps[0::BLOCK] = [room, -room, room]  # so that a block's exponent is known
    near = [t.random.uniform(-0.3, 0.3) if abs(n) < room else 0.0 for n in steps]
    exponents = [t.random.randrange(-60, 60) for _ in range(3)]
    values = [(n + d) / room for n, d in zip(steps, near, strict=True)]
    parts = np.ldexp(np.reshape(values, (3, BLOCK)), np.reshape(exponents, (3, 1)))
    parts = np.concatenate([parts.ravel(), np.zeros(BLOCK), np.full(BLOCK, 2.0**-140)])
    given = parts.astype(np.float32)
    number = p.make("Quantiser", len(given), workers, bits)
    got = array(p.method(number, "exponents", given), "exponents", "int8", len(given) // BLOCK)
    want = [*exponents, NO_VALUE, NO_VALUE]
    if got.tolist() != want:
        text = "exponents are not the smallest that cover their blocks"
        raise Failure(f"{text}: {got.tolist()}, not {want}", case=text)
    sent = p.method(number, "encode", given, got)
    words = array(sent, "encode", "int32", len(given) // lanes)[: 3 * BLOCK // lanes]
    fields = np.reshape(steps, (-1, lanes)).astype(np.int64) << (bits * np.arange(lanes))
    right_words = fields.sum(axis=1).astype(np.int32)
    if (words != right_words).any():
        n = int(np.flatnonzero(words != right_words)[0])
        text = f"with {bits} bits a word is not that of the hand-out"
        told = f"{workers} workers, word {n}: {words[n]:#x}, not {right_words[n]:#x}"
        raise Failure(f"{text}: {told}", case=text)


@LAB.check(10, "Rounding errors are not lost: the next gradients make up for them")
def feedback(t: Bench) -> None:
    """The same gradients many times: what the sums of all times together are off is what a worker
    has not made up for yet, half a step. The step may be twice as large as that of the gradients,
    because of what is added to them."""
    workers = t.random.randrange(2, 5)
    fleet = Fleet(t, workers)
    p, size = fleet.receiver, t.random.randrange(-20, 20)
    number, left = p.make("Quantiser", BLOCK, 2, 8), t.random.randrange(1, BLOCK)
    first, then = np.zeros(BLOCK, np.float32), np.zeros(BLOCK, np.float32)
    first[0], first[left], then[left] = 2.0**size, 2.0**size * 0.4 / 63, 2.0**size
    for values, want in ((first, size), (then, size + 1)):
        (got,) = array(p.method(number, "exponents", values), "exponents", "int8", 1).tolist()
        if got != want:
            text = "an exponent does not cover a value with the error that is added to it"
            raise Failure(text, case=text)
        p.method(number, "encode", values, np.array([got], np.int8))
    for bits in (8, 16):
        t.case = f"{bits} bits"
        parts, times = gradients(t, workers, 3), t.random.randrange(30, 50)
        add, made = fleet.adder(len(parts[0]), bits), np.zeros(len(parts[0]))
        for _ in range(times):
            made += add(parts)
        exact = times * np.sum(np.array(parts, np.float64), axis=0)
        room = 2 * step(parts, bits) + np.abs(exact) * 2.0**-22
        far = float((np.abs(made - exact) / room).max())
        if not far <= 1:
            text = f"with {bits} bits, rounding errors add up from step to step"
            told = (
                f"after {times} times the same gradients, {far:.3g} times as far off as it need be"
            )
            raise Failure(f"{text}: {told}", case=text)


@LAB.check(10, "No sum overflows, however equal the workers' values are")
def equal(t: Bench) -> None:
    for workers in (2, 3, t.random.randrange(5, MOST_WORKERS + 1)):
        fleet = Fleet(t, workers, apart=False)
        for bits in BITS:
            t.case = f"{bits} bits, all workers at their largest value"
            size = 2.0 ** t.random.randrange(-20, 20)
            signs = [t.random.choice((-1, 1)) for _ in range(2 * BLOCK)]
            signs += [1] * BLOCK + [-1] * BLOCK
            part = (np.array(signs) * size).astype(np.float32)
            right(t, fleet, [part] * workers, bits)


@LAB.check(10, "An outlier spoils its own block alone, and zeros stay zeros")
def outlier(t: Bench) -> None:
    fleet, count = Fleet(t, 2), 5
    for bits in (16, 8):
        t.case = f"{bits} bits"
        parts = [
            np.array([t.random.gauss(0, 1) for _ in range(count * BLOCK)], np.float32)
            for _ in range(2)
        ]
        where, zeros, half, full = t.random.sample(range(count), 4)
        parts[0][where * BLOCK + t.random.randrange(BLOCK)] = 10 ** t.random.uniform(5, 30)
        for part in parts:
            part[zeros * BLOCK : (zeros + 1) * BLOCK] = 0
        parts[0][half * BLOCK : (half + 1) * BLOCK] *= 1e-3
        parts[1][half * BLOCK : (half + 1) * BLOCK] = 0  # of one worker alone
        for part in parts:
            part[full * BLOCK] = 8.0  # the largest of its block
        right(t, fleet, parts, bits)


@LAB.check(5, "What is no number is refused")
def refused(t: Bench) -> None:
    p = t.python()
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf)):
        t.case = name
        values = np.array([t.random.gauss(0, 1) for _ in range(2 * BLOCK)], np.float32)
        for method, more in (("exponents", []), ("encode", [np.full(2, 4, np.int8)])):
            number = p.make("Quantiser", 2 * BLOCK, 2, t.random.choice(BITS))
            p.method(number, method, values, *more)
            wrong = values.copy()
            wrong[t.random.randrange(2 * BLOCK)] = value
            try:
                p.method(number, method, wrong, *more)
            except Failure as failure:
                if str(failure.details[:1]).startswith("['ValueError"):
                    continue
                raise
            text = f"{method} takes what is no number"
            raise Failure(text, case=text)


def learns(t: Bench, bits: int, room: float) -> None:
    """A model learns with so many bits. Raises Failure if it is right `room` less often."""
    fleet, task = Fleet(t, WORKERS), Task(t.random.getrandbits(32))
    plain = task.train(lambda parts: np.sum(np.array(parts, np.float64), axis=0))
    made = task.train(fleet.adder(len(task.start), bits))
    t.score = made
    size = fleet.bytes(len(task.start), bits)
    t.note(f"{made:.1%} of the pictures are right, {plain:.1%} with float numbers;")
    t.note(f"{size} bytes per step and worker, {fleet.bytes(len(task.start), 32)} with 32 bits")
    if made < plain - room:
        text = "the model learns less than it could"
        told = f"{made:.1%} of the pictures are right, {plain:.1%} with float numbers"
        raise Failure(f"{text} with {bits} bits: {told}", case=f"{text} with {bits} bits")


@LAB.check(15, "A model learns with 16 bits as with float numbers")
def sixteen(t: Bench) -> None:
    learns(t, 16, 0.01)


@LAB.check(10, "A model learns with 8 bits nearly as with float numbers")
def eight(t: Bench) -> None:
    learns(t, 8, 0.04)
