"""The pytest plugin of every test folder here: the option `--slow`, and reasons to skip a ring.

A test's ring is the folder below `tests` that it lies in (unit, switch, network), so a test file
needs no marker of its own. A skipped test shows its reason in pytest's summary.

Tests can run side by side (`-n`), but what runs against the real clock must not compete with its
like: all tests outside the rings unit and switch form one group, and come last.

A conftest.py takes `pytest_addoption` from `p4engine_testing.load`; however many do, the plugin is
there once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from p4engine.backend.c_build import find_c_compiler

SIDE_BY_SIDE = ("unit", "switch")
MARKERS = (
    "slow: takes long; runs only with --slow (./test --all)",
    "switch: needs a C compiler, but neither root nor a network",
    "network: builds a network; needs root",
)
TOOLS = ("ip", "unshare", "nsenter", "sysctl")

# The first call of a compiled function loads it; that is no sign of a flaky test.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def why_no_network() -> str | None:
    """The reason why no network can be built here, None where one can."""
    if os.geteuid() != 0:
        return "network tests need root (sudo ./test)"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"network tests need {', '.join(missing)}" if missing else None


def ring(path: Path) -> str | None:
    """The folder below the innermost `tests` on the way to a test file."""
    parts = path.parts[:-1]
    below = len(parts) - parts[::-1].index("tests") if "tests" in parts else len(parts)
    return parts[below] if below < len(parts) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_network = why_no_network()
    no_compiler = None if find_c_compiler() else "no C compiler (cc, gcc or clang)"
    for item in items:
        where = ring(Path(item.path))
        if where is None:
            continue
        if where not in SIDE_BY_SIDE:
            item.add_marker(pytest.mark.xdist_group("real clock"))
        if where == "network":
            item.add_marker(pytest.mark.network)
            if no_network:
                item.add_marker(pytest.mark.skip(reason=no_network))
        elif where == "switch":
            item.add_marker(pytest.mark.switch)
            if no_compiler:
                item.add_marker(pytest.mark.skip(reason=no_compiler))
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --slow (./test --all)"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is not None)
