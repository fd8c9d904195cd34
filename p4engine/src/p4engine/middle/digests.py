"""The digests of a program: what it sends to the control plane.

They are numbered in the order in which the calls are written, stage after stage, with the bodies of
what is called in the place of the call. A call that can never run has no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.types import Composite, Stack, Tuple, Type, underlying, width_of
from p4engine.middle.instantiate import BlockInstance, Instances


@dataclass(frozen=True)
class DigestCall:
    """A call that sends a digest. `type` is that of the data, `widths` has the bits of its
    fields."""

    call: ast.ExternCall
    number: int
    name: str
    type: Type
    widths: tuple[int, ...]


def find_digests(instances: Instances) -> list[DigestCall]:
    """All digests in the order of their numbers. One without a struct's name is called
    digest_<n>."""
    made: list[DigestCall] = []
    unnamed = 0
    for call in _Calls(instances).found:
        data = instances.architecture.digest(call)
        assert data is not None
        own = instances.architecture.digest_name(call, instances.name_of)
        if own is not None:
            name = own
        elif isinstance(data.type, Composite):
            name = str(data.type)
        else:
            name = f"digest_{unnamed}"
            unnamed += 1
        widths = tuple(_widths(data))
        made.append(DigestCall(call, len(made), name, data.type, widths))
    return made


def _widths(data: ast.Expr) -> Iterator[int]:
    """The bits of each field of a digest's data."""
    if isinstance(data, ast.ListExpr):
        for item in data.items:
            yield from _widths(item)
    elif isinstance(data, ast.StructExpr):
        for _, item in data.fields:
            yield from _widths(item)
    else:
        yield from _leaf_widths(data.type)


def _leaf_widths(type_: Type) -> Iterator[int]:
    under = underlying(type_)
    parts: list[Type] = []
    if isinstance(under, Composite):
        parts = list(under.fields.values())
    elif isinstance(under, Tuple):
        parts = list(under.elements)
    elif isinstance(under, Stack):
        parts = [under.element] * under.size
    else:
        yield width_of(under) or 0
    for part in parts:
        yield from _leaf_widths(part)


class _Calls:
    """Walks over what the stages run, in order; `found` has the calls that send digests."""

    def __init__(self, instances: Instances) -> None:
        self.found: list[ast.ExternCall] = []
        self._instances = instances
        self._seen: set[int] = set()  # by id: declarations and calls that were visited
        for block in instances.blocks.values():
            self._body(block.decl)

    def _first(self, thing: object) -> bool:
        """True if a thing is visited for the first time."""
        first = id(thing) not in self._seen
        self._seen.add(id(thing))
        return first

    def _body(self, decl: ast.Parser | ast.Control | ast.Function | ast.Action) -> None:
        if not self._first(decl):
            return
        if isinstance(decl, ast.Parser | ast.Control):
            for local in decl.locals:
                if isinstance(local, ast.Variable):
                    self._visit(local)
        if isinstance(decl, ast.Parser):
            for state in decl.states:
                self._visit(state)
        elif isinstance(decl, ast.Action):
            self._visit(decl.body)
        else:
            for statement in decl.statements:
                self._visit(statement)

    def _visit(self, node: ast.Node) -> None:
        if isinstance(node, ast.If) and node.condition.const is not None:
            chosen = node.yes if node.condition.const else node.no
            if chosen is not None:
                self._visit(chosen)
            return
        for child in children(node):
            self._visit(child)
        if isinstance(node, ast.Call) and node.call is not None and node.const is None:
            self._call(node.call)

    def _call(self, call: ast.CallInfo) -> None:
        if isinstance(call, ast.ExternCall):
            is_digest = self._instances.architecture.digest(call) is not None
            if is_digest and self._first(call):
                self.found.append(call)
        elif isinstance(call, ast.BlockCall) and call.decl.is_type:
            for block in self._instances.all_blocks:  # arguments of constructors
                for given in block.values.values():
                    if isinstance(given, BlockInstance):
                        self._body(given.decl)
        elif isinstance(call, ast.FunctionCall | ast.ActionCall | ast.BlockCall):
            self._body(call.decl)
        elif isinstance(call, ast.TableCall) and self._first(call.decl):
            for key in call.decl.info.keys:
                self._visit(key.value)
            for action in call.decl.info.actions:
                for _, value in action.binding or []:
                    if value is not None:
                        self._visit(value)
                if action.decl is not None:
                    self._body(action.decl)
