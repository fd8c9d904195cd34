"""A law: a statement about a run's tables, its formula, and a comparison of both sides; and the
verdicts on a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from p4fabric.base.errors import RunError

FAILED = "the run has not finished"
MOST_BROKEN = 20  # lines
Place = str | tuple[object, ...]  # words of it; they are joined only where a law is broken


@dataclass
class Held:
    """The two sides of a law, place by place: how many pairs were `compared`, and the `violations`,
    each with its place and both numbers."""

    compared: int = 0
    violations: list[str] = field(default_factory=list)

    def equal(self, place: Place, what: str, value: object, other: str, expected: object) -> None:
        """Comparison of values that must be equal."""
        self._note(value == expected, place, what, value, "but", other, expected)

    def at_most(self, place: Place, what: str, value: Any, other: str, limit: Any) -> None:
        """Comparison of values with upper bounds."""
        self._note(value <= limit, place, what, value, "exceeds", other, limit)

    def _note(self, holds: bool, place: Place, what: str, value: Any, *other: Any) -> None:
        self.compared += 1
        if not holds:
            place = place if isinstance(place, str) else " ".join(map(str, place))
            between, name, limit = other
            self.violations.append(f"{place}: {what} {value} {between} {name} {limit}")


@dataclass(frozen=True)
class Law:
    """states: what holds, in a sentence. formula: the same with names of tables and columns.
    unless: why there may be nothing to compare. to_end: only runs that have finished keep it.
    check: compares both sides in what it gets, Tables or Results."""

    name: str
    states: str
    formula: str
    unless: str
    to_end: bool
    check: Callable[[Any, Held], None]


def law(
    name: str, states: str, formula: str, unless: str, to_end: bool = False
) -> Callable[[Callable[[Any, Held], None]], Law]:
    """Makes a law of a function that compares both of its sides."""
    return lambda check: Law(name, states, formula, unless, to_end, check)


def laws_in(*modules: ModuleType) -> tuple[Law, ...]:
    """The laws of modules, in their order."""
    return tuple(
        each for module in modules for each in vars(module).values() if isinstance(each, Law)
    )


@dataclass(frozen=True)
class Verdict:
    """Outcome of a law: the number of compared pairs of numbers, and the places of those that
    differ; `exempt`: why nothing was compared, else ""."""

    law: Law
    compared: int
    violations: tuple[str, ...]
    exempt: str

    @classmethod
    def of(cls, law: Law, held: Held, finished: bool = True) -> Verdict:
        why = FAILED if law.to_end and not finished else law.unless
        return cls(law, held.compared, tuple(held.violations), "" if held.compared else why)


def broken(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each violation, with the law's name."""
    return [f"{each.law.name}: {line}" for each in verdicts for line in each.violations]


def require(verdicts: Iterable[Verdict], folder: Path) -> None:
    """Raise RunError if a run has broken laws. folder: of its results."""
    if lines := broken(verdicts):
        text = "\n".join(lines[:MOST_BROKEN])
        raise RunError(f"{folder} breaks {len(lines)} laws:\n{text}")
