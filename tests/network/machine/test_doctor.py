"""`run.py doctor` on a real machine. This ring's fixture checks that it leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT


def test_it_finds_what_these_tests_need():
    command = [sys.executable, str(ROOT / "run.py"), "doctor"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    for thing in ("root", "kernel: namespaces", "kernel: veth", "kernel: packet sockets"):
        assert f"ok       {thing}" in lines
    assert any(line.startswith("ok       Mininet: 2.") for line in lines)
    assert done.returncode == 0, done.stdout + done.stderr
