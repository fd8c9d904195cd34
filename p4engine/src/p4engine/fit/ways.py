"""The ways of a packet through a program: its variables, and the conditions under which they hold.

Behind a branch a variable is a choice between its values in the two branches. What follows a
statement that some packets leave by (return, exit) has the condition that they did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from p4engine.fit.found import Access, Application, Strange
from p4engine.fit.parts import Key, Tree
from p4engine.fit.values import Facts, Graph, Guard, Value
from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.types import BOOL, Type
from p4engine.middle.instantiate import BlockInstance, ExternInstance, Instances

State = dict[Key, Value]
Back = Sequence[tuple[ast.Parameter, ast.Expr]]  # whose values go back to what


@dataclass
class _Frame:
    """What a body that is being followed has left early: (guard since it began, state)."""

    depth: int
    returned: list[tuple[Guard, State]] = field(default_factory=list)
    exited: list[tuple[Guard, State]] = field(default_factory=list)


class Ways:
    """The state at one place of a program; the findings are its lists."""

    def __init__(self, instances: Instances, diagnostics: Diagnostics) -> None:
        self.instances, self.diagnostics = instances, diagnostics
        self.graph = Graph()
        self.accesses: list[Access] = []
        self.applications: list[Application] = []
        self.strange: dict[Strange, None] = {}
        self.touched: set[Key] = set()  # what is read or written of the variables
        self.ends: list[Value] = []  # what the packet leaves with
        self._state: State | None = {}
        self._guard: Guard = ()
        self._facts: dict[Guard, Facts] = {(): Facts(self.graph)}
        self._needed: dict[Guard, list[Value]] = {}
        self._frames: list[_Frame] = []
        self._blocks: list[BlockInstance] = []
        self._extern_arguments: dict[int, ast.Expr | None] = {}
        self._constants: dict[int, ast.Const] = {}
        self._numbers = 0

    # ---- guards and branches ----

    @property
    def facts(self) -> Facts:
        """What is known at this place."""
        if self._guard not in self._facts:
            found = Facts(self.graph)
            for cut in range(len(self._guard)):
                head = self._guard[: cut + 1]
                if head not in self._facts:
                    self._facts[head] = found.with_guard(head[-1:])
                found = self._facts[head]
        return self._facts[self._guard]

    def _conditions(self) -> list[Value]:
        """The conditions of this place, without what the others imply."""
        if self._guard not in self._needed:
            rest = list(self._guard)
            for each in self._guard:
                others = tuple(c for c in rest if c is not each)
                if Facts(self.graph).with_guard(others).truth(each[0]) == each[1]:
                    rest.remove(each)
            self._needed[self._guard] = [
                Facts(self.graph)
                .with_guard(tuple(c for c in rest if c is not each))
                .resolved(each[0])
                for each in rest
            ]
        return self._needed[self._guard]

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
        """Whether all conditions of a guard hold, as a value."""
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

    def _strange(self, place: Place, text: str) -> None:
        self.strange[Strange(place, text)] = None

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
            self.touched.add(key)

    def _get(self, key: Key, type_: Type) -> Value:
        assert self._state is not None
        self.touched.add(key)
        if key not in self._state:
            self._state[key] = self._undefined(type_)
        return self.facts.resolved(self._state[key])

    def _store_tree(self, key: Key, tree: Tree) -> None:
        for path, value in tree.items():
            self._set((key[0], key[1] + path), value)
