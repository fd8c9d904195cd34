"""What all rings of tests share: the `--slow` option and the reasons for which a ring is
skipped.

A test's ring is the folder that it lies in (unit, switch, network), so a test file needs no marker
of its own. A skipped test shows its reason in pytest's summary.

Tests can run side by side (`-n`), but what runs against the real clock must not compete with its
like: all tests outside the rings unit and switch form one group, and come last.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from p4engine.backend.c_compiler import find_c_compiler

from tests.leftovers import why_no_network

HERE = Path(__file__).parent
SIDE_BY_SIDE = ("unit", "switch")

# The first call of a compiled function loads it; that is no sign of a flaky test.
settings.register_profile("testbed", deadline=None)
settings.load_profile("testbed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_network = why_no_network()
    no_compiler = None if find_c_compiler() else "no C compiler (cc, gcc or clang)"
    for item in items:
        try:
            ring = Path(item.path).relative_to(HERE).parts[0]
        except ValueError:
            continue
        if ring not in SIDE_BY_SIDE:
            item.add_marker(pytest.mark.xdist_group("real clock"))
        if ring == "network":
            item.add_marker(pytest.mark.network)
            if no_network:
                item.add_marker(pytest.mark.skip(reason=no_network))
        elif ring == "switch":
            item.add_marker(pytest.mark.switch)
            if no_compiler:
                item.add_marker(pytest.mark.skip(reason=no_compiler))
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow: runs with --slow (./test --all)"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is not None)
