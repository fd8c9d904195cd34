"""Warnings about variables and actions: never used, never read, read before they are assigned.

A pass of its own over the checked tree, because it takes the whole body of a block to decide.
Nothing here is an error: the program is valid, but its author probably meant something else. Only
what is certain is reported: a variable counts as unassigned if no path assigns to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.types import Composite, Stack, underlying

# Attributes that hold what the checker found out, and types as written.
_OWN = {"type", "const", "decl", "place", "call", "target", "info", "table"}
# Annotations of attributes that hold no node.
_PLAIN = {"str", "bool", "int", "str | None", "int | None"}
_ENDS = ast.Return | ast.Exit | ast.Break | ast.Continue


_ATTRIBUTES: dict[type[ast.Node], list[str]] = {}  # the others, by class


def children(node: ast.Node) -> list[ast.Node]:
    """The nodes below `node` that the author wrote there."""
    kind = type(node)
    names = _ATTRIBUTES.get(kind)
    if names is None:
        own = set() if kind is ast.CallStatement else _OWN
        names = [f.name for f in fields(kind) if f.name not in own and f.type not in _PLAIN]
        _ATTRIBUTES[kind] = names
    found: list[ast.Node] = []
    for name in names:
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            found.append(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.Node):
                    found.append(item)
                elif isinstance(item, tuple):
                    found += [each for each in item if isinstance(each, ast.Node)]
        elif isinstance(value, tuple):
            found += [each for each in value if isinstance(each, ast.Node)]
    return found


def root(e: ast.Node) -> ast.Variable | None:
    """The variable that a left value is a part of, or None."""
    while isinstance(e, ast.Member | ast.Index | ast.Slice):
        e = e.base
    return e.decl if isinstance(e, ast.Name) and isinstance(e.decl, ast.Variable) else None


class Uses:
    """The uses of variables in a piece of the program, in the order of evaluation."""

    def __init__(self, node: ast.Node) -> None:
        # ("read", "write" or "out"; the variable; where)
        self.events: list[tuple[str, ast.Variable, ast.Node]] = []
        self._visit(node)

    def _write(self, e: ast.Expr, what: str) -> None:
        """`e` is assigned to ("write"), or a callee may do so ("out"); what stands in its indices
        is read."""
        inner = e
        while isinstance(inner, ast.Member | ast.Index | ast.Slice):
            if isinstance(inner, ast.Index):
                self._visit(inner.index)
            inner = inner.base
        if (variable := root(e)) is not None:
            self.events.append((what, variable, e))

    def _visit(self, node: ast.Node) -> None:
        if isinstance(node, ast.Assign):
            self._visit(node.right)
            self._write(node.left, "write")
        elif isinstance(node, ast.Call) and node.call is not None:
            self._call(node.call)
        elif isinstance(node, ast.Name):
            if isinstance(node.decl, ast.Variable):
                self.events.append(("read", node.decl, node))
        elif isinstance(node, ast.Variable):
            if node.value is not None:
                self._visit(node.value)
                self.events.append(("write", node, node))
        elif isinstance(node, ast.ForIn):
            self._visit(node.collection)
            self.events.append(("write", node.variable, node))
            self._visit(node.body)
        else:
            for child in children(node):
                self._visit(child)

    def _call(self, info: ast.CallInfo) -> None:
        outs = []
        for parameter, value in info.arguments:
            if value is None:
                continue
            if parameter.direction in ("out", "inout"):
                outs.append(value)
            if parameter.direction != "out":
                self._visit(value)
        if isinstance(info, ast.BuiltinCall):
            if info.count is not None:
                self._visit(info.count)
            if info.name in ("setValid", "setInvalid", "push_front", "pop_front"):
                self._write(info.receiver, "out")
            else:
                self._visit(info.receiver)
        for value in outs:
            self._write(value, "out")


class UsageChecker:
    """Walks over the blocks of the main file."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def check(self, program: ast.Program) -> None:
        """Report what is suspicious in a program without errors."""
        for decl in program.declarations:
            if decl.place[0] == self.diagnostics.main and _has_body(decl):
                self._routine(decl)
                if isinstance(decl, ast.Control):
                    self._actions(decl)

    def _actions(self, decl: ast.Control) -> None:
        """Actions that no table lists and nothing calls."""
        used: set[int] = set()
        todo: list[ast.Node] = [decl]
        while todo:
            node = todo.pop()
            todo += children(node)
            if isinstance(node, ast.ActionRef):
                used.add(id(node.decl))
            elif isinstance(node, ast.Call) and isinstance(node.call, ast.ActionCall):
                used.add(id(node.call.decl))
        for local in decl.locals:
            if isinstance(local, ast.Action) and id(local) not in used:
                self._warn(local, "is never used", what_it_is="action")

    def _routine(self, decl: ast.Decl) -> None:
        declared = [v for v in _variables(decl) if v.type is not ast.UNCHECKED]
        uses = Uses(decl).events
        read = {id(v) for what, v, _ in uses if what == "read"}
        written = {id(v) for what, v, _ in uses if what != "read"}
        given = {id(v) for what, v, _ in uses if what == "out"}
        assigned = written - {id(v) for v in declared if v.value is not None}
        for variable in declared:
            key = id(variable)
            if key not in read and key not in assigned:
                self._warn(variable, "is never used")
            elif key not in read and key not in given:
                self._warn(variable, "is assigned, but never read")
            elif key in read and key not in written:
                self._warn(variable, "is read, but nothing is ever assigned to it")
        for body in _bodies(decl):
            self._flow(body.statements, set(), read & assigned)

    def _warn(
        self,
        decl: ast.Decl,
        what: str,
        place: Place | None = None,
        what_it_is: str = "variable",
    ) -> None:
        ours = decl.place[0] == self.diagnostics.main  # an included file may serve other programs
        if ours and not any(a.name == "noWarn" for a in decl.annotations):
            self.diagnostics.warning(place or decl.place, f"{what_it_is} '{decl.name}' {what}")

    # ---- read before assigned ----

    def _flow(
        self, statements: list[ast.Node], unassigned: set[int], known: set[int]
    ) -> set[int] | None:
        """`unassigned`: variables without a value on every path to here; returns those behind the
        statements, None if these never end. Variables outside of `known` are reported already."""
        here: set[int] | None = set(unassigned)
        for s in statements:
            if here is None:
                break
            here = self._statement(s, here, known)
        return here

    def _statement(self, s: ast.Node, here: set[int], known: set[int]) -> set[int] | None:
        if isinstance(s, ast.Variable) and s.value is None:
            simple = not isinstance(underlying(s.type), Composite | Stack)
            return here | {id(s)} if simple and id(s) in known else here
        if isinstance(s, ast.Block):
            return self._flow(s.statements, here, known)
        if isinstance(s, ast.If):
            here = self._apply(s.condition, here)
            yes = self._statement(s.yes, here, known)
            no = here if s.no is None else self._statement(s.no, here, known)
            return _both([yes, no])
        if isinstance(s, ast.Switch):
            here = self._apply(s.value, here)
            ends = [self._flow(c.body.statements, here, known) for c in s.cases if c.body]
            return _both([*ends, here])
        if isinstance(s, ast.For | ast.ForIn):
            # Whatever the loop assigns somewhere may have a value from an earlier round.
            here = here - {id(v) for what, v, _ in Uses(s).events if what != "read"}
            self._statement(s.body, here, known)
            return here
        here = self._apply(s, here)
        return None if isinstance(s, _ENDS) else here

    def _apply(self, node: ast.Node, here: set[int]) -> set[int]:
        here = set(here)
        for what, variable, place in Uses(node).events:
            if what == "read" and id(variable) in here:
                self._warn(variable, "is read before anything is assigned to it", place.place)
            here.discard(id(variable))
        return here


