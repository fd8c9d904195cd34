"""Calls to C: which part writes a call, and the methods of headers and stacks."""

from __future__ import annotations

from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter, composite
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_extern import ExternEmitter
from p4engine.backend.emit_inline import InlineEmitter
from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_parser import ParserEmitter
from p4engine.backend.emit_table import TableEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import Special, is_union
from p4engine.middle.instantiate import BlockInstance


class CallEmitter:
    """Calls of every kind."""

    def __init__(
        self,
        context: Context,
        composites: CompositeEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
        inline: InlineEmitter,
        tables: TableEmitter,
        parsers: ParserEmitter,
        externs: ExternEmitter,
    ) -> None:
        self.context, self.composites = context, composites
        self.left, self.expressions = left, expressions
        self.inline, self.tables, self.parsers, self.externs = inline, tables, parsers, externs

    def call(self, e: ast.Call) -> str | None:
        """Write a call; returns the C expression of its value, if it has one."""
        info = e.call
        if info is None:
            raise self.context.fatal(e.place, "this call is not supported here")
        if info.kind == "builtin":
            return self._builtin(e)
        if info.kind == "table":
            self.tables.apply(e)
            return None
        if info.kind == "action":
            self.context.trace.action_called(e)
            self.inline.action(info.decl, info.arguments)
            return None
        if info.kind == "function":
            return self.inline.function(e)
        if info.kind == "apply":
            self.context.trace.block_entered(e)
            self._apply(e)
            return None
        if info.kind == "extern":
            return self.externs.function_call(e)
        if info.kind == "method":
            return self.externs.method_call(e)
        raise self.context.fatal(e.place, "an instance cannot be made here")

    def apply_table(self, e: ast.Call) -> tuple[str, str]:
        """Write the application of a table; returns C expressions of hit and of the action's
        number."""
        return self.tables.apply(e)

    # ---- headers and stacks ----

    def _builtin(self, e: ast.Call) -> str | None:
        receiver, name = e.call.receiver, e.call.name
        if name == "isValid":
            return self._is_valid(receiver)
        base = self.left.left(receiver)
        if name == "setValid":
            self.composites.set_valid(base, receiver.type)
            if isinstance(receiver, ast.Member) and is_union(receiver.base.type):
                self.left.only_valid(receiver, base)
        elif name == "setInvalid":
            if is_union(receiver.type):
                self.composites.invalidate(base, receiver.type)
            else:
                self.composites.set_invalid(base, receiver.type)
        else:
            stack, count = receiver.type, e.call.arguments[0][1].const
            push = name == "push_front"
            self.composites.shift_stack(base, stack, min(count, stack.size), push)
        self.context.trace.ran(e.place)
        return None

    def _is_valid(self, e: ast.Expr) -> str:
        is_path = self.context.is_path(e)
        base = self.left.left(e) if is_path else self.expressions.value(e)
        if is_union(e.type):
            return self.composites.any_valid(base, composite(e.type))
        return f"({base}.valid != 0)"

    # ---- parsers and controls ----

    def _apply(self, e: ast.Call) -> None:
        info = e.call
        block = self._applied_block(e)
        if isinstance(info.decl, ast.Parser):
            self.inline.body(info.arguments, lambda: self.parsers.body(block))
        else:
            self.inline.body(info.arguments, lambda: self.inline.control_body(block))

    def _applied_block(self, e: ast.Call) -> BlockInstance:
        receiver = e.call.receiver
        if receiver is None or isinstance(receiver.type, Special):
            return self.context.instances.apply_direct(e.call.decl, self.context.block)
        block = self.context.find_instance(receiver)
        if not isinstance(block, BlockInstance):
            raise self.context.fatal(e.place, "this instance cannot be found")
        return block
