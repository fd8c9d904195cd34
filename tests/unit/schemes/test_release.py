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
    scheme_of(name).release(PLATFORM, JOB, "s1", calls)
    assert calls == [("job_gone", 3, 1)]


@pytest.mark.parametrize("name", ["ps", "ring"])
def test_a_system_without_switch_memory_releases_nothing(name):
    scheme_of(name).release(PLATFORM, JOB, "s1", None)


def test_switchml_ends_what_is_still_in_its_slots():
    """One set is filling since 70, one has been held since 90; it is 100 now."""
    part = SimpleNamespace(base=2, slots=2)
    job: Any = SimpleNamespace(group=SimpleNamespace(number=3, slots=part))
    platform: Any = SimpleNamespace(
        arrivals=True, switch="embedded", options=SimpleNamespace(sets=2)
    )
    asked: list[list[tuple]] = []

    def batch(calls):
        asked.append(calls)
        kept = {
            **{"first_state": [1, 0], "second_state": [2, 3]},
            **{"first_since": [70, 5], "second_since": [90, 6]},
            **{"endings": [4], "filling_time": [1000], "releases": [6], "held_time": [2000]},
        }
        return [{"timestamp": 100} if call == ("stats",) else kept.get(call[1]) for call in calls]

    scheme_of("switchml").release(platform, job, "s1", SimpleNamespace(batch=batch))
    written = {call[1]: call[2:] for call in asked[-1]}
    assert written == {
        **{f"{each}_state": ((2, 4), 0) for each in ("first", "second")},
        **{f"{each}_bitmap": ((2, 4), 0) for each in ("first", "second")},
        "endings": (3 * 4 + 3, 5),
        "filling_time": (3 * 4 + 3, 1030),
        "releases": (3, 7),
        "held_time": (3, 2010),
    }
