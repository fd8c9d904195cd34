"""The switch process between veth pairs, under the address and undefined behaviour sanitizers."""

from __future__ import annotations

import pytest
from p4engine_testing.sanitizers import sanitized


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_of_the_switch_process_find_nothing():
    process = sanitized("-m", "pytest", "-q", "network/test_switch_veth.py")
    output = process.communicate()[0]
    assert process.returncode == 0, output[-6000:]
    assert " passed" in output and "skipped" not in output, output
