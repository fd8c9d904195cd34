"""Single changes of a Python module, found by Python's own parser.

In testbed/protocols only compiled functions (`@njit`) are changed: they run for every packet, here
as plain Python. The code around them builds arrays when a host starts. In testbed/workload all
functions are changed, and in all other modules those that are not compiled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.mutants.change import (
    BRANCH,
    CONSTANT,
    OPERATOR,
    REMOVED,
    Change,
    blank,
    numbered,
    worded,
)
from tests.support.paths import ROOT

BINARY = {
    **{ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.Div: ("/", "*")},
    **{ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*")},
    **{ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&")},
    **{ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<")},
}
COMPARED = {
    **{ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<")},
    **{ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Is: ("is", "is not")},
    **{ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.IsNot: ("is not", "is")},
}
JOINED = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
NAMED = re.compile(r"[A-Z][A-Z0-9_]+")
ASSIGNED = re.compile(r"^([A-Z][A-Z0-9_]*) = (?=[-0-9])", re.MULTILINE)
PROTOCOLS, WORKLOAD = "testbed/protocols/", "testbed/workload/"  # plain Python in a campaign
REMOVABLE = ast.Assign | ast.AugAssign | ast.Expr | ast.Break | ast.Continue


def changes(file: str, text: str | None = None) -> list[Change]:
    """All changes of `file`, its path in the checkout, or of a text that takes its place."""
    return numbered(_Changes(file, text or (ROOT / file).read_text()).all())


def _following(path: Path) -> dict[str, str]:
    """For each number that a module names the next one, the first after the last."""
    names = ASSIGNED.findall(path.read_text()) if path.exists() else []
    return dict(zip(names, [*names[1:], *names[:1]], strict=True)) if len(names) > 1 else {}


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("njit" in ast.unparse(decorator) for decorator in function.decorator_list)


class _Changes:
    def __init__(self, file: str, text: str) -> None:
        assert text.isascii(), file  # columns are bytes
        self.file, self.text = file, text
        self.starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self.lines = (0, 0)
        folder = (ROOT / file).parent
        self.own = _following(ROOT / file)
        self.modules = {path.stem: _following(path) for path in folder.glob("*.py")}

    def all(self) -> Iterator[Change]:
        for node in ast.walk(ast.parse(self.text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            compiled = self.file.startswith(PROTOCOLS)
            if is_compiled(node) == compiled or self.file.startswith(WORKLOAD):
                for statement in node.body:
                    yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Change]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import):
            return  # a function in a function is found by itself
        if isinstance(node, ast.If | ast.While):
            self.lines = (node.test.lineno, node.test.end_lineno or node.test.lineno)
            yield from self._test(node.test)
        elif isinstance(node, ast.For):
            self.lines = (node.lineno, node.lineno)
            yield from self._expression(node.iter)
        else:
            self.lines = (node.lineno, node.end_lineno or node.lineno)
            if isinstance(node, REMOVABLE):
                start, end = self._span(node)
                # The first line keeps its place, so the lines of all others stay the same.
                new = "pass" + blank(self.text[start:end])
                yield self._change(REMOVED, start, end, new)
            annotation = getattr(node, "annotation", None)
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr) and part is not annotation:
                    yield from self._expression(part)
        for block in ("body", "orelse", "handlers", "finalbody"):
            for inner in getattr(node, block, []):
                yield from self._statement(inner)

    def _test(self, node: ast.expr) -> Iterator[Change]:
        """A condition; its branches swapped is the condition negated."""
        start, end = self._span(node)
        yield self._change(BRANCH, start, end, f"not ({self.text[start:end]})")
        alone = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq)
        yield from self._expression(node, operator=not (alone and len(node.ops) == 1))

    def _expression(self, node: ast.expr, operator: bool = True) -> Iterator[Change]:
        if isinstance(node, ast.JoinedStr):
            return  # before Python 3.12 its parts do not know their places
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            yield self._operator(node.left, node.right, BINARY[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield self._operator(left, right, JOINED[type(node.op)])
        elif isinstance(node, ast.Compare) and operator:
            left = node.left
            for kind, right in zip(node.ops, node.comparators, strict=True):
                yield self._operator(left, right, COMPARED[type(kind)])
                left = right
        elif isinstance(node, ast.UnaryOp):
            start, end = self._span(node)
            inside, _ = self._span(node.operand)
            if not isinstance(node.operand, ast.Constant):
                yield self._change(OPERATOR, start, inside, " " * (inside - start))
        elif isinstance(node, ast.IfExp):
            yield from self._test(node.test)
            yield from self._expression(node.body)
            yield from self._expression(node.orelse)
            return
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.Name) and node.id in self.own and NAMED.fullmatch(node.id):
            yield self._change(CONSTANT, *self._span(node), self.own[node.id])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            following = self.modules.get(node.value.id, {})
            if node.attr in following and NAMED.fullmatch(node.attr):
                new = f"{node.value.id}.{following[node.attr]}"
                yield self._change(CONSTANT, *self._span(node), new)
        for part in ast.iter_child_nodes(node):
            record = isinstance(node, ast.Subscript) and part is node.slice
            if record and isinstance(part, ast.Constant):
                continue  # a record is an array of one row
            if isinstance(part, ast.expr):
                yield from self._expression(part)

    def _constant(self, node: ast.Constant) -> Iterator[Change]:
        if isinstance(node.value, bool):
            new = str(not node.value)
        elif isinstance(node.value, int):
            new = str({0: 1, 1: 0}.get(node.value, node.value + 1))
        elif isinstance(node.value, float):
            new = str(node.value + 1)
        else:
            return
        yield self._change(CONSTANT, *self._span(node), new)

    def _operator(self, left: ast.expr, right: ast.expr, way: tuple[str, str]) -> Change:
        """The operator between two operands, which may have brackets around them."""
        begin, stop = self._span(left)[1], self._span(right)[0]
        old, new = way
        start = self.text.index(old, begin, stop)
        return self._change(OPERATOR, start, start + len(old), new)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _change(self, kind: str, start: int, end: int, new: str) -> Change:
        words = worded(self.text, start, end, new)
        line = self.text.count("\n", 0, start) + 1
        return Change(self.file, kind, start, end, new, *self.lines, line, words)
