"""A scheme says how an ended job's switch memory becomes free."""

from types import SimpleNamespace
from typing import Any

import pytest

from testbed.schemes import scheme_of

JOB: Any = SimpleNamespace(group=SimpleNamespace(number=3))
PLATFORM: Any = SimpleNamespace()


class Calls(list):
    def register_write(self, *arguments: object) -> None:
        self.append(arguments)


@pytest.mark.parametrize("name", ["esa", "atp", "grid"])
def test_a_shared_pool_marks_the_job_as_gone(name):
    calls = Calls()
    scheme_of(name).release(PLATFORM, JOB, calls)
    assert calls == [("job_gone", 3, 1)]


@pytest.mark.parametrize("name", ["ps", "ring"])
def test_a_system_without_switch_memory_releases_nothing(name):
    scheme_of(name).release(PLATFORM, JOB, None)
