"""The rings share `--slow` and the reasons to skip one: see p4engine_testing/rings.py. The ring
network also needs Mininet."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from p4engine_testing.load import pytest_addoption

os.environ["INA_PLUGINS"] = "off"  # what a user has installed is no part of the tests

__all__ = ["pytest_addoption"]
NETWORK = Path(__file__).parent / "network"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("mininet") is not None:
        return
    reason = "network tests need Mininet (sudo ./demo installs it)"
    for item in items:
        if NETWORK in Path(item.path).parents:
            item.add_marker(pytest.mark.skip(reason=reason))
