"""The switch processes of one repetition: forked into their namespaces, shaped, filled with tables.

A repetition gets new switch processes, so that registers and counters start from zero; the network
around them stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from p4engine.frontend.diagnostics import P4Error
from p4fabric.base.errors import RunError
from p4fabric.emulate.nodes import P4Switch
from p4fabric.emulate.spawner import Process, Spawner

from testbed.emulate.switch_backends import Backend

if TYPE_CHECKING:
    from p4fabric.emulate.mininet_network import Network

    from testbed.setup import Control

EXIT_SEEN_S = 1.0
"""How long the exit of a switch that broke its connection off may take to be seen."""


class SwitchGroup:
    """All switch processes of one repetition; `clients` are those that answer, by name, each with
    the control interface of p4engine.control.client.Client. `by_thread`: names of those whose
    threads' processor time counts one by one."""

    def __init__(
        self,
        network: Network,
        backend: Backend,
        spawner: Spawner,
        logs: Path,
        seed: int,
        repetition: int,
    ) -> None:
        """Ask for all processes; does not wait for them."""
        self.spawner = spawner
        self.nodes: list[P4Switch] = list(network.switches)
        self.processes: dict[str, Process] = {}
        self.clients: dict[str, Control] = {}
        self.backend = backend
        self.by_thread = {node.name for node in self.nodes} if backend.by_thread else set()
        self._network, self._logs = network, logs
        self._seed, self._repetition = seed, repetition
        self._stopped: dict[str, Control] = {}
        for node in self.nodes:
            self._spawn(node)

    def _spawn(self, node: P4Switch) -> None:
        """Ask for a node's process; does not wait for it."""
        suffix = "" if self._repetition == 0 else f"-r{self._repetition}"
        self.processes[node.name] = self.spawner.spawn(
            f"{node.name}-r{self._repetition}",
            self.backend.target,
            self.backend.arguments(node, self._seed * 1000 + self.nodes.index(node)),
            self._logs / f"{node.name}{suffix}.log",
            namespace=self._network.holders[node.name].pid,
            title=f"switch {node.name}",
        )

    def _connect(self, node: P4Switch) -> None:
        """Wait until a node's process answers."""
        process = self.processes[node.name]

        def alive() -> bool:
            self.spawner.pump()
            return process.code is None

        self.spawner.wait_started([process])
        node.client = self.backend.connect(node, process, self._network, alive)
        self.clients[node.name] = node.client

    def wait_ready(self) -> None:
        """Until every switch answers. Raises RunError with the words of one that does not."""
        for node in self.nodes:
            try:
                self._connect(node)
            except RunError:
                self.check()  # says how it ended, if it has
                raise

    def check(self) -> None:
        """Raises RunError if one of the processes has ended, or a node's namespace, with whose
        links a switch ends."""
        self._network.check()
        for name, process in self.processes.items():
            if process.code is not None:
                raise process.failure(f"the process of switch {name}")

    @contextmanager
    def asked(self, name: str, failure: str) -> Iterator[Control]:
        """The client of a switch, for calls; `failure` says what its errors mean, as in "cannot be
        read". Raises RunError with how the process ended, if it has, else with the error."""
        try:
            yield self.clients[name]
        except P4Error as error:
            # A process that ends closes its connection before its exit can be seen.
            process, until = self.processes[name], time.monotonic() + EXIT_SEEN_S
            while process.code is None and time.monotonic() < until:
                self.spawner.pump()
                time.sleep(0.01)
            self.check()
            raise RunError(
                f"switch {name} {failure}: {error}", process.last_words, str(process.log)
            ) from error

    def pause(self, name: str) -> None:
        """Stop a switch; it has no client until it goes on."""
        self.spawner.signal(self.processes[name], 19)
        self._stopped[name] = self.clients.pop(name)

    def resume(self, name: str) -> None:
        """Let a paused switch go on."""
        self.spawner.signal(self.processes[name], 18)
        self.clients[name] = self._stopped.pop(name)

    def kill(self, name: str) -> None:
        """End a switch's process at once. It is not started again."""
        node = next(node for node in self.nodes if node.name == name)
        process = self.processes.pop(name)
        client = self.clients.pop(name, None) or self._stopped.pop(name)
        node.client = None
        self.spawner.signal(process, 9)
        self.spawner.wait_ended([process], 10, f"end of switch {name}")
        client.close()

    def restart(self, name: str) -> None:
        """End a switch and start it again, as it was before any table was filled."""
        self.kill(name)
        node = next(node for node in self.nodes if node.name == name)
        self._spawn(node)
        self._connect(node)

    def stop(self) -> None:
        """Ask all to end and wait; what does not end in time is killed."""
        for node in self.nodes:
            if node.client is not None:
                node.client.close()
                node.client = None
        self.clients.clear()
        running = [process for process in self.processes.values() if process.code is None]
        for process in running:
            self.spawner.signal(process, 15)
        try:
            self.spawner.wait_ended(running, 3, "end of the switches")
        except RunError:
            for process in running:
                self.spawner.signal(process, 9)
            self.spawner.wait_ended(running, 10, "end of the switches")
