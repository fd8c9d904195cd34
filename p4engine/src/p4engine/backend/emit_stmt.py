"""Statements to C.

Names carry the depth of blocks and calls, so that no variable hides one that a callee written
inside its scope may mean.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from p4engine.backend.c_text import norm, zero
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_expr import Calls, ExpressionEmitter, has_effect
from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.reroll import reroll
from p4engine.frontend import ast
from p4engine.frontend.types import (
    Bits,
    Composite,
    Stack,
    has_header,
    is_header,
    underlying,
)

SHARED_LOCALS = 4  # so many variables of one integer type in a block share an array


class StatementEmitter:
    """Statements, and lists of them."""

    calls: Calls

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        composites: CompositeEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites
        self.left, self.expressions = left, expressions
        self._by_node: dict[type[ast.Node], Callable[[Any], None]] = {
            ast.Block: self._block,
            ast.Assign: self._assign,
            ast.CallStatement: self._call,
            ast.If: self._if,
            ast.Return: self._return,
            ast.Exit: self._exit,
            ast.Break: self._break,
            ast.Continue: self._continue,
            ast.For: self._for,
            ast.ForIn: self._for_in,
            ast.Switch: self._switch,
        }

    def connect(self, calls: Calls) -> None:
        """Statements contain calls, and calls the statements of what they call."""
        self.calls = calls

    # ---- lists of statements ----

    def statements(self, nodes: Sequence[ast.Node]) -> list[str]:
        """C statements of a P4 block; one string each, runs turned into loops."""
        with self.context.capture() as made:
            self.context.depth += 1
            self._declare_runs(nodes)
            for node in nodes:
                self.statement(node)
            result = reroll(made, self.context.depth)
            self.context.depth -= 1
        return result

    def _declare_runs(self, nodes: Sequence[ast.Node]) -> None:
        """Many variables of one integer type in a block share an array, as fields do."""
        by_type: dict[str, list[ast.Variable]] = {}
        for node in nodes:
            if isinstance(node, ast.Variable) and isinstance(underlying(node.type), Bits):
                by_type.setdefault(f"{underlying(node.type)}", []).append(node)
        for kind, variables in enumerate(by_type.values()):
            if len(variables) < SHARED_LOCALS:
                continue
            # The same in every call of a function, so that calls in a row become a loop.
            name = f"locals_{self.context.depth}_{kind}"
            c = self.context.layout.c_type(variables[0].type)
            self.context.out.append(f"{c} {name}[{len(variables)}];")
            for i, node in enumerate(variables):
                self.context.names[id(node)] = f"{name}[{i}]"

    def statement(self, s: ast.Node) -> None:
        """Append the C of one P4 statement, as a single string."""
        if isinstance(s, ast.Empty | ast.Constant):
            return
        context = self.context
        outer, temps = context.out, context.temps
        context.temps = 0
        with context.at(s.place), context.capture() as made:
            if isinstance(s, ast.Variable):
                self._variable(s, outer)
            else:
                self._by_node[type(s)](s)
        context.temps = temps
        if len(made) == 1:
            outer.append(made[0])
        elif made:
            outer.append("{ " + "\n".join(made) + " }")

    def body(self, s: ast.Node) -> str:
        """A branch or loop body as one C block."""
        nodes = s.statements if isinstance(s, ast.Block) else [s]
        return "{ " + "\n".join(self.statements(nodes)) + " }"

    # ---- variables and assignments ----

    def _variable(self, s: ast.Variable, outer: list[str]) -> None:
        context = self.context
        known = context.names.get(id(s), "")
        name = known if "locals_" in known else None
        c = context.layout.c_type(s.type)
        if name is None:
            name = f"{s.name}_{context.depth}v"
            if s.value is None:
                outer.append(f"{c} {name} = {zero(s.type)};")
                context.names[id(s)] = name
                return
            outer.append(f"{c} {name};")
        if s.value is None:
            context.out.append(f"{name} = {self._zero(s)};")
            return
        text = self.expressions.value(s.value)
        context.names[id(s)] = name
        if has_header(s.type):
            context.out.append(f"{name} = ({c}){zero(s.type)};")
            self.composites.copy(name, text, s.type)
        else:
            context.out.append(f"{name} = {text};")
        context.trace.declared(s, name)

    def _zero(self, s: ast.Variable) -> str:
        text = zero(s.type)
        return self.context.temp(s.type, text) if text.startswith("{") else text

    def _assign(self, s: ast.Assign) -> None:
        left, right = s.left, s.right
        if has_effect(left) and not self.context.is_path(left):
            left = self.left.fixed(left)
            if isinstance(right, ast.Binary) and right.left is s.left:  # left op= right
                right = copy.copy(right)
                right.left = left
        text = self.expressions.value(right)
        under = underlying(left.type)
        if isinstance(under, Composite | Stack) and not isinstance(right, ast.Name | ast.Member):
            text = self.composites.stable(text, under)
        if is_header(under) and isinstance(right, ast.ListExpr | ast.StructExpr):
            self.composites.set_valid(self.left.left(left), under)
        self.left.store(left, text)
        self.context.trace.assigned(s)

    def _call(self, s: ast.CallStatement) -> None:
        self.calls.call(s.call)

    # ---- branches ----

    def _block(self, s: ast.Block) -> None:
        self.context.out.append(self.body(s))

    def _if(self, s: ast.If) -> None:
        out = self.context.out
        if s.condition.const is not None:
            chosen = s.yes if s.condition.const else s.no
            if chosen is not None:
                out.append(self.body(chosen))
            return
        condition = self.context.trace.decided(s.place, self.expressions.value(s.condition))
        text = f"if ({condition}) {self.body(s.yes)}"
        if s.no is not None:
            text += f" else {self.body(s.no)}"
        out.append(text)

    def _switch(self, s: ast.Switch) -> None:
        value: ast.Expr = s.value
        names: dict[str, int] = {}
        if s.table is not None:
            assert isinstance(value, ast.Member)
            _, action = self.calls.apply_table(value.base)
            names = {ref.name: i for i, ref in enumerate(s.table.info.actions)}
        else:
            action = self.context.temp(value.type, self.expressions.value(value))
        chain, default = [], False
        for case in s.cases:
            if case.body is None:
                continue
            tests = []
            for label in case.labels:
                if isinstance(label, ast.DontCare):
                    default = True
                elif s.table is not None:
                    assert isinstance(label, ast.Name)
                    tests.append(f"{action} == {names[label.name]}")
                else:
                    text = self.expressions.value(label)
                    tests.append(self.composites.equal(action, text, value.type))
            if default:
                tests = ["1"]
            chain.append(f"if ({' || '.join(tests)}) {self.body(case.body)}")
        if chain:
            self.context.out.append("\nelse ".join(chain))

    # ---- jumps ----

    def _return(self, s: ast.Return) -> None:
        self.context.trace.ran(s.place)
        frame = self.context.frame
        if s.value is not None and frame.return_variable is not None:
            text = self.expressions.value(s.value)
            self.context.out.append(f"{frame.return_variable} = {text};")
        if s is not frame.last:
            self.context.out.append(self.context.goto(frame.return_label))

    def _exit(self, s: ast.Exit) -> None:
        self.context.trace.ran(s.place)
        self.context.out.append(self.context.goto(self.context.frame.exit_label))

    def _break(self, s: ast.Break) -> None:
        self.context.out.append(self.context.goto(self.context.frame.loop_labels[-1][0]))

    def _continue(self, s: ast.Continue) -> None:
        self.context.out.append(self.context.goto(self.context.frame.loop_labels[-1][1]))

    # ---- loops ----

    def _loop(self, head: str, body: ast.Node, tail: str, prepare: str = "") -> None:
        context = self.context
        labels = (context.fresh("break"), context.fresh("next"))
        context.frame.loop_labels.append(labels)
        inner = self.body(body)
        context.frame.loop_labels.pop()
        if labels[1] in context.used_labels:
            inner += f" {labels[1]}:;"
        context.out.append(f"{head} {{ {prepare} {inner} {tail} }}")
        if labels[0] in context.used_labels:
            context.out.append(f"{labels[0]}:;")

    def _for(self, s: ast.For) -> None:
        for node in s.init:
            self.statement(node)
        with self.context.capture() as test:
            condition = self.expressions.value(s.condition)
            test.append(f"if (!({condition})) break;")
        with self.context.capture() as update:
            for node in s.update:
                self.statement(node)
        self._loop("for (;;)", s.body, "\n".join(update), "\n".join(test))

    def _for_in(self, s: ast.ForIn) -> None:
        context = self.context
        name = f"{s.variable.name}_{context.depth}v"
        c = context.layout.c_type(s.variable.type)
        context.out.append(f"{c} {name} = {zero(s.variable.type)};")
        context.names[id(s.variable)] = name
        kind = s.collection.type
        if isinstance(s.collection, ast.Range):
            self._for_range(s.collection, s.body, name)
        elif isinstance(kind, Stack):
            source = context.temp(kind, self.expressions.value(s.collection))
            counter = context.temp_c("uint32_t", "0")
            head = f"for (; {counter} < {kind.size}; {counter}++)"
            self._loop(head, s.body, "", f"{name} = {source}.e[{counter}];")
        else:
            self._for_list(s, name)

    def _for_list(self, s: ast.ForIn, name: str) -> None:
        collection = s.collection
        if isinstance(collection, ast.Cast):  # (list<T>){ .. }
            collection = collection.operand
        if isinstance(collection, ast.ListExpr):
            items = collection.items
            texts = [self.context.temp(i.type, self.expressions.value(i)) for i in items]
        elif isinstance(s.collection.const, list):
            texts = [self.expressions.constant(v, s.variable.type) for v in s.collection.const]
        else:
            raise self.context.fatal(s.collection.place, "loops over this are not supported")
        counter = self.context.temp_c("uint32_t", "0")
        cases = " ".join(f"case {i}: {name} = {t}; break;" for i, t in enumerate(texts))
        head = f"for (; {counter} < {len(texts)}; {counter}++)"
        self._loop(head, s.body, "", f"switch ({counter}) {{ {cases} }}")

    def _for_range(self, collection: ast.Range, body: ast.Node, name: str) -> None:
        context = self.context
        under = underlying(collection.low.type)
        if not isinstance(under, Bits) or under.width > 64:
            raise context.fatal(
                collection.place, "loops over numbers above 64 bits are not supported"
            )
        low, high = self.expressions.in_order([collection.low, collection.high])
        if under.signed:
            low, high = f"P4_SX64({low}, {under.width})", f"P4_SX64({high}, {under.width})"
        c = "int64_t" if under.signed else "uint64_t"
        last = context.temp_c(c, high)
        counter = context.temp_c(c, low)
        more = context.temp_c("uint8_t", f"{counter} <= {last}")
        head = f"for (; {more}; {more} = {counter} < {last}, {counter}++)"
        self._loop(head, body, "", f"{name} = {norm(counter, under.width)};")
