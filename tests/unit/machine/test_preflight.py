"""All that a machine lacks is named at once, with the remedy."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from p4fabric.base.errors import UserError
from p4fabric.emulate import network_needs

from testbed.experiment import load_text
from testbed.machine import doctor, preflight
from tests.support.experiments import BASE
from tests.support.paths import ROOT


@pytest.fixture
def bare_machine(monkeypatch):
    """Root on a machine that has nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(network_needs, "lost_capabilities", list)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has capabilities to lose")
@pytest.mark.parametrize("name", network_needs.CAPABILITIES)
def test_a_capability_that_root_has_lost_is_named(name):
    lost = name.removeprefix("CAP_").lower()
    command = ["setpriv", "--bounding-set", f"-{lost}", sys.executable, "run.py"]
    command += ["experiments/quickstart.yaml", "--results", "/dev/null"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: root lacks capabilities here that a run needs: {name}; ")
    assert "--privileged" in line


def test_all_that_is_missing_is_named_at_once(bare_machine):
    with pytest.raises(UserError) as caught:
        network_needs.require_network(preflight.set_up())
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Mininet is missing",
        "there is no C compiler (cc), which P4 programs are compiled with",
        "the command `ip` (iproute2) is missing",
        "the command `ifconfig` (net-tools) is missing",
    ]
    assert all("./demo`, which" in line for line in lines)


def test_root_comes_first(bare_machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="^a run needs root: start it with sudo$"):
        network_needs.require_network(preflight.set_up())


def test_a_run_without_mininet_is_one_message(bare_machine, capsys):
    """It is said before anything imports Mininet, which the run's own modules do."""
    from testbed.cli.main import main

    assert main(["experiments/quickstart.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: Mininet is missing: run `")


def test_what_bmv2_lacks_is_named_at_once_with_what_mends_it(monkeypatch):
    def lack(thing: str, remedy: str) -> doctor.Finding:
        return doctor.Finding(thing, doctor.MISSING, "not here", remedy, doctor.ONLY_BMV2)

    there = doctor.Finding("BMv2 simple_switch", doctor.OK, "", "", doctor.ONLY_BMV2)
    features = [lack("kernel: HTB", "load htb"), lack("kernel: netem", "load netem")]
    tools = [lack("P4 compiler p4c", "get p4c"), there]
    monkeypatch.setattr(doctor, "bmv2_tools", lambda: tools)
    monkeypatch.setattr(doctor, "traffic_control", lambda: there)
    monkeypatch.setattr(doctor, "kernel_features", lambda: features)
    links = "bandwidth: 100 Mbit/s\n  delay: 10 us"
    for needs, lacking in (
        ("bandwidth: 1 Mbit/s", ["p4c", "load htb"]),
        ("loss: 1 %", ["p4c", "load netem"]),
        ("queue: 9 packets", ["p4c"]),
    ):
        experiment = load_text(BASE.replace(links, needs) + "switch: bmv2\n")
        with pytest.raises(UserError) as caught:
            preflight.require_bmv2([experiment])
        first, *lines, last = str(caught.value).splitlines()
        assert first == "switch: bmv2 cannot work here. What is missing, and the remedy:"
        assert [line.split(" -> ")[1].removeprefix("get ") for line in lines] == lacking
        assert last.startswith("`switch: embedded` needs none of it")
