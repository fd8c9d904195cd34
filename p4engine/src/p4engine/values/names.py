"""The meaning of a name: an object of the program by its full name or by an unambiguous ending.

p4c names objects by where they are (`RouterIngress.switching`); users, commands, tests and network
files may leave out what is in front of a dot. This is the one place that decides what is meant, and
the one message about a name that means nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from p4engine.program_info import (
    Action,
    ActionProfile,
    Counter,
    Meter,
    ProgramInfo,
    Register,
    Table,
    ValueSet,
)
from p4engine.values.numbers import ControlError

MAX_NAMES = 12  # in an error
T = TypeVar("T")


class Named(Protocol):
    """Anything with a P4 name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


class UnknownName(ControlError):
    """A name that means nothing, or more than one thing."""


def resolve(
    candidates: Iterable[tuple[str, T]],
    wanted: str,
    what: str,
    owner: str = "the program",
    any_ending: bool = False,
) -> T:
    """The object that `wanted` means.

    Args:
        candidates: (full name, object); one object may have several names.
        what: kind of the object, and `owner`: what should have it, for the error.
        any_ending: also an ending that does not begin behind a dot.
    """
    named = list(candidates)
    tests = [
        [(n, o) for n, o in named if n == wanted],
        [(n, o) for n, o in named if n.endswith(f".{wanted}")],
    ]
    if any_ending:
        tests.append([(n, o) for n, o in named if n.endswith(wanted)])
    for close in tests:
        if close and all(o is close[0][1] for _, o in close):
            return close[0][1]
        if close:
            raise UnknownName(f"{what} {wanted!r} is ambiguous: {', '.join(n for n, _ in close)}")
    raise UnknownName(
        f"there is no {what} {wanted!r}; {owner} has {_listed([n for n, _ in named], wanted)}"
    )


def find(objects: Iterable[N], wanted: str, what: str, owner: str = "the program") -> N:
    """The one of `objects` that `wanted` means."""
    return resolve([(each.name, each) for each in objects], wanted, what, owner)


class Names:
    """The objects of a program by what users call them; what a name was found to mean is kept."""

    def __init__(self, info: ProgramInfo) -> None:
        self.info = info
        self._found: dict[tuple[tuple[str, int], str], Any] = {}

    def table(self, wanted: str) -> Table:
        return self._kept("table", wanted, self.info.tables)

    def profile(self, wanted: str) -> ActionProfile:
        return self._kept("profile", wanted, self.info.profiles)

    def register(self, wanted: str) -> Register:
        return self._kept("register", wanted, self.info.registers)

    def value_set(self, wanted: str) -> ValueSet:
        return self._kept("value set", wanted, self.info.value_sets)

    def action(self, table: Table, wanted: str) -> Action:
        """An action of a table."""
        return self._known(
            ("action", table.id),
            wanted,
            lambda: find(table.actions, wanted, "action", f"table {table.name}"),
        )

    def counter(self, wanted: str) -> Counter | Table:
        """A counter; for a direct counter, by its own name or its table's, the table."""

        def search() -> Counter | Table:
            direct = [(t.direct_counter, t) for t in self.info.tables if t.direct_counter]
            return _with_direct(self.info.counters, direct, wanted, "counter")

        return self._known(("counter", 0), wanted, search)

    def meter(self, wanted: str) -> Meter | Table:
        """A meter; for a direct meter, by its own name or its table's, the table."""

        def search() -> Meter | Table:
            direct = [(t.direct_meter, t) for t in self.info.tables if t.direct_meter]
            return _with_direct(self.info.meters, direct, wanted, "meter")

        return self._known(("meter", 0), wanted, search)

    def profile_action(self, profile: ActionProfile, wanted: str) -> Action:
        """An action of the first table that uses a profile; all have the same."""
        for table in self.info.tables:
            if table.profile == profile.id:
                return self.action(table, wanted)
        raise ControlError(f"no table uses the action profile {profile.name}")

    def _kept(self, what: str, wanted: str, objects: Sequence[N]) -> N:
        return self._known((what, 0), wanted, lambda: find(objects, wanted, what))

    def _known(self, kind: tuple[str, int], wanted: str, search: Callable[[], T]) -> T:
        """The result of `search`, which is asked once for each name."""
        if not isinstance(wanted, str):  # names come through the control socket, too
            raise UnknownName(f"the name of a {kind[0]} is text, not {wanted!r}")
        found: T | None = self._found.get((kind, wanted))
        if found is None:
            found = self._found[kind, wanted] = search()
        return found


def _with_direct(
    objects: Sequence[N], direct: Sequence[tuple[str, Table]], wanted: str, what: str
) -> N | Table:
    candidates: list[tuple[str, N | Table]] = [(each.name, each) for each in objects]
    candidates += direct
    candidates += [(table.name, table) for _, table in direct]
    return resolve(candidates, wanted, what)


def _listed(names: Sequence[str], wanted: str) -> str:
    """Names for an error, those that look like the wanted one first."""
    last = wanted.rpartition(".")[2]
    by_end = {name.rpartition(".")[2]: name for name in names}
    near = [by_end[end] for end in difflib.get_close_matches(last, by_end, 3)]
    ordered = [*near, *(name for name in dict.fromkeys(names) if name not in near)]
    more = len(ordered) - MAX_NAMES
    text = ", ".join(ordered[:MAX_NAMES]) or "none"
    return f"{text} and {more} more" if more > 0 else text
