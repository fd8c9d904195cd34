"""Network tests leave nothing behind, and each one is checked for it. The children of spawners find
`p4fabric_testing`."""

import pytest
from p4fabric.base.program import import_path
from p4fabric_testing import TESTS
from p4fabric_testing.networks import nothing_left_behind

__all__ = ["nothing_left_behind"]


@pytest.fixture(autouse=True)
def children_find_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{import_path()}:{TESTS}")
