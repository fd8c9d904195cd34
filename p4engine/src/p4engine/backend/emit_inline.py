"""Bodies of actions, functions, controls and parsers, written where they are called.

Parameters are bound to the caller's variables where no alias can be seen, else copied in and out.
P4 has no recursion, so this ends; and the C compiler sees one straight function per pipeline stage
with plain local variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from p4engine.backend.c_text import zero
from p4engine.backend.context import Context, Frame
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_left import LeftEmitter, root
from p4engine.backend.emit_stmt import StatementEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import INT, VOID, Bits, ExternType, has_header, is_header
from p4engine.middle.instantiate import BlockInstance

Root = tuple[object, tuple[str, ...]]  # the declaration and path of a left value


class InlineEmitter:
    """Binds arguments and writes a callee's body."""

    def __init__(
        self,
        context: Context,
        composites: CompositeEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
        statements: StatementEmitter,
    ) -> None:
        self.context, self.composites = context, composites
        self.left, self.expressions, self.statements = left, expressions, statements

    def action(self, decl: ast.Action, arguments: ast.Bound) -> None:
        """Write the body of an action."""
        self.body(arguments, lambda: self._statements(decl.body.statements), may_alias=True)

    def function(self, call: ast.FunctionCall) -> str | None:
        """Write the body of a function; returns the C variable of its result."""
        result = None
        if call.decl.type != VOID:
            result = self.context.temp(call.type, zero(call.type))
        nodes = call.decl.statements
        last = nodes[-1] if nodes else None
        self.body(call.arguments, lambda: self._statements(nodes), returns=result, last=last)
        return result

    def control_body(self, block: BlockInstance) -> None:
        """Write the locals and the apply block of a control instance."""
        decl = block.decl
        assert isinstance(decl, ast.Control)
        with self.context.within(block):
            nodes = [d for d in decl.locals if isinstance(d, ast.Variable)]
            self._statements([*nodes, *decl.statements])

    def _statements(self, nodes: Sequence[ast.Node]) -> None:
        made = self.statements.statements(nodes)
        self.context.out += made

    def body(
        self,
        arguments: ast.Bound,
        write: Callable[[], None],
        *,
        may_alias: bool = False,
        returns: str | None = None,
        last: ast.Node | None = None,
    ) -> None:
        """Bind the arguments, write the callee by `write()`, copy results out; exits copy out too.

        `may_alias`: the callee can name the caller's variables itself, as actions can. `returns`:
        the variable of its result; `last`: the last statement of a function.
        """
        context = self.context
        with context.capture() as made:
            caller, temps = context.frame, context.temps
            copy_out, bound = self._bind(arguments, may_alias)
            context.names.update(bound)
            self._bind_externs(arguments)
            context.depth += 1
            callee = Frame(context.fresh("done"), caller.exit_label, returns, last)
            if copy_out and caller.exit_label is not None:
                callee.exit_label = context.fresh("leave")
            context.frame, context.temps = callee, 0
            write()
            context.depth -= 1
            context.frame, context.temps = caller, temps
            if callee.return_label in context.used_labels:
                context.out.append(f"{callee.return_label}:;")
            context.out += copy_out
            leave = callee.exit_label
            if leave != caller.exit_label and leave in context.used_labels:
                after = context.fresh("after")
                context.out.append(f"goto {after};")
                context.out.append(f"{leave}:;")
                context.out += copy_out
                context.out.append(context.goto(caller.exit_label))
                context.out.append(f"{after}:;")
        context.out.append("{ " + "\n".join(made) + " }")

    def _bind(self, arguments: ast.Bound, may_alias: bool) -> tuple[list[str], dict[int, str]]:
        """Give each parameter its C variable; returns the statements that copy results out, and
        the variables by id(parameter), which are kept apart from the names known so far because an
        argument may call the same function. With `may_alias` nothing is passed by reference except
        externs and packets."""
        context = self.context
        copy_out: list[str] = []
        bound: dict[int, str] = {}
        roots = [root(v) if v is not None and p.direction else None for p, v in arguments]
        for i, (parameter, value) in enumerate(arguments):
            type_ = parameter.type
            if isinstance(type_, ExternType):
                continue
            if type_ == INT and value is not None:
                context.constants[id(parameter)] = self.expressions.known(value)
                continue
            if value is not None and value.type == INT and isinstance(type_, Bits):
                value.type = type_
            actual = type_ if value is None else value.type
            name = f"{parameter.name}_{context.depth + 1}p"
            if value is None:
                context.out.append(f"{context.layout.c_type(actual)} {name} = {zero(actual)};")
                bound[id(parameter)] = name
                continue
            # A copy of an invalid header does not have its fields, so a header is always copied.
            by_copy = may_alias or (parameter.direction == "in" and is_header(actual))
            direct = parameter.direction and not by_copy and context.is_path(value)
            if direct and not _overlaps(i, roots, arguments):
                text = self.left.left(value)
                if parameter.direction == "out":
                    self.composites.clear(text, actual)
                bound[id(parameter)] = text
                continue
            if parameter.direction in ("out", "inout"):
                value = self.left.fixed(value)
            c = context.layout.c_type(actual)
            if parameter.direction == "out":
                context.out.append(f"{c} {name} = {zero(actual)};")
            elif has_header(actual):
                text = self.expressions.value(value)
                context.out.append(f"{c} {name} = {zero(actual)};")
                self.composites.copy(name, text, actual)
            else:
                text = self.expressions.value(value)
                context.out.append(f"{c} {name} = {text};")
            bound[id(parameter)] = name
            if parameter.direction in ("out", "inout"):
                with context.capture() as made:
                    self.left.store(value, name)
                copy_out += made
        return copy_out, bound

    def _bind_externs(self, arguments: ast.Bound) -> None:
        """Let the callee's extern parameters stand for the caller's instances and packets."""
        context = self.context
        for parameter, value in arguments:
            if isinstance(parameter.type, ExternType):
                decl = getattr(value, "decl", None)
                context.names[id(parameter)] = context.names.get(id(decl), "")
                context.extern_arguments[id(parameter)] = value


def _overlaps(i: int, roots: list[Root | None], arguments: ast.Bound) -> bool:
    """True if argument `i` overlaps with another one, and one of the two is written."""
    this = roots[i]
    assert this is not None
    decl, path = this
    writes = arguments[i][0].direction in ("out", "inout")
    for j, other in enumerate(roots):
        if j == i or other is None or other[0] is not decl:
            continue
        if not writes and arguments[j][0].direction == "in":
            continue
        n = min(len(path), len(other[1]))
        if all(a == b or "*" in (a, b) for a, b in zip(path[:n], other[1][:n], strict=True)):
            return True
    return False
