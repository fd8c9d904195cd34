"""Calls of externs to C: those of core.p4, and who writes the architecture's."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from p4engine.backend.c_text import zero
from p4engine.backend.context import Context
from p4engine.backend.emit_architecture import Functions
from p4engine.backend.emit_expr import ExpressionEmitter, has_effect
from p4engine.backend.emit_packet import PacketEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import VOID, substitute


class ExternEmitter:
    """Calls of extern functions ("name") and methods ("type.name")."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionEmitter,
        packets: PacketEmitter,
        functions: Functions,
    ) -> None:
        """`functions` are the architecture's."""
        self.context, self.expressions = context, expressions
        self.packets = packets
        self._source = f"{context.instances.architecture.name}.p4"
        self._functions: dict[str, Callable[..., str | None]] = {
            "packet_in.extract": self._extract,
            "packet_in.lookahead": self._lookahead,
            "packet_in.advance": packets.advance,
            "packet_in.length": self._length,
            "packet_out.emit": self._emit,
            "verify": self._verify,
            "static_assert": self._static_assert,
            **functions,
        }

    def function_call(self, call: ast.ExternCall) -> str | None:
        """Write the call of an extern function; returns the C expression of its value."""
        name = call.decl.name
        if name not in self._functions:
            known = ", ".join(sorted(n for n in self._functions if "." not in n))
            raise self.context.fatal(
                call.place,
                f"extern function {name} is not one of core.p4 or {self._source}. This switch has"
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
                f"{name} is not supported"
                + (f"; of {self._source}, this switch has {known}" if known else ""),
            )
        return self._write(call, name)

    def _write(self, call: ast.ExternCall, name: str) -> str | None:
        write = self._functions[name]
        arguments = [self._argument(call, p, value) for p, value in call.arguments]
        try:
            signature(write).bind(call, *arguments)
        except TypeError:
            raise self.context.fatal(
                call.place, f"{name} is declared with other parameters than those of {self._source}"
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
        if type_ == VOID:  # a result that the instance does not have
            return None
        name = self.context.temp(type_, zero(type_))
        return self.context.variable(call.place, "_", type_, name)

    # ---- packets ----

    def _extract(
        self, call: ast.MethodCall, header: ast.Expr, bits: ast.Expr | None = None
    ) -> None:
        self.packets.extract(call, header, bits)

    def _lookahead(self, call: ast.MethodCall) -> str:
        return self.packets.lookahead(call.type)

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
