"""Quantities as people read them: three significant digits and a unit; "-" for what is unknown."""

from __future__ import annotations

import math
from typing import TypeGuard

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
UNKNOWN = "-"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and str(value) not in ("nan", "<NA>")  # NA has no truth value


def significant(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    if value == 0:
        return "0"
    value = float(f"{value:.2e}")  # 0.9996 has as many digits as 1.00
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(digits, 0)}f}"


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    for size, unit in units:
        # 0.9995 of a unit would print as "1000" of the next smaller one
        if abs(value) >= 0.9995 * size or size == 1.0:
            return f"{significant(value / size)} {unit}"
    raise AssertionError("the last unit takes everything")


def time(ns: float | None) -> str:
    """1234567 -> "1.23 ms"."""
    return _scaled(float(ns), _TIMES) if _known(ns) else UNKNOWN


def times(mean: float | None, low: float | None, high: float | None) -> str:
    """Three times in ns with one unit: "50.0 (45.0 .. 55.0) ms"."""
    if not (_known(mean) and _known(low) and _known(high)):
        return UNKNOWN
    scale, unit = time_unit(float(mean))
    middle, least, most = (significant(float(value) / scale) for value in (mean, low, high))
    return f"{middle} ({least} .. {most}) {unit}"


def size(value: float | None) -> str:
    """12345678 -> "12.3 MB" (powers of 1000, as link rates are)."""
    return _scaled(float(value), _BYTES) if _known(value) else UNKNOWN


def rate(value: float | None) -> str:
    """A rate as text, such as 9.63 Mbit/s."""
    if not _known(value):
        return UNKNOWN
    return _scaled(float(value), _RATES) if value else "0"


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


def ratio(value: float | None) -> str:
    """1.4 -> "1.400"."""
    return f"{float(value):.3f}" if _known(value) else UNKNOWN


def time_unit(longest_ns: float) -> tuple[float, str]:
    """(ns per unit, its name) for an axis that reaches to `longest_ns`."""
    for scale, unit in _TIMES:
        if longest_ns >= scale:
            return scale, unit
    return _TIMES[-1]


def size_unit(largest: float) -> tuple[float, str]:
    """(bytes per unit, its name) for an axis that reaches to `largest` bytes."""
    return next((each for each in _BYTES if largest >= each[0]), _BYTES[-1])
