"""Statements to C.

Names carry the depth of blocks and calls, so that no variable hides one that a callee written
inside its scope may mean.
"""

from __future__ import annotations

import copy

from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.reroll import reroll
from p4engine.frontend import ast
from p4engine.frontend.types import (
    Bits,
    Composite,
    SetOf,
    Stack,
    has_header,
    is_header,
    underlying,
)


class StatementEmitter(ExpressionEmitter):
    """Needs `call` and `apply_table` from other parts."""

    return_label: str | None = None
    return_variable: str | None = None
    exit_label: str | None = None
    used_labels: set[str]

    # ---- lists of statements ----

    def statements(self, nodes: list) -> list[str]:
        """C statements of a P4 block; one string each, runs turned into loops."""
        saved = self.out
        self.out = []
        self.depth += 1
        self._declare_runs(nodes)
        for node in nodes:
            self.statement(node)
        result = reroll(self.out, self.depth)
        self.depth -= 1
        self.out = saved
        return result

    def _declare_runs(self, nodes: list) -> None:
        """Four or more variables of one integer type in a block share an array, as fields do."""
        by_type: dict[str, list] = {}
        for node in nodes:
            if isinstance(node, ast.Variable) and isinstance(underlying(node.type), Bits):
                by_type.setdefault(f"{underlying(node.type)}", []).append(node)
        for variables in by_type.values():
            if len(variables) < 4:
                continue
            name = self.fresh("locals")
            c = self.layout.c_type(variables[0].type)
            self.out.append(f"{c} {name}[{len(variables)}];")
            for i, node in enumerate(variables):
                self.env[id(node)] = f"{name}[{i}]"

    def statement(self, s: ast.Node) -> None:
        """Append the C of one P4 statement to self.out, as a single string."""
        if isinstance(s, ast.Empty | ast.Constant):
            return
        outer, temps = self.out, self.temps
        self.out, self.temps = [], 0
        if isinstance(s, ast.Variable):
            self._variable(s, outer)
        else:
            getattr(self, "_s_" + type(s).__name__)(s)
        made, self.out = self.out, outer
        self.temps = temps
        if not made:
            return
        if len(made) == 1:
            outer.append(made[0])
        else:
            outer.append("{ " + "\n".join(made) + " }")

    def body(self, s: ast.Node) -> str:
        """A branch or loop body as one C block."""
        nodes = s.statements if isinstance(s, ast.Block) else [s]
        return "{ " + "\n".join(self.statements(nodes)) + " }"

    def _variable(self, s: ast.Variable, outer: list[str]) -> None:
        name = self.env.get(id(s)) if "locals_" in self.env.get(id(s), "") else None
        if name is None:
            name = f"{s.name}_{self.depth}v"
            c = self.layout.c_type(s.type)
            if s.value is None:
                outer.append(f"{c} {name} = {self.zero(s.type)};")
                self.env[id(s)] = name
                return
            outer.append(f"{c} {name};")
        zero = self.zero(s.type)
        if s.value is None and zero.startswith("{"):
            zero = self.temp(s.type, zero)
        text = self.value(s.value) if s.value is not None else zero
        self.env[id(s)] = name
        if s.value is not None and has_header(s.type):
            self.out.append(f"{name} = ({self.layout.c_type(s.type)}){zero};")
            self.copy(name, text, s.type)
        else:
            self.out.append(f"{name} = {text};")

    def _s_Block(self, s: ast.Block) -> None:
        self.out.append(self.body(s))

    def _s_Assign(self, s: ast.Assign) -> None:
        left, right = s.left, s.right
        if self.has_effect(left) and not self.is_path(left):
            left = self.fixed(left)
            if isinstance(right, ast.Binary) and right.left is s.left:  # left op= right
                right = copy.copy(right)
                right.left = left
        text = self.value(right)
        under = underlying(left.type)
        if isinstance(under, Composite | Stack) and not isinstance(right, ast.Name | ast.Member):
            text = self.stable(text, under)
        if is_header(under) and isinstance(right, ast.ListExpr | ast.StructExpr):
            self.set_valid(self.left(left), under)
        self.store(left, text)

    def fixed(self, e: ast.Expr) -> ast.Expr:
        """The left value `e` with its indices evaluated now, and only once. (That an index without
        effects is evaluated behind the right side is as p4c has it.)"""
        if not isinstance(e, ast.Member | ast.Slice | ast.Index):
            return e
        e = copy.copy(e)
        self.keep.append(e)
        e.base = self.fixed(e.base)
        if isinstance(e, ast.Index) and e.index.const is None:
            name = self.temp(e.index.type, self.value(e.index))
            variable = ast.Name(e.place, name)
            variable.type = e.index.type
            variable.decl = variable
            self.env[id(variable)] = name
            self.keep.append(variable)
            e.index = variable
        return e

    def _s_CallStatement(self, s: ast.CallStatement) -> None:
        self.call(s.call)

    def _s_If(self, s: ast.If) -> None:
        if s.condition.const is not None:
            chosen = s.yes if s.condition.const else s.no
            if chosen is not None:
                self.out.append(self.body(chosen))
            return
        condition = self.value(s.condition)
        text = f"if ({condition}) {self.body(s.yes)}"
        if s.no is not None:
            text += f" else {self.body(s.no)}"
        self.out.append(text)

    def goto(self, label: str) -> str:
        self.used_labels.add(label)
        return f"goto {label};"

    def _s_Return(self, s: ast.Return) -> None:
        if s.value is not None and self.return_variable is not None:
            self.out.append(f"{self.return_variable} = {self.value(s.value)};")
        self.out.append(self.goto(self.return_label))

    def _s_Exit(self, s: ast.Exit) -> None:
        self.out.append(self.goto(self.exit_label))

    def _s_Break(self, s: ast.Break) -> None:
        self.out.append(self.goto(self.loop_labels[-1][0]))

    def _s_Continue(self, s: ast.Continue) -> None:
        self.out.append(self.goto(self.loop_labels[-1][1]))

    def _loop(self, head: str, body: ast.Node, tail: str, prepare: str = "") -> None:
        labels = (self.fresh("break"), self.fresh("next"))
        self.loop_labels.append(labels)
        inner = self.body(body)
        self.loop_labels.pop()
        if labels[1] in self.used_labels:
            inner += f" {labels[1]}:;"
        self.out.append(f"{head} {{ {prepare} {inner} {tail} }}")
        if labels[0] in self.used_labels:
            self.out.append(f"{labels[0]}:;")

    def _s_For(self, s: ast.For) -> None:
        for node in s.init:
            self.statement(node)
        outer, self.out = self.out, []
        condition = self.value(s.condition)
        test = "\n".join([*self.out, f"if (!({condition})) break;"])
        self.out = []
        for node in s.update:
            self.statement(node)
        update = "\n".join(self.out)
        self.out = outer
        self._loop("for (;;)", s.body, update, test)

    def _s_ForIn(self, s: ast.ForIn) -> None:
        if isinstance(s.variable, ast.Variable):
            name = f"{s.variable.name}_{self.depth}v"
            self.out.append(
                f"{self.layout.c_type(s.variable.type)} {name} = {self.zero(s.variable.type)};"
            )
            self.env[id(s.variable)] = name
        else:
            name = self.left(s.variable)
        kind = s.collection.type
        if isinstance(kind, SetOf):
            self._for_range(s, name)
            return
        if isinstance(kind, Stack):
            source = self.temp(kind, self.value(s.collection))
            counter = self.temp_c("uint32_t", "0")
            self._loop(
                f"for (; {counter} < {kind.size}; {counter}++)",
                s.body,
                "",
                f"{name} = {source}.e[{counter}];",
            )
            return
        items = s.collection.items if isinstance(s.collection, ast.ListExpr) else None
        if items is None and isinstance(s.collection.const, list):
            texts = [self.literal(v, s.variable.type) for v in s.collection.const]
        elif items is not None:
            texts = [self.temp(i.type, self.value(i)) for i in items]
        else:
            raise self.fatal(s.collection.place, "loops over this are not supported")
        counter = self.temp_c("uint32_t", "0")
        cases = " ".join(f"case {i}: {name} = {t}; break;" for i, t in enumerate(texts))
        self._loop(
            f"for (; {counter} < {len(texts)}; {counter}++)",
            s.body,
            "",
            f"switch ({counter}) {{ {cases} }}",
        )

    def _for_range(self, s: ast.ForIn, name: str) -> None:
        under = underlying(s.collection.low.type)
        if not isinstance(under, Bits) or under.width > 64:
            raise self.fatal(
                s.collection.place, "loops over numbers above 64 bits are not supported"
            )
        low, high = self.in_order([s.collection.low, s.collection.high])
        if under.signed:
            low, high = f"P4_SX64({low}, {under.width})", f"P4_SX64({high}, {under.width})"
        last = self.temp_c("int64_t" if under.signed else "uint64_t", high)
        counter = self.temp_c("int64_t" if under.signed else "uint64_t", low)
        more = self.temp_c("uint8_t", f"{counter} <= {last}")
        self._loop(
            f"for (; {more}; {more} = {counter} < {last}, {counter}++)",
            s.body,
            "",
            f"{name} = {self.norm(counter, under.width)};",
        )

    def _s_Switch(self, s: ast.Switch) -> None:
        if s.table is not None:
            _, action = self.apply_table(s.value.base)
            names = {ref.name: i for i, ref in enumerate(s.table.info.actions)}
        else:
            under = underlying(s.value.type)
            action = self.temp(s.value.type, self.value(s.value))
        chain, default = [], ""
        for case in s.cases:
            if case.body is None:
                continue
            tests = []
            for label in case.labels:
                if isinstance(label, ast.DontCare):
                    default = "1"
                elif s.table is not None:
                    tests.append(f"{action} == {names[label.name]}")
                else:
                    tests.append(self.equal(action, self.value(label), under))
            if default == "1":
                tests = ["1"]
            chain.append(f"if ({' || '.join(tests)}) {self.body(case.body)}")
        if chain:
            self.out.append("\nelse ".join(chain))
