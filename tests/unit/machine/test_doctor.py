"""`ina doctor` names what is missing and what mends it, and says which runtimes work."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.machine import doctor, kernel_probe
from testbed.paths import module_environment

PROBE = "testbed.machine.kernel_probe"


class Machine:
    """A machine on which everything works, until a test takes things away.

    `commands` are on its PATH; a command whose arguments contain a key of `failing` fails with its
    words; `kernel` is what the probe finds; `absent` are distributions that are not installed."""

    def __init__(self) -> None:
        self.commands = {"mnexec", "ip", "ifconfig", "tc", "cc", "gcc", "apt-get"}
        self.commands |= {"p4c-bm2-ss", "simple_switch"}
        self.failing: dict[str, str] = {}
        self.kernel = dict.fromkeys(kernel_probe.FEATURES, "")
        self.absent: set[str] = set()
        self.uid = 0
        self.started: list[tuple[str, ...]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.commands else None

    def run(self, *command: str, folder: Path | None = None) -> tuple[bool, str]:
        self.started.append(command)
        for part, words in self.failing.items():
            if part in " ".join(command):
                return False, words
        return True, json.dumps(self.kernel) if PROBE in command else "1.2.3"


version = functools.cache(importlib.metadata.version)  # to look takes 10 ms


@pytest.fixture
def machine(monkeypatch) -> Machine:
    machine = Machine()

    def installed(name: str) -> str:
        if name in machine.absent:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(shutil, "which", machine.which)
    monkeypatch.setattr(doctor, "_run", machine.run)
    monkeypatch.setattr(os, "geteuid", lambda: machine.uid)
    monkeypatch.setattr(importlib.metadata, "version", installed)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("SUDO_UID", "1000")
    return machine


def finding(thing: str) -> doctor.Finding:
    (found,) = [one for one in doctor.examine() if one.thing == thing]
    return found


def working() -> set[str]:
    """The runtimes that nothing stands in the way of."""
    findings = doctor.examine()
    return {name for name in doctor.EVERY if not doctor.obstacles(findings, name)}


def test_a_machine_with_everything_lacks_nothing(machine, capsys):
    assert {found.state for found in doctor.examine()} == {doctor.OK}
    assert working() == doctor.EVERY
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "ok       Mininet: 1.2.3\n" in shown
    assert "ok       runtime: mininet, switch: embedded (the default)\n" in shown
    assert "->" not in shown


def without(machine: Machine, lack: str) -> None:
    if lack in kernel_probe.FEATURES:
        machine.kernel[lack] = "Operation not permitted"
    elif lack in machine.commands:
        machine.commands -= {lack, "gcc" if lack == "cc" else lack}
    elif lack.startswith("import "):
        machine.failing[lack] = "ModuleNotFoundError: not here"
    else:
        machine.absent.add(lack)


@pytest.mark.parametrize(
    ("lack", "thing", "remedy", "broken"),
    [
        ("mnexec", "Mininet", "sudo apt-get install mininet", doctor.MININET),
        ("import mininet.net", "Mininet", "sudo apt-get install mininet", doctor.MININET),
        ("cc", "C compiler", "sudo apt-get install gcc libc6-dev", doctor.EVERY),
        ("ip", "command ip", "sudo apt-get install iproute2", doctor.MININET),
        ("ifconfig", "command ifconfig", "sudo apt-get install net-tools", doctor.MININET),
        ("tc", "command tc", "sudo apt-get install iproute2", doctor.NOTHING),
        ("namespaces", "kernel: namespaces", "--privileged", doctor.MININET),
        ("veth", "kernel: veth", "sudo modprobe veth", doctor.MININET),
        ("packet sockets", "kernel: packet sockets", "modprobe af_packet", doctor.MININET),
        ("HTB", "kernel: HTB", "sudo modprobe sch_htb", doctor.NOTHING),
        ("netem", "kernel: netem", "sudo modprobe sch_netem", doctor.NOTHING),
        ("numpy", "Python package numpy", "-m pip install 'numpy>=", doctor.EVERY),
        ("p4c-bm2-ss", "P4 compiler p4c", "apt-get install p4lang-p4c", doctor.ONLY_BMV2),
        ("simple_switch", "BMv2 simple_switch", "p4lang-bmv2", doctor.ONLY_BMV2),
        ("import thrift", "p4utils", "apt-get install python3-thrift", doctor.ONLY_BMV2),
        ("import bm_runtime", "p4utils", "install p4lang-bmv2", doctor.ONLY_BMV2),
        ("import p4utils", "p4utils", "nsg-ethz/p4-utils", doctor.ONLY_BMV2),
    ],
)
def test_a_missing_part_is_named_with_its_remedy(machine, lack, thing, remedy, broken, capsys):
    without(machine, lack)
    found = finding(thing)
    assert found.state == doctor.MISSING
    assert remedy in found.remedy
    assert working() == doctor.EVERY - broken
    assert main(["doctor"]) == (2 if doctor.DEFAULT in broken else 0)
    assert f"missing  {thing}" in capsys.readouterr().out


def test_an_environment_that_uv_made_is_examined_without_pip(machine, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    without(machine, "numpy")
    machine.failing["import mininet.net"] = "ModuleNotFoundError: No module named 'mininet'"
    assert finding("Python package numpy").remedy.startswith("uv pip install --python /")
    assert "--system-site-packages" in finding("Mininet").remedy


def test_who_is_root_needs_no_sudo(machine, monkeypatch):
    monkeypatch.delenv("SUDO_UID")
    for lack in ("mnexec", "veth"):
        without(machine, lack)
    assert finding("Mininet").remedy == "apt-get install mininet"
    assert finding("kernel: veth").remedy.startswith("modprobe veth")


def test_the_newer_name_of_the_p4_compiler_is_accepted(machine):
    machine.commands = machine.commands - {"p4c-bm2-ss"} | {"p4c"}
    assert finding("P4 compiler p4c").detail.startswith("/usr/bin/p4c,")


def test_a_compiler_without_its_library_is_missing(machine):
    machine.failing["-shared"] = "fatal error: stdio.h: No such file or directory"
    assert "stdio.h" in finding("C compiler").detail
    assert working() == set()


def test_without_root_it_says_what_it_could_not_try(machine, capsys):
    machine.uid = 1000
    assert main(["doctor"]) == 2
    shown = capsys.readouterr().out
    for feature in kernel_probe.FEATURES:
        assert f"unknown  kernel: {feature}: root is needed to try" in shown
    assert "missing  root -> sudo ina doctor" in shown
    assert not [command for command in machine.started if PROBE in command]
    assert working() == {doctor.VIRTUAL}


def test_a_probe_that_fails_leaves_the_kernel_unknown(machine):
    machine.failing[PROBE] = "ended by signal 9"
    found = finding("kernel: veth")
    assert (found.state, found.detail) == (doctor.UNKNOWN, "could not be tried: ended by signal 9")
    assert working() == {doctor.VIRTUAL}


def test_a_package_that_is_too_old_is_missing(machine, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1")
    found = finding("Python package numpy")
    assert found.detail.startswith("0.0.1, not >=") and found.state == doctor.MISSING


def test_the_dependencies_are_those_of_no_extra_for_this_python():
    lines = [
        "numpy>=1.26",
        "old; python_version < '3'",
        "new>=2; python_version >= '3'",
        "pytest>=8; extra == 'test'",
    ]
    found = [(one.name, str(one.specifier)) for one in doctor._requirements(lines)]
    assert found == [("numpy", ">=1.26"), ("new", ">=2")]


def test_a_testbed_that_is_not_installed_is_reported(machine, monkeypatch):
    monkeypatch.setattr(doctor, "DISTRIBUTIONS", ("no-such-distribution",))
    found = finding("Python packages")
    assert found.state == doctor.MISSING and found.remedy == "sudo ./demo"


def test_without_namespaces_the_machines_own_network_is_left_alone(monkeypatch):
    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a command ran outside a namespace")

    monkeypatch.setattr(kernel_probe.kernel, "unshare", refuse)
    monkeypatch.setattr(subprocess, "run", never)
    found = kernel_probe.probe()
    assert "not permitted" in found.pop(kernel_probe.NAMESPACES)
    assert set(found.values()) == {"needs namespaces"}


def test_it_needs_nothing_but_the_standard_library():
    """Whatever is missing, the doctor comes."""
    # -S: no site-packages.
    code = "import testbed.machine.doctor, sys; print([m for m in sys.modules if 'site-packages' in"
    code += " str(getattr(sys.modules[m], '__file__', ''))])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=doctor.PACKAGE.parent,
        env=module_environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[]\n", done.stderr


def test_usage(capsys):
    assert main(["doctor", "--all"]) == 2
    assert "unrecognized arguments: --all; usage: ina doctor" in capsys.readouterr().err
