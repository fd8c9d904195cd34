"""Processes of a run on Mininet that are made up: a spawner that remembers, hosts that are told."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from p4fabric.base.errors import RunError
from p4fabric.emulate.spawner import Process

from testbed.emulate.host_group import HostProcess
from testbed.hosts import progress_board as board


class Spawner:
    """Remembers what it is asked for. `stubborn`: whether processes end only when killed."""

    def __init__(self, stubborn: bool = False) -> None:
        self.log: list[tuple] = []
        self.spawned: list[SimpleNamespace] = []
        self.stubborn = stubborn

    def spawn(self, name, target, arguments, log, namespace=None, **named):
        process = SimpleNamespace(
            name=name, pid=len(self.spawned) + 1, code=None, log=log, arguments=arguments, said="",
            namespace=namespace, log_tail=lambda: process.said, **named,
        )  # fmt: skip
        if "descriptors" in named:
            process.channel = socket.socket(fileno=os.dup(named["descriptors"][0]))
        process.failure = lambda what: RunError(f"{what} ended")
        self.spawned.append(process)
        self.log.append(("spawn", name))
        return process

    def signal(self, process, number):
        self.log.append((signal.Signals(number).name, process.name))
        if number == signal.SIGKILL or not self.stubborn:
            process.code = -number

    def wait_started(self, processes):
        self.log.append(("started", *(each.name for each in processes)))

    def wait_ended(self, processes, timeout_s, what):
        if any(process.code is None for process in processes):
            raise RunError(f"no {what}")

    def pump(self):
        pass

    def wait(self, holds, timeout_s, what, ends):
        if not holds():
            raise RunError(f"no {what}")


class Host(HostProcess):
    """A host process that notes what it is told."""

    def __init__(self, spec) -> None:
        none = Process("", Path("/dev/null"))
        super().__init__(spec, none, None, np.zeros(board.COLUMNS, np.int64), Path("/dev/null"))
        self.told: list[dict] = []

    def send(self, **message: object) -> None:
        self.told.append(message)

    def heard_of(self, *kinds: str) -> list[dict]:
        """What it has been told of these kinds, since the last time somebody looked."""
        found = [each for each in self.told if {*kinds} & {*each}]
        self.told.clear()
        return found
