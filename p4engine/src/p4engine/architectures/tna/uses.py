"""Fields of the intrinsic metadata that a program can see; the others need not be filled."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.types import Composite, underlying


class Uses:
    """`names` are those of all fields that the program names, of whatever; `whole` are the structs
    of which it uses values as a whole, other than handing them to a block or function (where their
    fields have names, too)."""

    def __init__(self, checker: Checker) -> None:
        self.names: set[str] = set()
        self.whole: set[str] = set()
        self._todo: list[tuple[ast.Node, bool]] = [
            (decl, False) for decl in checker.globals.names.values() if isinstance(decl, ast.Decl)
        ]
        while self._todo:
            self._look(*self._todo.pop())

    def has(self, struct: Composite, field: str) -> bool:
        """Can the program see this field?"""
        return field in self.names or str(struct) in self.whole

    def _look(self, node: ast.Node, handed_on: bool) -> None:
        if isinstance(node, ast.Expr) and not handed_on:
            under = underlying(node.type)
            if isinstance(under, Composite):
                self.whole.add(str(under))
        if isinstance(node, ast.Member):
            self.names.add(node.name)
            self._todo.append((node.base, True))
            return
        call = node.call if isinstance(node, ast.Call) else None
        handed: set[int] = set()
        if isinstance(call, ast.BlockCall | ast.FunctionCall | ast.ActionCall) or (
            isinstance(call, ast.MethodCall) and call.decl.name == "extract"
        ):
            handed = {id(value) for _, value in call.arguments}
        for each in children(node):
            if isinstance(each, ast.Argument):
                self._todo += [(each.value, id(each.value) in handed)] if each.value else []
            else:
                self._todo.append((each, False))
