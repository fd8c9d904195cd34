"""Labs 16 to 18 without a sandbox: the numbers of trees, the models of switches, and the solutions'
alpha-beta models against what is measured."""

from __future__ import annotations

import importlib
import random
import runpy
from fractions import Fraction
from types import SimpleNamespace

import pytest

from labs._teacher import solution
from labs.grader.histories import Message
from labs.grader.packets import DATA, GRADIENT, NOTHING, REMINDER, RESULT
from labs.grader.slots import SLOTS
from labs.grader.timing import compare
from labs.lab17_experts import model as experts
from labs.lab18_trees import model as trees
from labs.tests.support import first_of


def _value(code: int) -> Fraction:
    """The value of a bf16."""
    exponent, fraction = code >> 7 & 255, code & 127
    size = Fraction(128 + fraction) * Fraction(2) ** (exponent - 134) if exponent else Fraction(0)
    return -size if code >> 15 else size


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_is_rounded_to_the_nearest_bf16_and_ties_to_even(seed):
    rng = random.Random(seed)
    for _ in range(300):
        base = rng.randrange(trees.LEAST, trees.MOST + 1)
        units = rng.choice((-1, 1)) * rng.getrandbits(rng.randrange(1, 31))
        exact = units * Fraction(2) ** (base - 134)
        code = trees.to_bf16(units, base)
        near = {code, code + 1, code - 1 if code & 0x7FFF else code}
        least = min(abs(_value(c) - exact) for c in near)
        assert abs(_value(code) - exact) == least
        if sum(abs(_value(c) - exact) == least for c in near) > 1:
            assert code & 1 == 0
        assert bool(code >> 15) == (units < 0)


def test_what_is_above_a_unit_is_exact_and_the_rest_is_cut_off():
    rng = random.Random(4)
    for _ in range(500):
        base = rng.randrange(trees.LEAST, trees.MOST + 1)
        code = trees.draw_code(rng, base)
        unit, got = Fraction(2) ** (base - 134), trees.to_fixed(code, base)
        assert abs(_value(code)) - abs(got) * unit < unit and abs(got) * unit <= abs(_value(code))
        assert abs(got) < 1 << 27 and (got == 0 or (got < 0) == bool(code >> 15))
        if code >> 7 & 255 >= base:
            assert got * unit == _value(code) and trees.to_bf16(got, base) == code


def _send(
    switch: trees.TreeSwitch, port: int, kind: int, flags: int, number: int, bit: int, v: int
):
    to, m = switch.take(port, Message(kind, flags, number, 100, bit, [v]))
    return (to, m.kind, m.flags, m.bitmap, m.values) if m else None


def test_a_root_asks_and_takes_a_result_for_an_answer():
    root = trees.TreeSwitch(3)
    part, again = trees.PARTIAL, trees.PARTIAL | trees.RESEND
    assert _send(root, 1, GRADIENT, part, 40, 1, 5) is None
    assert _send(root, 1, GRADIENT, again, 40, 1, 5)[:2] == (trees.DOWN, REMINDER)
    assert _send(root, 2, RESULT, 0, 40, 9, 77) == (trees.DOWN, RESULT, 0, 3, [77])
    assert _send(root, 1, GRADIENT, again, 40, 1, 5) == (trees.BACK, RESULT, 0, 3, [77])
    assert _send(root, 1, GRADIENT, part, 40 - 2 * SLOTS, 1, 5) is None
    assert _send(root, 1, GRADIENT, part, 40 + 2 * SLOTS, 1, 5) is None


def test_a_leaf_sends_up_waits_and_answers():
    leaf, one = trees.TreeSwitch(3, parent=8, bit=16), 100 << 7
    assert _send(leaf, 1, GRADIENT, 0, 0, 1, one) is None
    assert _send(leaf, 8, REMINDER, 5, 0, 0, 0) is None
    sums = [2 * 128]
    assert _send(leaf, 2, GRADIENT, 4, 0, 2, one) == (trees.UP, GRADIENT, 1, 16, sums)
    assert _send(leaf, 2, GRADIENT, 4, 0, 2, one) == (trees.UP, GRADIENT, 5, 16, sums)
    assert _send(leaf, 8, REMINDER, 5, 0, 0, 0) == (trees.UP, GRADIENT, 1, 16, sums)
    assert _send(leaf, 2, RESULT, 0, 0, 3, 9) is None
    assert _send(leaf, 8, RESULT, 0, 0, 64, 9) == (trees.DOWN, RESULT, 0, 3, [9])
    assert _send(leaf, 8, RESULT, 0, 0, 64, 9) is None
    assert _send(leaf, 1, GRADIENT, 4, 0, 1, one) == (trees.BACK, RESULT, 0, 3, [9])
    assert _send(leaf, 8, REMINDER, 5, 0, 0, 0) == (trees.UP, RESULT, 0, 3, [9])


def test_the_fates_of_tokens_and_answers():
    switch, zeros = experts.Combiner(), [0] * 7

    def take(kind: int, number: int, bitmap: int, value: int = 0, slot: int = 3, home: bool = True):
        values = [] if kind == NOTHING else [value, *zeros]
        m = switch.take(home, experts.Message(kind, number, slot, 9, bitmap, values))
        return (m.kind, m.bitmap, m.values[:1]) if m else None

    assert take(DATA, 0, 7, 50, home=False) is None
    assert take(DATA, 0, 7, 50) == (DATA, 7, [50])
    assert take(GRADIENT, 0, 2, 5) is None and take(GRADIENT, 0, 2, 5) is None
    assert take(DATA, 0, 7, 50) == (DATA, 5, [50])
    assert take(GRADIENT, 0, 8, 5) is None and take(GRADIENT, 1, 1, 5) is None
    assert take(NOTHING, 0, 1) is None
    assert take(GRADIENT, 0, 4, 2**31 - 1) == (RESULT, 7, [4 - 2**31])
    assert take(DATA, 0, 7, 50) == (RESULT, 7, [4 - 2**31])
    assert take(DATA, 1, 6, 51) == (DATA, 6, [51]) and take(DATA, 0, 7, 50) is None
    assert take(NOTHING, 1, 2) is None and take(NOTHING, 1, 4) == (RESULT, 6, [0])
    assert take(GRADIENT, 5, 1, 8, experts.SLOTS) == (GRADIENT, 1, [8])


COSTS = {
    "lab16_sharding": ("hosts", 0.04),
    "lab17_experts": ("hosts", 0.05),
    "lab18_trees": ("network", 0.04),
}


@pytest.mark.parametrize("seed", first_of(range(8), 1))
@pytest.mark.parametrize("lab", COSTS)
def test_the_solutions_model_is_near_what_is_measured(lab, seed):
    module, room = COSTS[lab]
    costs = runpy.run_path(str(solution(lab) / "costs.py"))
    python = SimpleNamespace(function=lambda name, *arguments: costs[name](*arguments))
    made = importlib.import_module(f"labs.{lab}.{module}").measured(random.Random(seed))
    compare(python, made, 0.8 * room)  # some of the room is left for models that differ
