"""Statements: assignments, branches, loops, switch; constants and variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_declarations import DeclarationRules
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    EnumType,
    ExternType,
    ListOf,
    SetOf,
    Stack,
    TableMeant,
    Type,
    underlying,
)

_ENDS = ast.Return | ast.Exit | ast.Break | ast.Continue


class StatementChecker:
    """Checks blocks and the statements in them."""

    def __init__(
        self,
        context: Context,
        conversions: ConversionChecker,
        expressions: ExpressionChecker,
        types: TypeResolver,
    ) -> None:
        self.context, self.conversions = context, conversions
        self.expressions, self.types = expressions, types
        # For a class of nodes, the method that checks such a node.
        self._rules: dict[type[ast.Node], Callable[[Any], None]] = {
            ast.Block: self._block,
            ast.Empty: lambda s: None,
            ast.Constant: self._constant,
            ast.Variable: self._variable,
            ast.Instance: self._instance,
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

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Constant: self._constant, ast.Variable: self._variable}

    def block(self, statements: list[ast.Node]) -> None:
        """Check statements in a scope of their own."""
        with self.context.inner_scope():
            ended = False
            for statement in statements:
                if ended and not isinstance(statement, ast.Empty):
                    self.context.warning(statement.place, "this statement is never reached")
                    ended = False
                self.check(statement)
                ended = isinstance(statement, _ENDS)

    def check(self, s: ast.Node) -> None:
        """Check one statement."""
        self._rules[type(s)](s)

    def _body(self, s: ast.Node) -> None:
        with self.context.inner_scope():
            self.check(s)

    def _loop_body(self, s: ast.Node) -> None:
        self.context.loops += 1
        self._body(s)
        self.context.loops -= 1

    def _block(self, s: ast.Block) -> None:
        self.block(s.statements)

    # ---- declarations ----

    def _constant(self, s: ast.Constant) -> None:
        s.type = self.types.resolve(s.target)
        s.const = self.expressions.constant(s.value, s.type, "the value of a constant")
        self.context.declare(s)

    def _variable(self, s: ast.Variable) -> None:
        s.type = self.types.resolve(s.target)
        nothing = (VOID, INT, STRING, MATCH_KIND)
        if isinstance(s.type, ExternType | BlockType | ListOf) or s.type in nothing:
            s.type = self.context.error(s.place, f"a variable cannot have the type {s.type}")
        if s.value is not None:
            self.expressions.value(s.value, s.type)
        self.context.declare(s)

    def _instance(self, s: ast.Instance) -> None:
        self.context.error(s.place, "instances are declared outside of blocks")

    # ---- assignments and calls ----

    def _assign(self, s: ast.Assign) -> None:
        left = self.expressions.value(s.left)
        if s.op:
            self._compound_assign(s, left)
        elif left == UNKNOWN:
            self.expressions.check(s.right)
        elif not self.expressions.left_value(s.left):
            self.expressions.value(s.right)
        elif self.expressions.value(s.right) != UNKNOWN:
            self.conversions.coerce(s.right, left)

    def _compound_assign(self, s: ast.Assign, left: Type) -> None:
        """Check `a op= b` as `a = a op b`, and make it that."""
        binary = ast.Binary(s.place, s.op, s.left, s.right)
        if left != UNKNOWN and self.expressions.left_value(s.left):
            saved = s.left.const
            got = self.expressions.check(binary)
            s.left.const = saved
            if got not in (UNKNOWN, left) and underlying(got) != underlying(left):
                self.context.error(s.place, f"the result is {got}, but this is stored in {left}")
            binary.type = left
            s.right = binary
        s.op = ""

    def _call(self, s: ast.CallStatement) -> None:
        self.expressions.check(s.call)
        if isinstance(s.call.call, ast.Construction):
            self.context.error(s.place, "an instance needs a name")

    # ---- branches and ends ----

    def _if(self, s: ast.If) -> None:
        self.expressions.value(s.condition, BOOL)
        self._body(s.yes)
        if s.no is not None:
            self._body(s.no)

    def _return(self, s: ast.Return) -> None:
        want = self.context.returns
        if self.context.in_parser and want is None:
            self.context.error(s.place, "a parser state cannot return")
        if want is None or want == VOID:
            if s.value is not None:
                self.expressions.value(s.value)
                self.context.error(s.value.place, "nothing is returned here")
        elif s.value is None:
            self.context.error(s.place, f"a value of {want} must be returned")
        else:
            self.expressions.value(s.value, want)

    def _exit(self, s: ast.Exit) -> None:
        if self.context.in_parser:
            self.context.error(s.place, "exit cannot be used in a parser")
        if self.context.returns is not None:
            self.context.error(s.place, "exit cannot be used in a function")

    def _break(self, s: ast.Break) -> None:
        if not self.context.loops:
            self.context.error(s.place, "break outside of a loop")

    def _continue(self, s: ast.Continue) -> None:
        if not self.context.loops:
            self.context.error(s.place, "continue outside of a loop")

    # ---- loops ----

    def _not_in_parser(self, s: ast.Node, what: str) -> None:
        if self.context.in_parser:
            self.context.error(s.place, f"{what} cannot be used in a parser state")

    def _for(self, s: ast.For) -> None:
        self._not_in_parser(s, "a loop")
        with self.context.inner_scope():
            for item in s.init:
                self.check(item)
            self.expressions.value(s.condition, BOOL)
            for item in s.update:
                self.check(item)
            self._loop_body(s.body)

    def _for_in(self, s: ast.ForIn) -> None:
        self._not_in_parser(s, "a loop")
        with self.context.inner_scope():
            s.variable.type = self.types.resolve(s.variable.target)
            self._collection(s.collection, s.variable.type)
            self.context.declare(s.variable)
            self._loop_body(s.body)

    def _collection(self, e: ast.Expr, element: Type) -> None:
        """Check what a loop runs over with a variable of type `element`."""
        got = self.expressions.value(e)
        if isinstance(got, SetOf):
            if isinstance(e, ast.Range):
                self.conversions.coerce(e.low, element)
                self.conversions.coerce(e.high, element)
            else:
                self.context.error(e.place, f"a loop cannot run over {got}")
        elif isinstance(got, Stack):
            if not self.conversions.same(got.element, element):
                self.context.error(e.place, f"the elements are {got.element}, not {element}")
        elif isinstance(e, ast.ListExpr):
            for item in e.items:
                self.conversions.coerce(item, element)
        elif got != UNKNOWN and not isinstance(got, ListOf):
            self.context.error(e.place, f"a loop cannot run over {got}")

    # ---- switch ----

    def _switch(self, s: ast.Switch) -> None:
        self._not_in_parser(s, "switch")
        got = self.expressions.check(s.value)
        labels = [label for case in s.cases for label in case.labels]
        known = [label for label in labels if not isinstance(label, ast.DontCare)]
        if isinstance(got, TableMeant) and got.what == "action_run":
            s.table = got.decl
            self._action_labels(got.decl, known)
        else:
            if got not in (UNKNOWN, ERROR) and not isinstance(got, Bits | EnumType):
                got = self.context.error(
                    s.value.place,
                    f"switch needs bit<>, int<>, an enum, error or action_run, not {got}",
                )
            self._value_labels(got, known)
        for case in s.cases:
            for label in case.labels:
                if isinstance(label, ast.DontCare) and label is not labels[-1]:
                    self.context.error(label.place, "default must be the last label of a switch")
            if case.body is not None:
                self.block(case.body.statements)

    def _action_labels(self, table: ast.Table, labels: list[ast.Expr]) -> None:
        """Labels of a switch over the action that a table ran."""
        actions = {a.name for a in table.info.actions}
        seen = set()
        for label in labels:
            if not isinstance(label, ast.Name):
                self.context.error(label.place, "the labels of this switch are names of actions")
            elif label.name not in actions:
                self.context.error(
                    label.place,
                    f"table {table.name} has no action '{label.name}'"
                    f"{did_you_mean(label.name, actions)}",
                )
            elif label.name in seen:
                self.context.error(label.place, f"label {label.name} occurs twice")
            else:
                seen.add(label.name)

    def _value_labels(self, want: Type, labels: list[ast.Expr]) -> None:
        """Labels of a switch over a value of type `want`."""
        values: list[ast.Const | None] = []
        for label in labels:
            self.expressions.value(label)
            if UNKNOWN in (want, label.type):
                continue
            self.conversions.coerce(label, want)
            if label.const is None:
                self.context.error(label.place, "labels must be known at compile time")
            elif label.const in values:
                self.context.error(label.place, "this label occurs twice")
            values.append(label.const)
