"""Quantities: what is read, what is refused and why, and that printing reads back the same."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.config import units
from p4fabric.base.config.fields import Quantity
from p4fabric.base.config.units import PACKETS, PERCENT, RATE, SIZE, TIME, FieldError

READ = [
    ("100 Mbit/s", RATE, 100_000_000),
    ("100Mbit/s", RATE, 100_000_000),
    ("2.5 Gbps", RATE, 2_500_000_000),
    ("1e3 kbit/s", RATE, 1_000_000),
    ("0.1 Tbit/s", RATE, 10**11),
    ("10 us", TIME, 10_000),
    ("10 µs", TIME, 10_000),
    ("1.5 ms", TIME, 1_500_000),
    ("2 min", TIME, 120 * 10**9),
    ("0.000000001 s", TIME, 1),
    ("256 KiB", SIZE, 262_144),
    ("1 MB", SIZE, 1_000_000),
    ("1 packet", PACKETS, 1),
    ("1000 packets", PACKETS, 1000),
    ("0.1 %", PERCENT, Fraction(1, 10)),
    ("0.1%", PERCENT, Fraction(1, 10)),
    (0, TIME, 0),
    (0.0, RATE, 0),
    ("0", PACKETS, 0),
]


@pytest.mark.parametrize("text, dimension, amount", READ)
def test_reads_exactly(text: object, dimension: units.Dimension, amount: Fraction) -> None:
    assert units.parse(text, dimension, 0, 10**18) == amount


REFUSED = [
    (10, TIME, "the unit is missing: write for example 10 us"),
    ("10", RATE, "the unit is missing: write for example 10 Mbit/s"),
    ("10 Mbit/s", TIME, "Mbit/s is the unit of a rate"),
    ("10 us", RATE, "us is the unit of a time"),
    ("10 mbit/s", RATE, "did you mean Mbit/s? upper and lower case differ"),
    ("10 MB/s", RATE, "rates are in bits"),
    ("10 parsecs", TIME, "unknown unit 'parsecs'"),
    ("1,000 us", TIME, "without commas"),
    ("1_000 us", TIME, "without underscores"),
    ("-1 us", TIME, "allowed: from 0 ns to 1 s"),
    ("2 s", TIME, "allowed: from 0 ns to 1 s"),
    ("1e99 s", TIME, "allowed: from 0 ns to 1 s"),
    ("1e999999999 s", TIME, "allowed: a time such as 10 us"),
    ("9" * 5000 + " s", TIME, "allowed: a time such as 10 us"),
    ("0.5 ns", TIME, "a whole number of ns"),
    ("1.5 packets", PACKETS, "a whole number of packets"),
    ("fast", RATE, "allowed: a rate such as 100 Mbit/s"),
    ("", TIME, "allowed: a time"),
    ("nan s", TIME, "allowed: a time"),
    (float("nan"), TIME, "allowed: a time"),
    (float("inf"), TIME, "allowed: a time"),
    (True, TIME, "found true"),
    (None, TIME, "found nothing"),
    ([1], TIME, "found a list"),
    ({"a": 1}, TIME, "found a mapping"),
]


@pytest.mark.parametrize("value, dimension, message", REFUSED)
def test_refuses_with_a_reason(value: object, dimension: units.Dimension, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        units.parse(value, dimension, 0, 10**9)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_shows_the_largest_unit_that_fits() -> None:
    shown = [
        units.show(100_000_000, RATE),
        units.show(1_234_567, RATE),
        units.show(999, TIME),
        units.show(90 * 10**9, TIME),
        units.show(262_144, SIZE),
        units.show(1025, SIZE),
        units.show(1, PACKETS),
        units.show(Fraction(1, 10), PERCENT),
        units.show(0, TIME),
    ]
    assert shown == [
        *("100 Mbit/s", "1.234567 Mbit/s", "999 ns", "90 s", "256 KiB", "1025 B"),
        *("1 packet", "0.1 %", "0 ns"),
    ]


@pytest.mark.parametrize(
    ("amount", "digits", "shown"),
    [
        (0, 3, "0 bit/s"),
        (999, 3, "999 bit/s"),
        (1000, 3, "1 kbit/s"),
        (Fraction(10**10, 3), 6, "3.33333 Gbit/s"),
        (41_999_999.6, 3, "42 Mbit/s"),
        (25 * 10**12, 3, "25 Tbit/s"),
    ],
)
def test_about_so_many_digits(amount: float | Fraction, digits: int, shown: str) -> None:
    assert units.about(amount, RATE, digits) == shown


@given(st.sampled_from((RATE, TIME, SIZE, PACKETS)), st.integers(0, 10**18))
def test_showing_reads_back(dimension: units.Dimension, amount: int) -> None:
    assert units.parse(units.show(amount, dimension), dimension, 0, 10**18) == amount


@given(st.decimals(0, 99, places=6))
def test_a_share_reads_back_as_the_same_float(percent: object) -> None:
    kind = Quantity(PERCENT, 0, 99)
    share = kind.parse(f"{percent} %")
    assert share == float(Fraction(percent) / 100)
    assert kind.parse(kind.show(share)) == share
