"""All tests know the plugin `p4engine_testing.rings`; those of networks also need Mininet."""

import os
from pathlib import Path

import pytest
from p4engine_testing.load import pytest_addoption
from p4fabric.base.program import import_path
from p4fabric_testing import TESTS
from p4fabric_testing.networks import skip_without_mininet

os.environ["P4FABRIC_LAWS"] = "hold"  # every run that a test makes, in a process of its own as well

__all__ = ["pytest_addoption"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_without_mininet(items, Path(__file__).parent / "network")


@pytest.fixture(autouse=True)
def children_find_what_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that tests start, and spawners' children, find this p4fabric and its helpers."""
    monkeypatch.setenv("PYTHONPATH", f"{import_path()}:{TESTS}")
