"""Quantities with units: `100 Mbit/s`, `10 us`, `256 KiB`, `1 %`, `1000 packets`.

A bare number in a file would leave the reader guessing (bits or bytes? us or ms?), so
every quantity names its unit; only 0 may go without. Inside the program a quantity is a whole
number of its base unit (bit/s, ns, B, packets), and a percentage is a fraction. Text is read
exactly, never through a float, and what is not a whole number of base units is refused rather than
rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

# More digits or a longer exponent than any quantity needs; without a limit `1e999999999 s` would
# fill the memory before anyone could say that it is too much.
_QUANTITY = re.compile(
    r"(?P<number>[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)"
    r" *(?P<unit>[A-Za-zµ%].*)?"
)


class FieldError(ValueError):
    """A value that does not fit its key: the value found, the allowed values, and a hint (may be
    "")."""

    def __init__(self, found: str, allowed: str, hint: str = "") -> None:
        super().__init__(f"found {found}; allowed: {allowed}" + (f" ({hint})" if hint else ""))
        self.found = found
        self.allowed = allowed
        self.hint = hint


@dataclass(frozen=True)
class Dimension:
    """The dimension of a quantity. `units` maps each unit to its size in base units; `shown` are
    those in which values are printed, smallest first."""

    name: str
    base: str
    units: dict[str, Fraction]
    shown: tuple[str, ...]
    example: str

    def describe(self) -> str:
        """Description of a quantity, such as `a time such as 10 us (units: ns, us, ms, s)`."""
        return f"a {self.name} such as {self.example} (units: {', '.join(self.shown)})"


def _powers(names: str, step: int) -> dict[str, Fraction]:
    return {name: Fraction(step**power) for power, name in enumerate(names.split())}


RATE = Dimension(
    "rate",
    "bit/s",
    _powers("bit/s kbit/s Mbit/s Gbit/s Tbit/s", 1000) | _powers("bps kbps Mbps Gbps Tbps", 1000),
    ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"),
    "100 Mbit/s",
)
TIME = Dimension(
    "time",
    "ns",
    _powers("ns us ms s", 1000) | {"µs": Fraction(1000), "min": Fraction(60 * 10**9)},
    ("ns", "us", "ms", "s"),
    "10 us",
)
SIZE = Dimension(
    "size",
    "B",
    _powers("B KiB MiB GiB", 1024) | _powers("B kB MB GB", 1000),
    ("B", "KiB", "MiB", "GiB"),
    "256 KiB",
)
PACKETS = Dimension(
    "number of packets",
    "packets",
    {"packets": Fraction(1), "packet": Fraction(1)},
    ("packets",),
    "1000 packets",
)
PERCENT = Dimension("percentage", "%", {"%": Fraction(1)}, ("%",), "1 %")

DIMENSIONS = (RATE, TIME, SIZE, PACKETS, PERCENT)


def describe(value: object) -> str:
    """A value that was found in the file, as an error names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def parse(
    value: object, dimension: Dimension, low: int | Fraction, high: int | Fraction
) -> Fraction:
    """Read a quantity from the text (or the bare 0) of a configuration file.

    Returns it exactly, in base units. Raises FieldError unless it has a unit of `dimension` and
    lies within low..high (in base units).
    """
    found = describe(value)
    allowed = dimension.describe()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FieldError(found, allowed)
    match = _QUANTITY.fullmatch(str(value).strip())
    if not match:
        raise FieldError(found, allowed, _why_not_a_number(str(value)))
    number, unit = Fraction(match["number"]), match["unit"]
    if unit is None:
        if number != 0:
            example = f"{match['number']} {dimension.example.split()[1]}"
            raise FieldError(found, allowed, f"the unit is missing: write for example {example}")
        unit = dimension.base
    if unit not in dimension.units:
        raise FieldError(found, allowed, _why_not_this_unit(unit, dimension))
    amount = number * dimension.units[unit]
    if not low <= amount <= high:
        raise FieldError(found, f"from {show(low, dimension)} to {show(high, dimension)}")
    if dimension is not PERCENT and amount.denominator != 1:
        raise FieldError(found, f"a whole number of {dimension.base}")
    return amount


def _why_not_a_number(text: str) -> str:
    if "," in text:
        return "write numbers without commas, with a point for decimals"
    if "_" in text:
        return "write numbers without underscores"
    return ""


def _why_not_this_unit(unit: str, dimension: Dimension) -> str:
    for other in DIMENSIONS:
        if unit in other.units:
            return f"{unit} is the unit of a {other.name}"
    same = [known for known in dimension.units if known.lower() == unit.lower()]
    if same:
        return f"did you mean {same[0]}? upper and lower case differ"
    if dimension is RATE and unit.lower().endswith(("b/s", "b/sec")):
        return "rates are in bits: 1 MB/s is 8 Mbit/s"
    return f"unknown unit {describe(unit)}"


def show(amount: int | Fraction, dimension: Dimension) -> str:
    """Print a quantity exactly, in the largest unit that leaves at least 1 (sizes: a whole
    number)."""
    if amount == 0:
        return f"0 {dimension.base}"
    best = dimension.shown[0]
    for unit in dimension.shown:
        quotient = Fraction(amount) / dimension.units[unit]
        if abs(quotient) >= 1 and (dimension is not SIZE or quotient.denominator == 1):
            best = unit
    number = decimal(Fraction(amount) / dimension.units[best])
    return f"{number} {'packet' if (number, best) == ('1', 'packets') else best}"


def about(amount: float | Fraction, dimension: Dimension, digits: int) -> str:
    """Print a quantity with at most so many significant digits, in the largest unit that leaves at
    least 1."""
    units = [unit for unit in dimension.shown if amount >= dimension.units[unit]]
    unit = units[-1] if units else dimension.shown[0]
    return f"{float(amount / dimension.units[unit]):.{digits}g} {unit}"


def decimal(number: Fraction) -> str:
    """Write a fraction out as a decimal number. Its denominator must have no factors but 2 and
    5."""
    places = 0
    while (number * 10**places).denominator != 1:
        places += 1
    text = format(Decimal(int(number * 10**places)).scaleb(-places), "f")
    return text


def count(things: Sized, word: str, plural: str = "s") -> str:
    """A number of things in words: `1 switch`, `2 switches`. plural: the ending that is added to
    the word."""
    return f"{len(things)} {word}{plural if len(things) != 1 else ''}"
