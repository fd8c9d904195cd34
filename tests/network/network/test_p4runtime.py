"""P4Runtime of a switch in a Mininet network, with finsy as its controller."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "learning.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_finsy_controller_learns_its_hosts():
    if importlib.util.find_spec("finsy") is None:
        pytest.skip("finsy is not installed")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(free_port())],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost: 0 %" in done.stdout
    for number in (1, 2, 3):
        assert f"02:00:00:00:00:0{number} is at port {number}" in done.stdout
    assert "after the controller has written it: 0" in done.stdout


@pytest.mark.slow
def test_two_switches_in_an_ordinary_script():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE.with_name("two_switches.py"))],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "s2: " in done.stdout and " frames of unknown stations" in done.stdout
