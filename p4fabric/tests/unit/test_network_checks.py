"""Checks of a network file on Mininet, with commands on this machine."""

from __future__ import annotations

import subprocess
import time
from types import SimpleNamespace

from p4fabric.netfile import network_run


class Host:
    """In place of Mininet's host, whose mnexec makes a command a group of its own, too."""

    def popen(self, words, **options):
        return subprocess.Popen(words, start_new_session=True, **options)


def test_a_command_that_takes_too_long_ends_with_all_it_has_started(tmp_path, monkeypatch):
    """Its shell's children hold the pipe of what it prints."""
    monkeypatch.setattr(network_run, "COMMAND_S", 0.2)
    plan = SimpleNamespace(folder=tmp_path)
    checks = network_run.Checks({"h1": Host()}, plan)
    begun = time.monotonic()
    check = SimpleNamespace(on="h1", run="sleep 30 | cat; true", prints=None)
    assert checks._command(check) == "not done after 0.2 s"
    assert time.monotonic() - begun < 20
