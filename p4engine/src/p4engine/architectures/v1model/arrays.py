"""Registers, counters, meters and random numbers to C."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.emit_architecture import Parts
from p4engine.backend.emit_expr import has_effect
from p4engine.backend.emit_table import direct_meter
from p4engine.frontend import ast
from p4engine.middle.records import CACHE_LINE


class ArrayEmitter:
    """Emitter of externs with numbered elements. `functions` has the externs' C by their P4
    names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.left, self.expressions = parts.context, parts.left, parts.expressions
        self.functions: dict[str, Callable[..., str | None]] = {
            "register.read": self._register_read,
            "register.write": self._register_write,
            "counter.count": self._counter_count,
            "direct_counter.count": self._direct_counter_count,
            "meter.execute_meter": self._execute_meter,
            "direct_meter.read": self._direct_meter_read,
            "random": self._random,
        }

    def _array_index(self, index: ast.Expr) -> str:
        text = self.expressions.small(index)
        return self.context.temp_c("uint64_t", text) if "(" in text else text

    def _register_read(self, call: ast.MethodCall, result: ast.Expr, index: ast.Expr) -> None:
        context = self.context
        register = context.extern(call)
        group, member, _, _, width = context.records.access[register.number]
        size = register.size
        context.used_records.add(group)
        at = self._array_index(index)
        if group not in context.prefetched and context.records.groups[group][0] > CACHE_LINE:
            context.prefetched.add(group)
            context.out.append(f"P4_PREFETCH_BEHIND(R{group}, {at}, {size});")
        if width > 128:
            name = context.temp(register.type.arguments[0], "{{0}}")
            context.out.append(f"if (P4_IN({at}, {size})) {name} = R{group}[{at}].{member};")
            self.left.store(result, name)
            return
        # Outside of the register BMv2 leaves the destination alone.
        old = self.left.left(result) if context.is_path(result) else "0"
        self.left.store(result, f"(P4_IN({at}, {size}) ? R{group}[{at}].{member} : {old})")

    def _register_write(self, call: ast.MethodCall, index: ast.Expr, value: ast.Expr) -> None:
        context = self.context
        register = context.extern(call)
        group, member, _, _, _ = context.records.access[register.number]
        size = register.size
        context.used_records.add(group)
        if has_effect(index) or has_effect(value):
            at = context.temp_c("uint64_t", self.expressions.small(index))
        else:
            at = self._array_index(index)
        text = self.expressions.value(value)
        context.out.append(f"if (P4_IN({at}, {size})) R{group}[{at}].{member} = {text};")

    def _counter_count(self, call: ast.MethodCall, index: ast.Expr) -> None:
        counter, at = self.context.extern(call), self.expressions.small(index)
        self.context.out.append(
            f"p4_counter_add(&I->counters[{counter.number}], {at}, P->base.length);"
        )

    def _direct_counter_count(self, call: ast.MethodCall) -> None:
        """BMv2 counts at every hit of the table, so there is nothing left to do."""

    def _execute_meter(self, call: ast.MethodCall, index: ast.Expr, result: ast.Expr) -> None:
        meter, at = self.context.extern(call), self.expressions.small(index)
        colour = self.context.temp_c(
            "uint32_t",
            f"p4_meter_run(&I->meters[{meter.number}], {at}, P->base.length, P->base.now_ns)",
        )
        self.left.store_number(result, colour)

    def _direct_meter_read(self, call: ast.MethodCall, result: ast.Expr) -> None:
        applied = self.context.applied
        if applied is None:
            raise self.context.fatal(
                call.place, "a direct meter can only be read in an action of its table"
            )
        if not applied.meter_stored:
            colour = self.context.temp_c("uint32_t", "0")
            run = direct_meter(applied.table, applied.entry)
            self.context.out.append(f"if ({applied.hit}) {colour} = {run};")
            self.left.store_number(result, colour)

    def _random(
        self, call: ast.ExternCall, result: ast.Expr, low: ast.Expr, high: ast.Expr
    ) -> None:
        for bound in (low, high):
            self.left.number_type(bound)
        a = self.context.temp_c("uint64_t", self.expressions.small(low))
        b = self.context.temp_c("uint64_t", self.expressions.small(high))
        value = self.context.temp_c("uint64_t", f"p4_random(I, {a}, {b})")
        self.left.store_number(result, value, 64)
