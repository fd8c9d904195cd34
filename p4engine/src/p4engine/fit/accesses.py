"""The most accesses of a packet to an array, where a read and a write can be one.

A pipeline reads an array's element, computes its new value and writes it back in one access. So a
read and a later write at the same index are one access, if the new value comes from the old one by
what the array's own ALU does, and from data that are there before. Accesses under conditions that
exclude each other do not add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from p4engine.fit.flow import Flow
from p4engine.fit.values import Facts, Graph, Guard, Value
from p4engine.fit.ways import ACTION, Access, Application

MANY = 4000  # ways through a program's accesses to one array that are looked at


@dataclass(frozen=True)
class Way:
    """The accesses to one array on one way through the program, those that are one together."""

    accesses: tuple[tuple[Access, ...], ...]

    @property
    def count(self) -> int:
        return len(self.accesses)

    @property
    def size(self) -> tuple[int, int]:
        """Accesses, and reads and writes."""
        return self.count, sum(map(len, self.accesses))


class Together:
    """Conditions that can hold together for one packet."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._facts: dict[Guard, Facts] = {}

    def facts(self, guard: Guard) -> Facts:
        """The facts where all of these hold."""
        if guard not in self._facts:
            self._facts[guard] = Facts(self.graph).with_guard(guard)
        return self._facts[guard]

    def same_index(self, one: Access, other: Access) -> bool:
        """Do two accesses of one packet go to the same element?"""
        if one.index is other.index:
            return True
        guard = self.join(one.guard, other.guard)
        if guard is None:
            return False
        facts = self.facts(guard)
        return facts.resolved(one.index) is facts.resolved(other.index)

    def join(self, one: Guard, other: Guard) -> Guard | None:
        """Both guards, or None if they exclude each other."""
        new = tuple(c for c in other if c not in one)
        if not new:
            return one
        joined = (*one, *new)
        return joined if self.facts(joined).possible else None


class Sources:
    """Sources from which values are computed, through tables too."""

    def __init__(self, flow: Flow) -> None:
        self.circular: set[object] = set()  # arrays that are read and written in different stages
        self._applied = {a.number: a for a in flow.applications}

    def of(self, value: Value) -> Sequence[Value]:
        """The values from which one is computed in one step; none for what an array gave."""
        if value.kind not in ("hit", "action", "data"):
            return value.args
        number = value.data if isinstance(value.data, int) else value.data[0]  # type: ignore[index]
        application = self._applied[number]
        return [*application.keys, *application.conditions]

    def all(self, values: Iterable[Value]) -> Iterator[Value]:
        """These values and all from which they are computed, up to what arrays gave."""
        seen: set[Value] = set()
        todo = list(values)
        while todo:
            value = todo.pop()
            if value not in seen:
                seen.add(value)
                yield value
                todo += self.of(value)

    def is_own(self, write: Access, reads: list[Access]) -> bool:
        """True if the new value comes from the old one without a table or hash in between."""
        if write.array in self.circular:
            return False
        old = {r.result for r in reads}
        assert write.value is not None
        detours = [
            value
            for value in self.all([write.value, *write.conditions])
            if value.kind not in ("op", "choose", "read")
        ]
        return not any(v in old for v in self.all(detours))


def worst_way(accesses: list[Access], together: Together, sources: Sources) -> Way:
    """The way with the most accesses to an array, of these the one with the most reads and writes,
    and of these the first in the program."""
    worst = Way(())
    for way in islice(_ways(accesses, 0, (), together), MANY):
        found = Way(tuple(merged(way, together, sources)))
        if found.size > worst.size:
            worst = found
    return worst


def most_together(uses: list[Application], together: Together) -> list[Application]:
    """The longest list of applications of a table that one packet makes."""
    return max(islice(_ways(uses, 0, (), together), MANY), key=len)


Use = TypeVar("Use", bound=Access | Application)


def _ways(uses: list[Use], first: int, guard: Guard, together: Together) -> Iterator[list[Use]]:
    """The sets of accesses, or of applications of a table, that one packet can make."""
    for place in range(first, len(uses)):
        joined = together.join(guard, uses[place].guard)
        if joined is None:
            continue
        for rest in _ways(uses, place + 1, joined, together):
            yield [uses[place], *rest]
        if joined == guard:
            return  # every packet that comes here makes this access
    yield []


def merged(way: list[Access], together: Together, sources: Sources) -> Iterator[tuple[Access, ...]]:
    """The accesses of a way, those that are one access together."""
    current: list[Access] = []
    for access in way:
        joins = (
            current
            and access.kind not in ("count", ACTION)
            and all(c.kind == "read" and together.same_index(c, access) for c in current)
            and (access.kind == "read" or sources.is_own(access, current))
        )
        if current and not joins:
            yield tuple(current)
            current = []
        current.append(access)
    if current:
        yield tuple(current)


def outside_of(write: Access, old: set[Value | None]) -> list[Value]:
    """The values that an array's ALU needs beside the old ones to make a write's new value."""
    depends: dict[Value, bool] = {}
    found: dict[Value, None] = {}
    seen: set[Value] = set()

    def own(value: Value) -> bool:
        if value not in depends:
            depends[value] = value in old or any([own(a) for a in value.args])
        return depends[value]

    def visit(value: Value) -> None:
        if value in old or value in seen:
            return
        seen.add(value)
        if own(value):
            for each in value.args:
                visit(each)
        else:
            found[value] = None

    assert write.value is not None
    for value in (write.value, *write.conditions):
        visit(value)
    return list(found)
