"""A system says itself how an ended job's switch memory becomes free."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.dataplane import release
from testbed.systems import SYSTEMS

JOB: Any = SimpleNamespace(group=SimpleNamespace(number=3))


class Calls(list):
    def register_write(self, *arguments: object) -> None:
        self.append(arguments)


def released(**changes: Any) -> Calls:
    platform: Any = SimpleNamespace(system=replace(SYSTEMS["switchml"], **changes))
    calls = Calls()
    release(platform, JOB, calls)
    return calls


def test_divided_memory_of_another_layout_is_released_by_its_own_function():
    def own(platform: Any, job: Any, calls: Any) -> None:
        calls.register_write("my_part", job.group.number, 0)

    assert released(release=own) == [("my_part", 3, 0)]


def test_a_shared_pool_marks_the_job_as_gone_unless_told_otherwise():
    field = type(SYSTEMS["esa"]).__dataclass_fields__["release"]
    assert released(release=field.default) == [("job_gone", 3, 1)]


@pytest.mark.parametrize("name", ["ps", "ring"])
def test_a_system_without_switch_memory_releases_nothing(name):
    platform: Any = SimpleNamespace(system=SYSTEMS[name])
    release(platform, JOB, None)
