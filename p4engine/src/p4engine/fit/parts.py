"""The parts of which a variable's value is made: fields of structs, elements of stacks."""

from __future__ import annotations

from p4engine.fit.values import Graph, Value, constant_of
from p4engine.frontend import ast
from p4engine.frontend.types import (
    BOOL,
    Composite,
    Stack,
    Tuple,
    Type,
    is_header,
    underlying,
    width_of,
)

VALID = "$valid"

Path = tuple[str, ...]
Key = tuple[int, Path]  # the id of a declaration, and the way to a part of it
Tree = dict[Path, Value]  # the values of all parts of something


def members(type_: Type) -> list[tuple[str, Type]]:
    """The names and types of what a type is made of; none for a scalar."""
    under = underlying(type_)
    if isinstance(under, Composite):
        return list(under.fields.items())
    if isinstance(under, Stack):
        return [(f"[{i}]", under.element) for i in range(under.size)]
    if isinstance(under, Tuple):
        return [(str(i), t) for i, t in enumerate(under.elements)]
    return []


def leaves(type_: Type) -> list[tuple[Path, Type]]:
    """The parts of a type that have a value of their own; a header's validity is one of them."""
    under = underlying(type_)
    if not isinstance(under, Composite | Stack | Tuple):
        return [((), type_)]
    found: list[tuple[Path, Type]] = [((VALID,), BOOL)] if is_header(under) else []
    for name, part in members(type_):
        found += [((name, *path), t) for path, t in leaves(part)]
    return found


def constant_tree(graph: Graph, what: ast.Const, type_: Type) -> Tree:
    """The parts of a constant."""
    under = underlying(type_)
    if not isinstance(under, Composite | Stack | Tuple):
        return {(): graph.const(constant_of(what), type_)}
    made: Tree = {(VALID,): graph.const(True)} if is_header(under) else {}
    if what == ast.INVALID_HEADER:
        return {(VALID,): graph.const(False)}
    items = list(what.values()) if isinstance(what, dict) else what
    assert isinstance(items, list)
    for (name, part), item in zip(members(type_), items, strict=False):
        made |= {(name, *p): v for p, v in constant_tree(graph, item, part).items()}
    return made


def leaves_are_values(type_: Type) -> bool:
    """Has a type values that a variable can hold (and not instances of externs)?"""
    return all(width_of(t) is not None or t == BOOL for _, t in leaves(type_))
