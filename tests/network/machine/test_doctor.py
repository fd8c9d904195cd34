"""`ina doctor` on a real machine. This ring's fixture checks that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

from p4engine.cli.main import main
from p4engine.cli.shims_command import find_real

from tests.support.paths import ROOT


def test_it_finds_what_these_tests_need():
    command = [sys.executable, str(ROOT / "run.py"), "doctor"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    for thing in ("root", "kernel: namespaces", "kernel: veth", "kernel: packet sockets"):
        assert f"ok       {thing}" in lines
    assert any(line.startswith("ok       Mininet: 2.") for line in lines)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stand_ins_are_named_and_are_not_bmv2(tmp_path, monkeypatch):
    assert main(["shims", str(tmp_path)]) == 0
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    command = [sys.executable, str(ROOT / "run.py"), "doctor"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for thing, names in (
        ("P4 compiler p4c", ("p4c-bm2-ss", "p4c")),
        ("BMv2 simple_switch", ("simple_switch",)),
    ):
        [line] = [line for line in done.stdout.splitlines() if f" {thing}: " in line]
        if any(map(find_real, names)):
            assert line.startswith("ok ") and str(tmp_path) not in line
        else:
            assert line.startswith("missing ")
            assert f"{tmp_path / names[0]} is a stand-in that runs p4engine" in line
