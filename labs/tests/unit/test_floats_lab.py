"""Lab 19 without a sandbox: sums of bf16 numbers, what fits into a set, and the switch's model."""

from __future__ import annotations

import itertools
import random
import runpy
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labs._teacher import solution
from labs.grader.histories import Message
from labs.grader.packets import GRADIENT, RESULT
from labs.lab19_floats import model, orders, pairs
from labs.lab19_floats.checks import ROUNDINGS, hard_columns, rounding_column

codes = st.integers(0, 0xFFFF)
seeds = st.integers(0, 1 << 32).map(random.Random)


def _float(code: int) -> np.float32:
    return np.uint32(code << 16).view(np.float32)


@given(codes, codes)
@example(0x8000, 0x8000)
@example(0x7F7F, 0x7B00)
@example(0x0001, 0x8080)
def test_two_numbers_are_added_as_a_processor_does(a, b):
    """Its float32 has more than twice the bits, so rounding twice is rounding once."""
    with np.errstate(all="ignore"):
        made = _float(a) + _float(b)
    bits = int(made.view(np.uint32))
    want = 0x7FC0 if np.isnan(made) else bits + 0x7FFF + (bits >> 16 & 1) >> 16
    assert model.added(a, b) == model.added(b, a) == want


def _value(code: int) -> Fraction:
    return Fraction(model.whole(code)) / 2**133


@given(st.lists(codes.filter(model.is_finite), min_size=1, max_size=9))
def test_a_sum_is_the_nearest_number_and_a_tie_is_even(some):
    made, exact = model.total(some), sum(map(_value, some))
    if not model.is_finite(made):
        assert abs(exact) >= 255 * 2**120 + 2**119
        return
    beside = [code for code in (made - 1, made + 1) if code >> 15 == made >> 15]
    for code in filter(model.is_finite, beside):
        far, near = abs(_value(code) - exact), abs(_value(made) - exact)
        assert far > near or far == near and made & 1 == 0
    assert (made == 0) == (exact == 0)


@pytest.fixture(scope="module")
def server():
    return runpy.run_path(str(solution("lab19_floats") / "server.py"))["total"]


@given(rng=seeds)
def test_the_solutions_server_adds_as_the_model(server, rng):
    for column in hard_columns(rng):
        assert server(column) == model.total(column)


@given(rng=seeds, base=st.integers(model.LEAST, model.MOST), workers=st.integers(4, 6))
def test_what_is_drawn_fits_or_does_not(rng, base, workers):
    fitting = [model.to_units(code, base) for code in model.draw_fitting(rng, base, workers)]
    assert None not in fitting and sum(map(abs, fitting)) <= model.LARGEST
    large = [model.to_units(code, base) for code in model.draw_large(rng, base, workers)]
    assert None not in large
    for reason in model.REASONS:
        assert model.to_units(model.draw_spilling(rng, base, reason), base) is None


@given(rng=seeds, base=st.integers(model.LEAST, model.MOST))
def test_every_order_has_the_same_exact_sum_whoever_adds(rng, base):
    """Three workers, in all orders, whose numbers fit or not."""
    draws = [
        model.draw_fitting,
        lambda *args: rounding_column(args[0], rng.choice(ROUNDINGS), *args[1:]),
    ]
    column = rng.choice(draws)(rng, base, 3)
    if rng.random() < 0.3:
        column[rng.randrange(3)] = model.draw_spilling(rng, base, rng.choice(model.REASONS))
    ends = set()
    for order in itertools.permutations(range(3)):
        switch, bits = model.FloatSwitch(7, server=9), 0
        for who in (*order, *order):
            m = Message(GRADIENT, 0, 5, base, 1 << who, [column[who]])
            to, answer = switch.take(who, 0, m)
            bits |= m.bitmap if to == model.SERVER else 0
            if bits == 7:
                result = Message(RESULT, 0, 5, base, 7, [model.total(column)])
                to, answer = switch.take(9, 0, result)
                bits = 0
            if answer is not None and answer.kind == RESULT:
                ends.add(answer.values[0])
    assert ends == {model.total(column)}


def test_a_set_in_order_keeps_the_order_of_arrival():
    for order, want in (((0, 1, 2), 0x4380), ((1, 2, 0), 0x4381)):
        switch, column = model.FloatSwitch(7), (0x4380, 0x3F80, 0x3F80)
        for who in order:
            m = Message(GRADIENT, 0, 5, 0, 1 << who, [column[who]])
            to, answer = switch.take(who, 0, m)
        assert (to, answer.values) == (model.EVERYONE, [want])


@pytest.mark.parametrize("kind", [*pairs.ORDINARY, *pairs.CORNERS])
def test_pairs_are_codes_and_not_always_the_same(kind):
    rng = random.Random(1)
    made = [kind(rng) for _ in range(200)]
    assert all(code in range(1 << 16) for pair in made for code in pair)
    assert len(set(made)) > 10


def test_orders_of_arrival_are_told(capsys):
    assert orders.main(["256", "1", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "6 orders of arrival, sums that differ: 2"
    assert said[1].startswith("0x4380 (256) in 4 of them") and said[2].startswith("0x4381 (258)")
    assert said[3] == "exact, rounded once: 0x4381 (258)"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1"], "2 to 7 numbers"),
        (["1", "0x3f8"], "'0x3f8' is no number"),
        (["1", "1e999"], "'1e999'"),
    ],
)
def test_what_is_no_number_is_said(words, told, capsys):
    assert orders.main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code"),
    [("1.5", 0x3FC0), ("-0", 0x8000), ("1e-45", 0), ("-inf", 0xFF80), ("3.4e38", 0x7F80)]
    + [("0x7f81", 0x7F81), ("1.00390625", 0x3F80), ("1.01171875", 0x3F82), ("1.0039063", 0x3F81)],
)
def test_a_number_is_rounded_to_bf16(text, code):
    assert orders.code_of(text) == code
