"""Causes that are named for a switch that does not answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from p4engine.control.client import CallError

from testbed.emulate import switch_group
from testbed.emulate.switch_group import SwitchGroup
from testbed.errors import RunError
from testbed.network.spawner import Process


class SlowSpawner:
    """Tells of a child's exit only when it was asked for some time."""

    def __init__(self, code: int | None, after: int) -> None:
        self.code, self.after, self.process = code, after, None

    def spawn(self, key, target, arguments, log, namespace, title):
        self.process = Process(key, log)
        return self.process

    def pump(self):
        self.after -= 1
        if self.after <= 0:
            self.process.code = self.code


def group(tmp_path, spawner):
    node = SimpleNamespace(name="s1")
    holders = {"s1": SimpleNamespace(pid=1)}
    network = SimpleNamespace(switches=[node], holders=holders, check=lambda: None)
    backend = SimpleNamespace(by_thread=False, target="t", arguments=lambda node, seed: [])
    made = SwitchGroup(network, backend, spawner, tmp_path, 1, 0)
    made.clients["s1"] = "client"
    return made


def test_a_switch_that_was_killed_is_named_with_its_signal(tmp_path):
    switches = group(tmp_path, SlowSpawner(code=-9, after=3))
    told = pytest.raises(RunError, match="switch s1 was killed by signal 9")
    with told, switches.asked("s1", "cannot be configured"):
        raise CallError("batch: Broken pipe")


def test_a_switch_that_runs_is_named_with_its_words(tmp_path, monkeypatch):
    monkeypatch.setattr(switch_group, "EXIT_SEEN_S", 0.05)
    switches = group(tmp_path, SlowSpawner(code=None, after=0))
    told = pytest.raises(RunError, match="switch s1 cannot be read: no such register")
    with told, switches.asked("s1", "cannot be read") as client:
        assert client == "client"
        raise CallError("no such register")
