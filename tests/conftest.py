"""All rings of tests share `--slow` and the reasons for which a ring is skipped: see
p4engine/tests/p4engine_testing/rings.py. The ring network here also needs Mininet."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from p4engine_testing.load import pytest_addoption
from p4fabric_testing.networks import skip_without_mininet

os.environ["INA_PLUGINS"] = "off"  # what a user has installed is no part of the tests
os.environ["INA_LAWS"] = "hold"  # every run that a test makes, in a process of its own as well
pytest.register_assert_rewrite("tests.support.runs")  # failures there show values, as in tests

__all__ = ["pytest_addoption"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_without_mininet(items, Path(__file__).parent / "network")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A test fails if a packet of it breaks the contract of the wire."""
    taps = sys.modules.get("tests.support.wire_tap")
    try:
        result = yield
    except BaseException:
        if taps:
            taps.TAP.forget()
        raise
    if taps:
        taps.TAP.check()
    return result
