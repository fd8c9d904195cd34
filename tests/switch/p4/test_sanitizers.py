"""The switch programs of the testbed under the sanitizers, with random packets and table operations
(the P4 engine's own tests do this with its programs)."""

from __future__ import annotations

import pytest
from p4engine_testing.sanitizers import fuzz

from tests.support.paths import P4

PROGRAMS = ("esa.p4", "atp.p4", "switchml.p4")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_programs_run_cleanly():
    options = [word for name in PROGRAMS for word in ("--program", P4 / name)]
    fuzz(0, 0, 2200, *options)
