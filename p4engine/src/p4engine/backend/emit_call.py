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
from p4engine.frontend.diagnostics import InternalError
from p4engine.frontend.types import Stack, is_union
from p4engine.middle.instantiate import BlockInstance, known_number


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
        if isinstance(info, ast.BuiltinCall):
            return self._builtin(info)
        if isinstance(info, ast.FunctionCall):
            return self.inline.function(info)
        if isinstance(info, ast.MethodCall):
            return self.externs.method_call(info)
        if isinstance(info, ast.ExternCall):
            return self.externs.function_call(info)
        if isinstance(info, ast.TableCall):
            self.tables.apply(info)
        elif isinstance(info, ast.ActionCall):
            self.context.trace.action_called(info)
            self.inline.action(info.decl, info.arguments)
        elif isinstance(info, ast.BlockCall):
            self.context.trace.block_entered(info)
            self._apply(info)
        else:
            raise self.context.fatal(e.place, "an instance cannot be made here")
        return None

    def apply_table(self, e: ast.Expr) -> tuple[str, str]:
        """Write the application of a table; returns C expressions of hit and of the action's
        number."""
        if not isinstance(e, ast.Call) or not isinstance(e.call, ast.TableCall):
            raise InternalError("this applies no table")
        return self.tables.apply(e.call)

    # ---- headers and stacks ----

    def _builtin(self, call: ast.BuiltinCall) -> str | None:
        receiver, name = call.receiver, call.name
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
            stack = receiver.type
            assert isinstance(stack, Stack) and call.count is not None
            count = known_number(self.expressions.known(call.count))
            if count < 0:
                raise self.context.fatal(call.place, "the number of elements cannot be negative")
            push = name == "push_front"
            self.composites.shift_stack(base, stack, min(count, stack.size), push)
        self.context.trace.ran(call.place)
        return None

    def _is_valid(self, e: ast.Expr) -> str:
        is_path = self.context.is_path(e)
        base = self.left.left(e) if is_path else self.expressions.value(e)
        if is_union(e.type):
            return self.composites.any_valid(base, composite(e.type))
        return f"({base}.valid != 0)"

    # ---- parsers and controls ----

    def _apply(self, call: ast.BlockCall) -> None:
        block = self._applied_block(call)
        is_parser = isinstance(block.decl, ast.Parser)
        write = self.parsers.body if is_parser else self.inline.control_body
        # What is called may be a type; the instance then has parameters of its own.
        values = [value for _, value in call.arguments]
        arguments = list(zip(block.decl.parameters, values, strict=False))
        self.inline.body(arguments, lambda: write(block))

    def _applied_block(self, call: ast.BlockCall) -> BlockInstance:
        if call.receiver is None:
            return self.context.instances.apply_direct(call, self.context.block)
        block = self.context.find_instance(call.receiver)
        if not isinstance(block, BlockInstance):
            raise self.context.fatal(call.place, "this instance cannot be found")
        return block
