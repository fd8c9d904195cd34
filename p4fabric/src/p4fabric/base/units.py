"""Quantities as people read them: three significant digits and a unit, gaps for the thousands; "-"
for what is unknown.

A quantity alone has the unit in which it is short. Those of a column have one unit, so that they
can be compared at a glance (`Quantity.common`, which text_table.py calls). Quantities as
configuration files have them are in config/units.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
UNKNOWN = "-"
_MOST = 10_000  # of a unit; what is more takes the next one


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and str(value) not in ("nan", "<NA>")  # NA has no truth value


def significant(value: float) -> str:
    """Three significant digits, or all digits before the point, with gaps for the thousands."""
    if value == 0:
        return "0"
    value = float(f"{value:.2e}") if abs(value) < 1000 else value  # 0.9996 has as many as 1.00
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(digits, 0)}f}".replace(",", " ")


class Quantity:
    """Shows values of a base unit: 1234567 -> "1.23 ms"."""

    def __init__(self, units: Sequence[tuple[float, str]]) -> None:
        """units: (base units, name) of each, from the largest."""
        self._units = units

    def __call__(self, value: float | None) -> str:
        """The value in the unit in which it is short."""
        if not _known(value):
            return UNKNOWN
        # 0.9995 of a unit would print as "1000" of the next smaller one
        return self._in(self._fitting(float(value), 0.9995), float(value))

    def common(self, values: Iterable[Any]) -> Callable[[Any], str]:
        """Shows all of these values in one unit: that in which the smallest is short, unless the
        largest would be long in it."""
        known = [abs(float(each)) for each in values if _known(each) and each]
        unit = self._fitting(min(known, default=0.0), 0.9995)
        for larger in reversed(self._units):
            if larger[0] > unit[0] and max(known, default=0.0) >= _MOST * unit[0]:
                unit = larger
        return lambda value: self._in(unit, float(value)) if _known(value) else UNKNOWN

    def unit(self, largest: float) -> tuple[float, str]:
        """(base units per unit, its name) for an axis that reaches to `largest`."""
        return self._fitting(largest, 1.0)

    def _fitting(self, value: float, share: float) -> tuple[float, str]:
        fits = (each for each in self._units if abs(value) >= share * each[0])
        return next(fits, self._units[-1])

    def _in(self, unit: tuple[float, str], value: float) -> str:
        return f"{significant(value / unit[0])} {unit[1]}"


class Spread(Quantity):
    """The same of a mean between the least and the most: "50.0 (45.0 .. 55.0) ms"."""

    def __call__(self, value: Any) -> str:
        return self.common([value.mean])(value)

    def common(self, values: Iterable[Any]) -> Callable[[Any], str]:
        show = super().common(values)

        def shown(value: Any) -> str:
            if not all(map(_known, (value.mean, value.low, value.high))):
                return UNKNOWN
            middle, unit = show(value.mean).rsplit(" ", 1)
            least, most = (show(each).rsplit(" ", 1)[0] for each in (value.low, value.high))
            return f"{middle} ({least} .. {most}) {unit}"

        return shown


time = Quantity(_TIMES)  # of ns
spread = Spread(_TIMES)
size = Quantity(_BYTES)  # powers of 1000, as link rates are
rate = Quantity(_RATES)
time_unit = time.unit
size_unit = size.unit


def share(value: float | None) -> str:
    """0.1234 -> "12.3 %"."""
    return f"{100 * float(value):.1f} %" if _known(value) else UNKNOWN


def number(value: float | None) -> str:
    """1234567 -> "1 234 567" (gaps for the thousands); fractions get three digits."""
    if not _known(value):
        return UNKNOWN
    whole = float(value) == int(value)
    if not whole and abs(value) < 1000:
        return significant(float(value))
    return (f"{int(value):,}" if whole else f"{float(value):,.0f}").replace(",", " ")


def natural(name: object) -> str:
    """A key that sorts names as people count: s2 before s10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(10), str(name))


def ratio(value: float | None) -> str:
    """1.4 -> "1.400"."""
    return f"{float(value):.3f}" if _known(value) else UNKNOWN
