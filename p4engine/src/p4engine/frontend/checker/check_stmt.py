"""Statements: assignments, branches, loops, switch."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_calls import CallChecker
from p4engine.frontend.checker.check_fit import Scope
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    INT,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    Plain,
    SetOf,
    Special,
    Stack,
    Type,
    underlying,
)


class StatementChecker(CallChecker):
    """`statement` dispatches on the node's class."""

    in_parser = False
    in_action = False
    in_function: Type | None = None
    loops = 0

    def block(self, statements: list) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        ended = False
        for statement in statements:
            if ended and not isinstance(statement, ast.Empty):
                self.diagnostics.warning(statement.place, "this statement is never reached")
                ended = False
            self.statement(statement)
            ended = isinstance(statement, ast.Return | ast.Exit | ast.Break | ast.Continue)
        self.scope = saved

    def statement(self, s: ast.Node) -> None:
        getattr(self, "_s_" + type(s).__name__)(s)

    def declare(self, decl: ast.Decl, name: str | None = None) -> None:
        """Enter a declaration into the innermost scope."""
        name = name or decl.name
        known = self.scope.names.get(name)
        if known is not None:
            self.error(decl.place, f"'{name}' is already declared here")
        self.scope.names[name] = decl

    def _s_Block(self, s: ast.Block) -> None:
        self.block(s.statements)

    def _s_Empty(self, s: ast.Empty) -> None:
        pass

    def _s_Constant(self, s: ast.Constant) -> None:
        s.type = self.resolve_type(s.target)
        s.const = self.constant(s.value, s.type, "the value of a constant")
        self.declare(s)

    def _s_Variable(self, s: ast.Variable) -> None:
        s.type = self.resolve_type(s.target)
        if isinstance(s.type, ExternType | BlockType) or s.type in (VOID, INT, Plain("string")):
            self.error(s.place, f"a variable cannot have the type {s.type}")
            s.type = UNKNOWN
        if s.value is not None:
            self.value(s.value, s.type)
        self.declare(s)

    def _s_Instance(self, s: ast.Instance) -> None:
        self.error(s.place, "instances are declared outside of blocks")

    def _s_Assign(self, s: ast.Assign) -> None:
        left = self.value(s.left)
        if s.op:
            binary = ast.Binary(s.place, s.op, s.left, s.right)
            if left != UNKNOWN and self.left_value(s.left):
                saved = s.left.const
                got = self._x_Binary_typed(binary, left)
                s.left.const = saved
                if got != UNKNOWN and got != left and underlying(got) != underlying(left):
                    self.error(s.place, f"the result is {got}, but this is stored in {left}")
                s.right = binary
                s.right.type = left
            s.op = ""
            return
        if left == UNKNOWN:
            self.expr(s.right)
            return
        if not self.left_value(s.left):
            self.value(s.right)
            return
        self.value(s.right)
        if s.right.type != UNKNOWN:
            self.coerce(s.right, left)

    def _x_Binary_typed(self, binary: ast.Binary, left: Type) -> Type:
        """Type of left op right where left was checked already."""
        return self.expr(binary)

    def _s_CallStatement(self, s: ast.CallStatement) -> None:
        got = self.expr(s.call)
        if s.call.call is not None and s.call.call.kind == "construct":
            self.error(s.place, "an instance needs a name")
        del got

    def _s_If(self, s: ast.If) -> None:
        self.value(s.condition, BOOL)
        self._body(s.yes)
        if s.no is not None:
            self._body(s.no)

    def _body(self, s: ast.Node) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        self.statement(s)
        self.scope = saved

    def _s_Return(self, s: ast.Return) -> None:
        if self.in_parser and self.in_function is None:
            self.error(s.place, "a parser state cannot return")
        want = self.in_function
        if want is None or want == VOID:
            if s.value is not None:
                self.value(s.value)
                self.error(s.value.place, "nothing is returned here")
        elif s.value is None:
            self.error(s.place, f"a value of {want} must be returned")
        else:
            self.value(s.value, want)

    def _s_Exit(self, s: ast.Exit) -> None:
        if self.in_parser:
            self.error(s.place, "exit cannot be used in a parser")
        if self.in_function is not None:
            self.error(s.place, "exit cannot be used in a function")

    def _s_Break(self, s: ast.Break) -> None:
        if not self.loops:
            self.error(s.place, "break outside of a loop")

    def _s_Continue(self, s: ast.Continue) -> None:
        if not self.loops:
            self.error(s.place, "continue outside of a loop")

    def _s_For(self, s: ast.For) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        for item in s.init:
            self.statement(item)
        self.value(s.condition, BOOL)
        for item in s.update:
            self.statement(item)
        self.loops += 1
        self._body(s.body)
        self.loops -= 1
        self.scope = saved

    def _s_ForIn(self, s: ast.ForIn) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        element: Type = UNKNOWN
        if isinstance(s.variable, ast.Variable):
            s.variable.type = element = self.resolve_type(s.variable.target)
        elif self.value(s.variable) != UNKNOWN:
            self.left_value(s.variable)
            element = s.variable.type
        got = self.value(s.collection)
        if isinstance(got, SetOf):
            for side in (s.collection.low, s.collection.high):
                self.coerce(side, element)
        elif isinstance(got, Stack):
            if not self.same(got.element, element):
                self.error(s.collection.place, f"the elements are {got.element}, not {element}")
        elif hasattr(got, "elements"):
            if isinstance(s.collection, ast.ListExpr):
                for item in s.collection.items:
                    self.coerce(item, element)
        elif hasattr(got, "element"):
            pass
        elif got != UNKNOWN:
            self.error(s.collection.place, f"a loop cannot run over {got}")
        if isinstance(s.variable, ast.Variable):
            self.declare(s.variable)
        self.loops += 1
        self._body(s.body)
        self.loops -= 1
        self.scope = saved

    def _s_Switch(self, s: ast.Switch) -> None:
        got = self.expr(s.value)
        if isinstance(got, Special) and got.what == "action_run":
            s.table = got.decl
            actions = {a.name: a for a in got.decl.info.actions}
            seen = set()
            for case in s.cases:
                for label in case.labels:
                    if isinstance(label, ast.DontCare):
                        continue
                    if not isinstance(label, ast.Name):
                        self.error(label.place, "the labels of this switch are names of actions")
                    elif label.name not in actions:
                        self.error(
                            label.place,
                            f"table {got.decl.name} has no action '{label.name}'"
                            f"{self.near(label.name, actions)}",
                        )
                    elif label.name in seen:
                        self.error(label.place, f"label {label.name} occurs twice")
                    else:
                        seen.add(label.name)
        else:
            if isinstance(got, Special | Composite | BlockType | ExternType):
                self.error(
                    s.value.place, f"switch needs a number, an enum or action_run, not {got}"
                )
                got = UNKNOWN
            values = set()
            for case in s.cases:
                for label in case.labels:
                    if isinstance(label, ast.DontCare):
                        continue
                    self.value(label)
                    want = got if got != INT else UNKNOWN
                    if UNKNOWN not in (want, label.type):
                        self.coerce(label, want)
                        if label.const is None:
                            self.error(label.place, "labels must be known at compile time")
                        elif label.const in values:
                            self.error(label.place, "this label occurs twice")
                        values.add(label.const)
        for n, case in enumerate(s.cases):
            for label in case.labels:
                if isinstance(label, ast.DontCare) and (
                    label is not case.labels[-1] or n < len(s.cases) - 1
                ):
                    self.error(label.place, "default must be the last label of a switch")
            if case.body is not None:
                self.block(case.body.statements)


__all__ = ["StatementChecker", "Bits", "EnumType", "DONT_CARE"]
