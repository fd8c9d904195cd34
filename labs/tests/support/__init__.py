"""Helpers of the labs' tests.

class_folders       a class on the disk, with a grader that runs nothing
rehearsal           a class of 30 to mark, with changed solutions
hostile_submission  submissions that try to do harm
ordinary_user       a part of a test as a user without privileges
wrong_solutions     solutions that are wrong and look right
mutants             systematic changes of the solutions; with lab_changes, those of labs alone

mutants uses the finders of changes in tests/support/mutants, so it needs the testbed's checkout.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from labs.grader.lab import LABS

ROOT = LABS.parent  # the checkout


def first_of(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters for all values; those behind the first `count` are slow."""
    made = []
    for number, value in enumerate(values):
        parts = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*parts, marks=() if number < count else pytest.mark.slow))
    return made


class InProcess:
    """A student's class as a lab's network sees it (bench.Python), in this process."""

    def __init__(self, kind: type) -> None:
        self.kind, self.made = kind, []

    def make(self, name: str, *arguments: Any) -> int:
        self.made.append(self.kind(*arguments))
        return len(self.made) - 1

    def methods(self, calls: Iterable[tuple[int, str, list]]) -> list:
        return [getattr(self.made[n], name)(*arguments) for n, name, arguments in calls]

    def method(self, number: int, name: str) -> Any:
        return getattr(self.made[number], name)()
