"""All tests know the plugin `p4engine_testing.rings`; those of networks also need Mininet."""

import os
from pathlib import Path

import pytest
from p4engine_testing.load import pytest_addoption
from p4fabric.base import program
from p4fabric_testing import TESTS
from p4fabric_testing.networks import skip_without_mininet

os.environ["P4FABRIC_LAWS"] = "hold"  # every run that a test makes, in a process of its own as well

__all__ = ["pytest_addoption"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_without_mininet(items, Path(__file__).parent / "network")


@pytest.fixture(autouse=True)
def this_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of another house runs, even if its package is imported. Processes that tests
    start, and spawners' children, find this p4fabric and its helpers."""
    monkeypatch.setattr(program, "_running", program.Program("p4fabric"))
    monkeypatch.setenv("PYTHONPATH", f"{program.import_path()}:{TESTS}")
