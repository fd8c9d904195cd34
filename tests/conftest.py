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
FLAGS = "P4ENGINE_CFLAGS"
QUICK = "-O1"  # behind the usual -O3: a program takes two thirds of the time, packets little more


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_without_mininet(items, Path(__file__).parent / "network")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """In the rings unit and switch, which compile hundreds of P4 programs, the C compiler is quick.
    Other rings, and all with --slow, have the programs that users have."""
    with pytest.MonkeyPatch.context() as patch:
        from p4engine_testing.rings import ring

        quick = ring(item) in ("unit", "switch") and not item.config.getoption("--slow")
        if quick and FLAGS not in os.environ:
            patch.setenv(FLAGS, QUICK)
        return (yield)


@pytest.fixture(autouse=True)
def signals_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that tests call in this process leave its signals alone."""
    monkeypatch.setattr("p4fabric.base.interrupts.install", lambda: None)


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
