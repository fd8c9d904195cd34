"""Quantities as people read them: three significant digits and a unit; "-" for what is unknown."""

from __future__ import annotations

import math

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
UNKNOWN = "-"


def _unknown(value: object) -> bool:
    return value is None or str(value) in ("nan", "<NA>")  # NA has no truth value to ask for


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
    return UNKNOWN if _unknown(ns) else _scaled(float(ns), _TIMES)


def times(mean: float | None, low: float | None, high: float | None) -> str:
    """Three times in ns with one unit: "50.0 (45.0 .. 55.0) ms"."""
    if _unknown(mean) or _unknown(low) or _unknown(high):
        return UNKNOWN
    scale, unit = time_unit(float(mean))
    mean, low, high = (significant(float(value) / scale) for value in (mean, low, high))
    return f"{mean} ({low} .. {high}) {unit}"


def size(value: float | None) -> str:
    """12345678 -> "12.3 MB" (powers of 1000, as link rates are)."""
    return UNKNOWN if _unknown(value) else _scaled(float(value), _BYTES)


def share(value: float | None) -> str:
    """0.1234 -> "12.3 %"."""
    return UNKNOWN if _unknown(value) else f"{100 * float(value):.1f} %"


def number(value: float | None) -> str:
    """1234567 -> "1 234 567" (gaps for the thousands); fractions get three digits."""
    if _unknown(value):
        return UNKNOWN
    if float(value) == int(value):
        return f"{int(value):,}".replace(",", " ")
    return (
        f"{float(value):,.0f}".replace(",", " ")
        if abs(value) >= 1000
        else significant(float(value))
    )


def ratio(value: float | None) -> str:
    """1.4 -> "1.400"."""
    return UNKNOWN if _unknown(value) else f"{float(value):.3f}"


def time_unit(longest_ns: float) -> tuple[float, str]:
    """(ns per unit, its name) for an axis that reaches to `longest_ns`."""
    for scale, unit in _TIMES:
        if longest_ns >= scale:
            return scale, unit
    return _TIMES[-1]


def size_unit(largest: float) -> tuple[float, str]:
    """(bytes per unit, its name) for an axis that reaches to `largest` bytes."""
    return next((each for each in _BYTES if largest >= each[0]), _BYTES[-1])
