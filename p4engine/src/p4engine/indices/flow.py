"""A packet's way through a control, all branches at once, as a graph of values.

Calls of actions, functions and controls are followed into; a table may run any of its actions.
Behind a branch a variable is a choice between its values in the two. Copies are not operations:
what counts is from what a value is computed, not through which variables it went. So the graph is
what a good compiler could make of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import BOOL, Bits, Stack
from p4engine.indices.calls import Calls
from p4engine.indices.values import RAN, Guard, Value
from p4engine.indices.ways import State, Tree, leaves
from p4engine.middle.instantiate import BlockInstance

ROUNDS = 1024  # of a loop that is followed


class Flow(Calls):
    """Follows the controls of a package; the findings are the lists of `Ways`."""

    def block(self, block: BlockInstance) -> None:
        """Follow a control of the package, from the state in which the parser leaves a packet."""
        decl = block.decl
        assert isinstance(decl, ast.Control)
        self._state = {}
        for parameter in decl.parameters:
            for path, type_ in leaves(parameter.type):
                name = ".".join((parameter.name, *path))
                key = (id(parameter), path)
                self._state[key] = self.graph.make("input", (block.name, name), (), type_)
        self._body(lambda: self._control(block))

    def _branch(
        self, condition: Value, yes: Sequence[ast.Node], no: Sequence[ast.Node], place: Place
    ) -> None:
        truth = self.facts.truth(condition)
        if truth is not None:
            self._statements(yes if truth else no)
            return
        before = self._state
        assert before is not None
        ends: list[State | None] = []
        for nodes, holds in ((yes, True), (no, False)):
            self._state = dict(before)
            with self._where(condition, holds):
                if self.facts.possible:
                    self._statements(nodes)
                else:
                    self._state = None
            ends.append(self._state)
        self._state = self._merge(condition, ends[0], ends[1], place)

    # ---- statements ----

    def _statements(self, nodes: Sequence[ast.Node]) -> None:
        for node in nodes:
            if self._state is None:
                return
            frame, level = self._frames[-1], len(self._guard)
            counts = len(frame.returned), len(frame.exited)
            self._statement(node)
            left = [*frame.returned[counts[0] :], *frame.exited[counts[1] :]]
            for guard, _ in left:  # the rest runs where these did not leave
                gone = self._holds(guard[level - frame.depth :])
                if gone.kind != "const":
                    self._guard = (*self._guard, (gone, False))

    def _statement(self, s: ast.Node) -> None:
        if isinstance(s, ast.Variable):
            for path, type_ in leaves(s.type):
                self._set((id(s), path), self._undefined(type_))
            if s.value is not None:
                self._store_tree((id(s), ()), self.tree(s.value, s.type))
        elif isinstance(s, ast.Assign):
            self._assign(s.left, s.right)
        elif isinstance(s, ast.CallStatement):
            self.call(s.call)
        elif isinstance(s, ast.Block):
            self._statements(s.statements)
        elif isinstance(s, ast.If):
            condition = self.value(s.condition)
            self._branch(condition, [s.yes], [] if s.no is None else [s.no], s.place)
        elif isinstance(s, ast.Switch):
            self._switch(s)
        elif isinstance(s, ast.Return):
            if s.value is not None:
                self._store_tree((id(self._frames[-1]), ()), self.tree(s.value, s.value.type))
            self._leave(self._frames[-1].returned)
        elif isinstance(s, ast.Exit):
            self._leave(self._frames[-1].exited)
        elif isinstance(s, ast.For | ast.ForIn):
            self._loop(s)
        elif isinstance(s, ast.Break | ast.Continue):
            self.loops[s.place] = "break or continue in a loop"

    def _leave(self, to: list[tuple[Guard, State]]) -> None:
        assert self._state is not None
        to.append((self._guard[self._frames[-1].depth :], self._state))
        self._state = None

    def _switch(self, s: ast.Switch) -> None:
        if s.table is not None:
            assert isinstance(s.value, ast.Member) and isinstance(s.value.base, ast.Call)
            number, _ = self._apply_table(s.value.base)
            taken = self._taken(number)
            value = self.graph.op(RAN, [taken], taken.type, s.value.place)
            names = {ref.name: i for i, ref in enumerate(s.table.info.actions)}
        else:
            value, names = self.value(s.value), {}
        cases: list[tuple[Value | None, Sequence[ast.Node]]] = []
        for case in s.cases:
            if case.body is None:
                continue
            condition: Value | None = self.graph.const(False)
            for label in case.labels:
                if isinstance(label, ast.DontCare):
                    condition = None
                    break
                if s.table is not None:
                    assert isinstance(label, ast.Name)
                    other = self.graph.const(names[label.name], Bits(32))
                else:
                    other = self.value(label)
                same = self._compare("==", value, other, label.place)
                assert condition is not None
                condition = self.graph.op("||", [condition, same], BOOL, label.place)
            cases.append((condition, case.body.statements))
        self._cases(sorted(cases, key=lambda case: case[0] is None))

    def _cases(self, cases: list[tuple[Value | None, Sequence[ast.Node]]]) -> None:
        if not cases:
            return
        (condition, body), *rest = cases
        if condition is None:
            self._statements(body)
            return
        before = self._state
        assert before is not None
        ends: list[State | None] = []
        truth = self.facts.truth(condition)
        for holds in (True, False):
            self._state = dict(before)
            if truth is None or truth == holds:
                with self._where(condition, holds):
                    if holds:
                        self._statements(body)
                    else:
                        self._cases(rest)
            else:
                self._state = None
            ends.append(self._state)
        self._state = self._merge(condition, ends[0], ends[1])

    def _loop(self, s: ast.For | ast.ForIn) -> None:
        if isinstance(s, ast.For):
            self._statements(s.init)
            for _ in range(ROUNDS):
                truth = self.facts.truth(self.value(s.condition))
                if truth is not True:
                    break
                self._statements([s.body, *s.update])
                if self._state is None:  # every packet leaves in this round
                    return
            if truth is not False:
                self.loops[s.place] = "a loop whose number of rounds is not known"
            return
        found = s.collection
        items: list[Tree] = []
        type_ = s.variable.type
        if isinstance(found, ast.Range):
            low, high = self.value(found.low), self.value(found.high)
            if not isinstance(low.data, int) or not isinstance(high.data, int):
                self.loops[s.place] = "a loop whose number of rounds is not known"
                return
            last = min(high.data, low.data + ROUNDS)
            items = [{(): self.graph.const(n, type_)} for n in range(low.data, last + 1)]
        elif isinstance(found.type, Stack):
            whole = self.tree(found, found.type)
            for i in range(found.type.size):
                items.append({p[1:]: v for p, v in whole.items() if p[0] == f"[{i}]"})
        else:
            if isinstance(found, ast.Cast):
                found = found.operand
            if isinstance(found, ast.ListExpr):
                items = [self.tree(item, type_) for item in found.items]
        for item in items:
            self._store_tree((id(s.variable), ()), item)
            self._statements([s.body])
