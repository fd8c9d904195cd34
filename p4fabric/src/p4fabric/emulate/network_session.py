"""The resources of a network on the machine: its record, its spawners, itself. They are always
released.

A session opens in steps, and each step is noted before the next. So `close` can be called at any
moment, also twice, and removes exactly what exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from p4fabric.base import interrupts
from p4fabric.emulate.run_records import Record
from p4fabric.emulate.spawner import Spawner

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology
    from p4fabric.emulate.mininet_network import Network

S = TypeVar("S", bound="NetworkSession")
NODES = "switch pool"  # the spawner of namespaces and switches


class NetworkSession:
    """Use as a context manager. `logs` is the folder for the logs of everything that is started.

    What it has once `start` and `build` have been called: `spawners`, by name, among them `nodes`,
    that of namespaces and switches; `network`.
    """

    node_modules: Sequence[str] = (
        "p4fabric.emulate.namespace",
        "p4engine.process.switch_process",
    )

    def __init__(self, title: str, logs: Path | None = None) -> None:
        """Nothing is started yet. title: what a list of runs calls this one. logs: known by
        `begin` at the latest."""
        self.record = Record.new(title)
        self.logs = self.record.logs = logs or self.record.folder
        self.spawners: dict[str, Spawner] = {}
        self._network: Network | None = None
        self._built: tuple[Any, ...] = ()

    @property
    def nodes(self) -> Spawner:
        assert NODES in self.spawners, "the session has not been started"
        return self.spawners[NODES]

    @property
    def network(self) -> Network:
        assert self._network is not None, "the network has not been built"
        return self._network

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exception: object) -> None:
        # An interrupt may fall between entering `close` and its first line; it comes once.
        try:
            self.close()
        except KeyboardInterrupt:
            self.close()
            raise

    def start(self) -> None:
        """Register the run and start the spawner, whose imports go on beside what follows."""
        self._start({})

    def _start(self, pools: Mapping[str, Sequence[str]]) -> None:
        """The same with further spawners, by name, and what each loads. They take longer, so they
        go first."""
        self.record.register()
        for name, modules in {**pools, NODES: self.node_modules}.items():
            log = self.record.folder / f"{name.replace(' ', '-')}.log"
            self.spawners[name] = made = Spawner(name, modules, log)
            self.record.add(name, made.pid)
        self.record.save()
        self._keep_logs()

    def begin(self, title: str, logs: Path) -> None:
        """A run begins in this session; arguments as of the session."""
        self.logs = self.record.logs = logs
        self.record.title = title
        self.record.save()
        self._keep_logs()

    def _keep_logs(self) -> None:
        """Have the spawners' logs kept with the first run that has a folder for logs."""
        for spawner in self.spawners.values():
            if spawner.kept is None and self.logs != self.record.folder:
                spawner.kept = self.logs / spawner.log.name

    def build(
        self, topology: Topology, kind: type[Network] | None = None, **options: Any
    ) -> Network:
        """Build the network of a topology, unless it stands. kind: its class, by default `Network`;
        options: of that."""
        from p4fabric.emulate.mininet_network import Network

        if self._network is not None:
            if self._built == (topology, kind, options):
                return self._network
            self._network.take_down()
            self._network = None
        self.nodes.wait_ready()
        self._network = (kind or Network)(
            topology, self.nodes, self.logs, self.record.folder, **options
        )
        self._built = topology, kind, options
        hosts = dict.fromkeys([*topology.hosts, *topology.servers], "host")
        switches = topology.switches
        for ranks in topology.servers.values():  # which have one namespace
            for name in ranks:
                self.record.add(f"{name}-net", self._network.holders[name].pid)
        self.record.nodes = {**hosts, **dict.fromkeys(switches, "switch")}
        self.note_processes()
        return self.network

    def check(self) -> None:
        """Raises RunError that names a spawner or a node's namespace which has ended."""
        for spawner in reversed(self.spawners.values()):
            spawner.check()
        if self._network is not None:
            self._network.check()

    def note_processes(self) -> None:
        """Bring the record up to date with the processes that the spawners have started."""
        for spawner in reversed(self.spawners.values()):
            for process in spawner.processes.values():
                if process.pid and process.code is None:
                    self.record.add(process.key, process.pid)
        self.record.save()

    def close(self) -> None:
        """Take everything away. All processes are killed, and with them goes the network."""
        with interrupts.tear_down():
            if self._network is not None:
                with contextlib.suppress(Exception):
                    self._network.stop()
                self._network = None
            for spawner in self.spawners.values():
                spawner.close()
            self.spawners.clear()
            self.record.remove()
