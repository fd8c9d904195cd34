"""Network tests leave nothing behind, and each one is checked for it."""

from __future__ import annotations

import pytest
from p4engine_testing.leftovers import nothing_left
from p4engine_testing.rings import why_no_network

from tests.leftovers import leftovers


@pytest.fixture(autouse=True)
def nothing_left_behind():
    if why_no_network():
        yield
        return
    with nothing_left(leftovers):
        yield
