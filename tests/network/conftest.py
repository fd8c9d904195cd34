"""Network tests leave nothing behind, and each one is checked for it."""

from __future__ import annotations

import time

import pytest

from tests.leftovers import leftovers, why_no_network


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Compare processes, interfaces, namespaces and run files before and after each test.

    The kernel takes interfaces and dead processes away a moment after their last user is gone, so a
    difference gets five seconds to vanish before it counts.
    """
    if why_no_network():
        yield
        return
    before = leftovers()
    yield
    deadline = time.monotonic() + 5
    while (left := leftovers() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "left behind:\n" + "\n".join(sorted(left))
