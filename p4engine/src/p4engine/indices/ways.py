"""The ways of a packet through a program: its variables, the conditions under which they hold, and
its accesses to arrays and tables.

A variable has parts: fields of structs, elements of stacks.

Behind a branch a variable is a choice between its values in the two branches. What follows a
statement that some packets leave by (return, exit) has the condition that they did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
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
from p4engine.indices.values import Facts, Graph, Guard, Value, constant_of
from p4engine.middle.instantiate import BlockInstance, ExternInstance, Instances, TableInstance

VALID = "$valid"

Path = tuple[str, ...]
Key = tuple[int, Path]  # the id of a declaration, and the way to a part of it
Tree = dict[Path, Value]  # the values of all parts of something
State = dict[Key, Value]
Back = Sequence[tuple[ast.Parameter, ast.Expr]]  # whose values go back to what


ACTION = "read and write"  # one access of an array's own unit, as a register action is


@dataclass(eq=False)
class Access:
    """An access of a packet to an array (register, counter or meter) at one place of the program.

    kind: "read", "write", "count" or ACTION. `value` is what is written.
    """

    array: ExternInstance
    kind: str
    guard: Guard
    number: int
    value: Value | None = None


@dataclass(eq=False)
class Index:
    """An index at one place of the program; `size` is that of what it is into, 0: not known."""

    name: str
    size: int
    index: Value
    guard: Guard
    place: Place


@dataclass(eq=False)
class Application:
    """A table at one place where it is applied."""

    table: TableInstance
    keys: list[Value]
    number: int


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
    """True if a type has values that a variable can hold (and not instances of externs)."""
    return all(width_of(t) is not None or t == BOOL for _, t in leaves(type_))


@dataclass
class _Frame:
    """Early exits from a body that is being followed: (guard since it began, state)."""

    depth: int
    returned: list[tuple[Guard, State]] = field(default_factory=list)
    exited: list[tuple[Guard, State]] = field(default_factory=list)


class Ways:
    """The state at one place of a program; the findings are its lists."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self.graph = Graph()
        self.accesses: list[Access] = []
        self.applications: list[Application] = []
        self.indices: list[Index] = []  # known only at run time
        self.loops: dict[Place, str] = {}  # those that cannot be followed to their end
        self._state: State | None = {}
        self._guard: Guard = ()
        self._facts: dict[Guard, Facts] = {(): Facts(self.graph)}
        self._frames: list[_Frame] = []
        self._blocks: list[BlockInstance] = []
        self._extern_arguments: dict[int, ast.Expr | None] = {}
        self._numbers = 0

    # ---- guards and branches ----

    @property
    def facts(self) -> Facts:
        """The facts at this place."""
        if self._guard not in self._facts:
            found = Facts(self.graph)
            for cut in range(len(self._guard)):
                head = self._guard[: cut + 1]
                if head not in self._facts:
                    self._facts[head] = found.with_guard(head[-1:])
                found = self._facts[head]
        return self._facts[self._guard]

    @contextmanager
    def _where(self, condition: Value, holds: bool) -> Iterator[None]:
        outer = self._guard
        self._guard = (*outer, (condition, holds))
        try:
            yield
        finally:
            self._guard = outer

    def _merge(
        self, condition: Value, yes: State | None, no: State | None, place: Place | None = None
    ) -> State | None:
        if yes is None or no is None:
            return no if yes is None else yes
        merged = dict(no)
        for key, value in yes.items():
            other = no.get(key)
            if other is None:
                merged[key] = value
            elif other is not value:
                merged[key] = self.graph.choose(condition, value, other, place or condition.place)
        return merged

    def _holds(self, guard: Guard) -> Value:
        """A value that is true where all conditions of a guard hold."""
        made = self.graph.const(True)
        for condition, holds in guard:
            if not holds:
                condition = self.graph.op("!", [condition], BOOL, condition.place)
            made = self.graph.op("&&", [made, condition], BOOL, condition.place)
        return made

    def _copy_out(self, back: Back) -> None:
        raise NotImplementedError

    def _body(self, write: Callable[[], None], back: Back = ()) -> Tree:
        """Follow a body to its end, whichever way it ends, and give parameters back to the
        arguments `back`; returns its result."""
        outside = self._guard
        frame = _Frame(len(outside))
        self._frames.append(frame)
        write()
        self._frames.pop()
        self._guard = outside
        for guard, state in reversed(frame.returned):
            self._state = self._merge(self._holds(guard), state, self._state)
        self._copy_out(back)
        behind = self._state
        for guard, state in frame.exited:
            self._state = state
            self._copy_out(back)
            if self._frames:
                outer = self._frames[-1]
                outer.exited.append(((*self._guard[outer.depth :], *guard), state))
        self._state = behind
        if not self._frames:
            for guard, state in reversed(frame.exited):
                self._state = self._merge(self._holds(guard), state, self._state)
        if self._state is None:
            return {}
        keys = [key for key in self._state if key[0] == id(frame)]
        return {key[1]: self._state.pop(key) for key in keys}

    def _indexed(self, name: str, size: int, index: Value, place: Place) -> None:
        self.indices.append(Index(name, size, index, self._guard, place))

    def _count(self) -> int:
        self._numbers += 1
        return self._numbers

    @cached_property
    def groups(self) -> dict[ExternInstance, list[Access]]:
        """The accesses to each array, in the order of the program."""
        found: dict[ExternInstance, list[Access]] = {}
        for access in self.accesses:
            found.setdefault(access.array, []).append(access)
        return found

    # ---- variables ----

    def _undefined(self, type_: Type) -> Value:
        return self.graph.make("input", "undefined", (), type_)

    def _set(self, key: Key, value: Value) -> None:
        if self._state is not None:
            self._state[key] = value

    def _get(self, key: Key, type_: Type) -> Value:
        assert self._state is not None
        if key not in self._state:
            self._state[key] = self._undefined(type_)
        return self.facts.resolved(self._state[key])

    def _store_tree(self, key: Key, tree: Tree) -> None:
        for path, value in tree.items():
            self._set((key[0], key[1] + path), value)