def _has_body(decl: ast.Decl) -> bool:
    """True if the declaration has a body that is checked once, because it is not generic."""
    if isinstance(decl, ast.Function):
        return decl.body is not None and not decl.type_parameters
    if isinstance(decl, ast.Control | ast.Parser):
        return not decl.is_type and not decl.type_parameters
    return isinstance(decl, ast.Action)


def _both(ends: list[set[int] | None]) -> set[int] | None:
    alive = [e for e in ends if e is not None]
    return set.intersection(*alive) if alive else None


def _variables(node: ast.Node) -> Iterator[ast.Variable]:
    if isinstance(node, ast.Variable):
        yield node
    if isinstance(node, ast.ForIn):
        yield from _variables(node.body)  # a loop may run for its number of rounds only
        return
    for child in children(node):
        yield from _variables(child)


def _bodies(decl: ast.Decl) -> Iterator[ast.Block]:
    """The blocks of a declaration that run from beginning to end."""
    if isinstance(decl, ast.Function | ast.Action | ast.Control) and decl.body is not None:
        yield decl.body
    if isinstance(decl, ast.Control | ast.Parser):
        for local in decl.locals:
            if isinstance(local, ast.Action | ast.Function):
                yield from _bodies(local)


def check_usage(program: ast.Program, diagnostics: Diagnostics) -> None:
    """Report suspicious uses of variables as warnings."""
    UsageChecker(diagnostics).check(program)
