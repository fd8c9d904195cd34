"""What is missing on a machine is named, all of it at once, with the remedy."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

from testbed.errors import UserError
from testbed.run import preflight


@pytest.fixture
def bare_machine(monkeypatch):
    """Root on a machine that has nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)


def test_all_that_is_missing_is_named_at_once(bare_machine):
    with pytest.raises(UserError) as caught:
        preflight.require_machine()
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Mininet is missing",
        "there is no C compiler (cc), which P4 programs are compiled with",
        "the command `ip` (iproute2) is missing",
        "the command `ifconfig` (net-tools) is missing",
    ]
    assert all("sudo ./demo" in line for line in lines)


def test_root_comes_first(bare_machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="^a run needs root: start it with sudo$"):
        preflight.require_machine()


def test_a_run_without_mininet_is_one_message(bare_machine, capsys):
    """It is said before anything imports Mininet, which the run's own modules do."""
    from testbed.run.commands import main

    assert main(["experiments/quickstart.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: Mininet is missing: run `sudo ./demo`")
