"""A system says itself how an ended job's switch memory becomes free."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.dataplane import release
from testbed.systems import SYSTEMS


class Calls(list):
    def register_write(self, *arguments: object) -> None:
        self.append(arguments)


def released(**changes: Any) -> Calls:
    experiment: Any = SimpleNamespace(system_entry=replace(SYSTEMS["switchml"], **changes))
    calls = Calls()
    release(experiment, 3, calls)
    return calls


def test_divided_memory_of_another_layout_is_released_by_its_own_function():
    def own(experiment: Any, job: int, calls: Any) -> None:
        calls.register_write("my_part", job, 0)

    assert released(release=own) == [("my_part", 3, 0)]


def test_a_shared_pool_marks_the_job_as_gone_unless_told_otherwise():
    field = type(SYSTEMS["esa"]).__dataclass_fields__["release"]
    assert released(release=field.default) == [("job_gone", 3, 1)]


@pytest.mark.parametrize("name", ["ps", "ring"])
def test_a_system_without_switch_memory_releases_nothing(name):
    experiment: Any = SimpleNamespace(system_entry=SYSTEMS[name])
    release(experiment, 0, None)
