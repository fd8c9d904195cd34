"""Low-pass filters and random early detection (`Lpf`, `Wred`) of TNA to C.

A filter has a value for each index, which samples move. What the control plane sets of it, and the
value itself, are registers behind the filter's name (`filter.gain_ns`), one element per index; so
every command for registers is one for filters, too. The index of a direct filter is the number of
its table's entry.
"""

from __future__ import annotations

from collections.abc import Callable

from p4engine.architectures.tna.arrays import ArrayEmitter
from p4engine.architectures.tna.declarations import add_register
from p4engine.backend.c_text import mask
from p4engine.backend.emit_architecture import Parts
from p4engine.frontend import ast
from p4engine.frontend.types import Bits, Type, underlying, width_of
from p4engine.middle.instantiate import ExternInstance, Instances, TableInstance

# Registers with their widths. Times are in ns; the value is in units of 2^-32.
VALUE = {"value": 64, "time_ns": 64}
SETTINGS = {
    "Lpf": {"gain_ns": 64, "decay_ns": 64, "rate": 8, "scale_down": 8},
    "Wred": {"time_constant_ns": 64, "min": 32, "max": 32, "probability": 32},
}
DIRECT = ("DirectLpf", "DirectWred")


def registers_of(made: ExternInstance) -> dict[str, int]:
    """The registers of a filter with their widths."""
    return {**VALUE, **SETTINGS[made.type.decl.name.removeprefix("Direct")]}


def add_registers(made: ExternInstance, instances: Instances, size: int) -> None:
    """Make the registers of a filter."""
    for name, width in registers_of(made).items():
        own = f"{made.name}.{name}"
        made.arguments[name] = add_register(instances, own, width, size, made.place)


def add_direct_registers(instances: Instances, pipes: int) -> None:
    """Make the registers of the filters that tables name, and report tables that cannot."""
    for table in instances.tables:
        given = table.decl.properties.get("filters")
        if given is None:
            continue
        made, place = instances.property_extern(table.block, given), given.value.place
        if made is None or made.kind not in DIRECT:
            instances.diagnostics.error(place, f"filters needs a {' or a '.join(DIRECT)}")
        elif table.profile is not None or not table.size:
            what = "no action profile" if table.size else "a size"
            instances.diagnostics.error(place, f"a table with filters needs {what}")
        else:
            made.arguments["table"] = table
            add_registers(made, instances, table.size * pipes)


class FilterEmitter:
    """`functions` has the externs' C by their P4 names."""

    def __init__(self, parts: Parts, arrays: ArrayEmitter) -> None:
        self.context, self.expressions, self.arrays = parts.context, parts.expressions, arrays
        self.functions: dict[str, Callable[..., str | None]] = {
            "Lpf.execute": self._low_pass,
            "Wred.execute": self._early_drop,
            "DirectLpf.execute": self._low_pass,
            "DirectWred.execute": self._early_drop,
        }

    def _low_pass(
        self, call: ast.MethodCall, sample: ast.Expr, index: ast.Expr | None = None
    ) -> str:
        _, cells, inside, value = self._filtered(
            call, sample, index, ("gain_ns", "decay_ns", "rate")
        )
        width = self._width(call, call.type)
        text = f"{value} >> 32 >> ({cells['scale_down']} & 31)"
        return self.context.temp(call.type, f"{inside} ? ({text}) & {mask(width)} : 0")

    def _early_drop(
        self, call: ast.MethodCall, sample: ast.Expr, index: ast.Expr | None = None
    ) -> str:
        made, cells, inside, value = self._filtered(
            call, sample, index, ("time_constant_ns", "time_constant_ns", "0")
        )
        drop, keep = (made.arguments[name] for name in ("drop_value", "no_drop_value"))
        text = (
            f"{inside} && tna_early_drop(I, {value}, {cells['min']}, {cells['max']},"
            f" {cells['probability']})"
        )
        return self.context.temp(call.type, f"{text} ? {drop} : {keep}")

    def _entry(self, call: ast.MethodCall, made: ExternInstance) -> str:
        """C of the number of the entry whose action is written; too large for a default action."""
        applied, table = self.context.applied, made.arguments.get("table")
        if applied is None or not isinstance(table, TableInstance) or table.number != applied.table:
            raise self.context.fatal(
                call.place, "a direct filter can only be executed in an action of its table"
            )
        return self.context.temp_c("uint64_t", f"(uint32_t){applied.entry}->handle")

    def _filtered(
        self,
        call: ast.MethodCall,
        sample: ast.Expr,
        index: ast.Expr | None,
        how: tuple[str, str, str],
    ) -> tuple[ExternInstance, dict[str, str], str, str]:
        """Write a sample's arrival; returns the filter, C lvalues of its registers' elements, a C
        condition that there are such, and the C variable with the value."""
        context, made = self.context, self.context.extern(call)
        self._width(call, sample.type)
        x = context.temp_c("uint32_t", self.expressions.small(sample))
        at = self._entry(call, made) if index is None else self.arrays.index(index)
        cells, inside = {}, "1"
        for name in registers_of(made):
            register = made.arguments[name]
            assert isinstance(register, ExternInstance)
            cells[name], inside = self.arrays.cell(register, at)
        gain, decay, rate = (cells.get(name, name) for name in how)
        run = (
            f"tna_filter(&{cells['value']}, &{cells['time_ns']}, P->base.now_ns, {x}, {gain},"
            f" {decay}, {rate})"
        )
        value = context.temp_c("uint64_t", f"{inside} ? {run} : 0")
        return made, cells, inside, value

    def _width(self, call: ast.MethodCall, type_: Type) -> int:
        under = underlying(type_)
        width = width_of(under) or 0
        if not isinstance(under, Bits) or under.signed or width > 32:
            raise self.context.fatal(
                call.place, f"{call.extern.name} takes unsigned numbers up to 32 bits"
            )
        return width
