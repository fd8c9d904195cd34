"""The externs of core.p4 and v1model.p4 to C: which part writes which, and those that concern
packets, registers, counters and meters.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from p4engine.backend.c_text import zero
from p4engine.backend.context import Context
from p4engine.backend.emit_expr import ExpressionEmitter, has_effect
from p4engine.backend.emit_hash import HashEmitter
from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_packet import PacketEmitter
from p4engine.backend.emit_request import RequestEmitter
from p4engine.backend.emit_table import direct_meter
from p4engine.frontend import ast
from p4engine.frontend.types import substitute


class ExternEmitter:
    """Calls of extern functions ("name") and methods ("type.name")."""

    def __init__(
        self,
        context: Context,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
        packets: PacketEmitter,
        hashes: HashEmitter,
        requests: RequestEmitter,
    ) -> None:
        self.context, self.left, self.expressions = context, left, expressions
        self.packets = packets
        self._functions: dict[str, Callable[..., str | None]] = {
            "packet_in.extract": self._extract,
            "packet_in.lookahead": self._lookahead,
            "packet_in.advance": self._advance,
            "packet_in.length": self._length,
            "packet_out.emit": self._emit,
            "verify": self._verify,
            "static_assert": self._static_assert,
            "register.read": self._register_read,
            "register.write": self._register_write,
            "counter.count": self._counter_count,
            "direct_counter.count": self._direct_counter_count,
            "meter.execute_meter": self._execute_meter,
            "direct_meter.read": self._direct_meter_read,
            "random": self._random,
            **hashes.functions,
            **requests.functions,
        }

    def function_call(self, call: ast.ExternCall) -> str | None:
        """Write the call of an extern function; returns the C expression of its value."""
        name = call.decl.name
        if name not in self._functions:
            known = ", ".join(sorted(n for n in self._functions if "." not in n))
            raise self.context.fatal(
                call.place,
                f"extern function {name} is not one of core.p4 or v1model.p4. This switch has"
                f" {known}",
            )
        return self._write(call, name)

    def method_call(self, call: ast.MethodCall) -> str | None:
        """Write the call of a method of an extern; returns the C expression of its value."""
        name = f"{call.extern.name}.{call.decl.name}"
        if name not in self._functions:
            known = ", ".join(n for n in self._functions if n.startswith(f"{call.extern.name}."))
            raise self.context.fatal(
                call.place,
                f"{name} is not a method of core.p4 or v1model.p4"
                + (f". This switch has {known}" if known else ""),
            )
        return self._write(call, name)

    def _write(self, call: ast.ExternCall, name: str) -> str | None:
        write = self._functions[name]
        arguments = [self._argument(call, p, value) for p, value in call.arguments]
        try:
            signature(write).bind(call, *arguments)
        except TypeError:
            raise self.context.fatal(
                call.place, f"{name} is declared with other parameters than those of v1model.p4"
            ) from None
        with self.context.trace.extern_called(call):
            return write(call, *arguments)

    def _argument(
        self, call: ast.ExternCall, parameter: ast.Parameter, value: ast.Expr | None
    ) -> ast.Expr | None:
        """An argument; for `_`, a variable that nobody reads."""
        if value is not None or parameter.direction != "out":
            return value
        type_ = substitute(parameter.type, call.bindings)
        name = self.context.temp(type_, zero(type_))
        return self.context.variable(call.place, "_", type_, name)

    # ---- packets ----

    def _extract(
        self, call: ast.MethodCall, header: ast.Expr, bits: ast.Expr | None = None
    ) -> None:
        self.packets.extract(call, header, bits)

    def _lookahead(self, call: ast.MethodCall) -> str:
        return self.packets.lookahead(call.type)

    def _advance(self, call: ast.MethodCall, bits: ast.Expr) -> None:
        context = self.context
        amount = context.temp_c("uint64_t", self.expressions.small(bits))
        error = context.parser_error("ParserInvalidArgument")
        context.out.append(f"if ({amount} % 8) {{ {error} }}")
        error = context.parser_error("PacketTooShort")
        context.out.append(f"if ((uint64_t)(end - p) < {amount} / 8) {{ {error} }}")
        context.out.append(f"p += {amount} / 8;")

    def _length(self, call: ast.MethodCall) -> str:
        return "P->base.length"

    def _emit(self, call: ast.MethodCall, what: ast.Expr) -> None:
        self.packets.emit(what)

    def _verify(self, call: ast.ExternCall, check: ast.Expr, error: ast.Expr) -> None:
        context = self.context
        if context.frame.exit_label is not None:
            raise context.fatal(call.place, "verify can only be used in a parser")
        condition = self.expressions.value(check)
        if has_effect(error) and check.const is None:
            condition = context.temp(check.type, condition)
        condition = context.trace.decided(call.place, condition)
        number = self.expressions.value(error)
        with context.capture() as failed:
            context.trace.verify_failed(call.place, number)
            failed.append(f"P->base.std.parser_error = {number};")
            failed.append(context.goto("reject"))
        context.out.append(f"if (!({condition})) {{ {' '.join(failed)} }}")

    def _static_assert(self, call: ast.ExternCall, *_: ast.Expr) -> str:
        return "1"

    # ---- registers, counters, meters ----

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
