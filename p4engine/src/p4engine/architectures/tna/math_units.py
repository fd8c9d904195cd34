"""Math units: functions of one number, which registers' arithmetic takes from a table of bytes.

A number x is about i / 8 * 2^e, where e is the place of its highest bit and i the four bits from
there on. The unit gives table[i], moved by an exponent that follows from e. For square roots e is
rounded up to an even number, so that i is at least 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from p4engine.backend.c_text import mask
from p4engine.backend.emit_architecture import Parts
from p4engine.frontend import ast
from p4engine.frontend.ast import Symbol
from p4engine.frontend.types import Bits, underlying
from p4engine.middle.instantiate import ExternInstance

SHIFTS, SCALES = (-1, 0, 1), (-32, 31)
# (invert, shift) of the exponent, by the operation.
OPERATIONS = {
    "MUL": (False, 0),
    "SQR": (False, 1),
    "SQRT": (False, -1),
    "DIV": (True, 0),
    "RSQR": (True, 1),
    "RSQRT": (True, -1),
}


@dataclass(frozen=True)
class MathUnit:
    """Change of the exponent (`invert`, `shift`: -1 halves it, 1 doubles it, `scale` is added)
    and what is moved by it."""

    invert: bool
    shift: int
    scale: int
    table: tuple[int, ...]


def math_unit(made: ExternInstance) -> MathUnit | str:
    """The unit that a constructor describes, or what is wrong with it."""
    given = made.arguments
    if "data" in given:
        entries = given["data"]
        assert isinstance(entries, list)
        table = tuple(int(each) for each in reversed(entries) if isinstance(each, int))
        invert, shift, scale = (given[name] for name in ("invert", "shift", "scale"))
        assert isinstance(shift, int) and isinstance(scale, int)
        if shift not in SHIFTS:
            return f"the shift of a MathUnit is -1, 0 or 1, not {shift}"
        return MathUnit(bool(invert), shift, scale, table)
    operation = given["op"]
    assert isinstance(operation, Symbol)
    numbers = [given[name] for name in ("factor", "A", "B") if name in given]
    if not all(isinstance(n, int) and n > 0 for n in numbers):
        return "the factors of a MathUnit must be positive"
    top, *bottom = (n for n in numbers if isinstance(n, int))
    return _of_operation(operation.name, top / bottom[0] if bottom else top)


def _of_operation(name: str, factor: float) -> MathUnit:
    """factor * f(x), with the largest table whose entries fit into bytes."""
    invert, shift = OPERATIONS[name]

    def value(x: float) -> float:
        power = math.sqrt(x) if shift < 0 else x * x if shift else x
        return factor / power if invert else factor * power

    first = 4 if shift < 0 else 8
    values = [0.0] * first + [value(i / 8) for i in range(first, 16)]
    scale = math.frexp(max(values))[1] - 8
    scale = max(SCALES[0], min(SCALES[1], scale))
    return MathUnit(
        invert, shift, scale, tuple(min(255, round(math.ldexp(v, -scale))) for v in values)
    )


class MathEmitter:
    """Calls of math units. `functions` has the externs' C by their P4 names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.expressions = parts.context, parts.expressions
        self.functions: dict[str, Callable[..., str | None]] = {"MathUnit.execute": self._execute}

    def _execute(self, call: ast.MethodCall, x: ast.Expr) -> str:
        made = self.context.extern(call)
        under = underlying(call.type)
        if not isinstance(under, Bits) or under.width > 32:
            raise self.context.fatal(call.place, "a MathUnit is for numbers up to 32 bits")
        unit = math_unit(made)
        if isinstance(unit, str):
            raise self.context.fatal(made.place, unit)
        c_type = self.context.layout.c_type(under)
        text = (
            f"tna_math((const uint8_t[16]){{{', '.join(map(str, unit.table))}}},"
            f" {int(unit.invert)}, {unit.shift}, {unit.scale},"
            f" (uint32_t)({self.expressions.small(x)}) & {mask(under.width)})"
        )
        return self.context.temp(call.type, f"({c_type})({text} & {mask(under.width)})")
