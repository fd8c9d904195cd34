"""Checks that need several sections of an experiment file, and the way that they are asked.

A check names what it needs as parameters: sections by attribute name, or what other checks have
found out (`network`, `entry`, `ways`: resolve.py). It is asked only if all of that is known, so a
section that is not sound has its own errors and causes no others. A parameter with a default may
be unknown.

Most checks are rows, a `Rule`: the key, when it is wrong, the sentence. The others are steps:
functions that yield problems and, as dictionaries, what they find out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.errors import did_you_mean, sentence

Known = dict[str, Any]  # sections and facts, by name
Found = Iterator[Problem | Known]  # of a step; None in its dictionaries: no longer known
EACH = "[*]."


@dataclass(frozen=True)
class Rule:
    """`at`: the path of the key; `jobs[*].numbers` is a key of each job, which `wrong` gets as
    `each`. `says` shows what is known in braces, and as `{found}` what `wrong` returns."""

    at: str
    wrong: Callable[..., object]
    says: str = "{found}"

    def problems(self, known: Known, place: Path = ()) -> Iterator[Problem]:
        """Problem of each key that is wrong. `place`: of the section that `at` is a path in."""
        section, _, key = self.at.rpartition(EACH)
        keys = tuple(key.split(".")) if key else ()
        if not section:
            yield from self._problem(known, (*place, *keys))
            return
        for number, each in enumerate(known.get(section, ())):
            yield from self._problem({**known, "each": each}, (*place, section, number, *keys))

    def _problem(self, known: Known, path: Path) -> Iterator[Problem]:
        if (needed := arguments(self.wrong, known)) is not None and (found := self.wrong(**needed)):
            yield Problem(path, self.says.format_map({**known, "found": found}))


def arguments(function: Callable[..., object], known: Known) -> Known | None:
    """The arguments of a check; None if something that it needs is not known."""
    found: Known = {}
    for name, needed in _parameters(function):
        if name in known:
            found[name] = known[name]
        elif needed:
            return None
    return found


@functools.cache
def _parameters(function: Callable[..., object]) -> list[tuple[str, bool]]:
    """(name, True if there is no default)."""
    parameters = inspect.signature(function).parameters.items()
    return [(name, each.default is each.empty) for name, each in parameters]


def ask(step: Rule | Callable[..., Found], known: Known) -> list[Problem]:
    """Problems that a check finds. What it finds out is added to `known`."""
    if isinstance(step, Rule):
        return list(step.problems(known))
    if (needed := arguments(step, known)) is None:
        return []
    problems = []
    for found in step(**needed):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        for name, value in found.items():
            known[name] = value
            if value is None:
                del known[name]
    return problems


def ask_all(rules: Iterable[Rule], place: Path, known: Known) -> list[Problem]:
    """Problems of the section at `place`, which is among what is known."""
    return [problem for rule in rules for problem in rule.problems(known, place)]


def not_among(name: str, known: Iterable[str], others: Iterable[str], what: str) -> str:
    """A message about a node that is none of the `known` ones, but maybe one of the `others`, which
    are called `what`; "" if it is."""
    names = list(known)
    if name in names:
        return ""
    where = f"is {what}" if name in others else "is not in the topology"
    return sentence(f"{name} {where}", did_you_mean(name, names))
