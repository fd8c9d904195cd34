"""The resources of a run on the machine: its record, its spawners, its network. They are always
released.

A session opens in steps, and each step is noted before the next. So `close` can be called at any
moment, also twice, and removes exactly what exists.

The runs of a sweep share one session (`SharedSession`): the spawners stay, with all that they have
loaded, and so does the network as long as the points have the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base import interrupts
from p4fabric.base.errors import RunError
from p4fabric.emulate.registry import Record
from p4fabric.emulate.spawner import Spawner

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology
    from p4fabric.emulate.mininet_network import Network

    from testbed.protocols.host_spec import HostSpec


class Session:
    """Use as a context manager. `logs` is the folder for the logs of everything that is started.

    What it has once `start` and `build` have been called: `nodes`, the spawner of namespaces and
    switches; `pool`, that of host processes; `network`.
    """

    def __init__(self, title: str, logs: Path | None = None) -> None:
        """Nothing is started yet. title: what `ina clean` calls this run. logs: known by `begin`
        at the latest."""
        self.record = Record.new(title)
        self.logs = self.record.logs = logs or self.record.folder
        self._nodes: Spawner | None = None
        self._pool: Spawner | None = None
        self._network: Network | None = None
        self._built: tuple[Any, ...] = ()

    @property
    def nodes(self) -> Spawner:
        assert self._nodes is not None, "the session has not been started"
        return self._nodes

    @property
    def pool(self) -> Spawner:
        assert self._pool is not None, "the session has not been started with hosts"
        return self._pool

    @property
    def network(self) -> Network:
        assert self._network is not None, "the network has not been built"
        return self._network

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        # An interrupt may fall between entering `close` and its first line; it comes once.
        try:
            self.close()
        except KeyboardInterrupt:
            self.close()
            raise

    def start(self, hosts: Sequence[HostSpec] | None = ()) -> None:
        """Register the run and start the spawners; their imports go on beside what follows.

        hosts: the kinds of hosts whose protocols the pool loads (HostSpec.small); None where no
        host process is wanted, only a network.
        """
        self.record.register()
        # The host pool takes longest, so it goes first.
        if hosts is not None:
            kinds = json.dumps([spec.to_json() for spec in hosts])
            # testbed.protocols first: it tells numba where its cache is, and numba asks only once.
            preload = (
                "testbed.protocols",
                "testbed.emulate.child_processes",
                f"testbed.hosts.host_process:load {kinds}",
            )
            self._pool = Spawner("host pool", preload, self.record.folder / "host-pool.log")
            self.record.add("host pool", self.pool.pid)
        preload = (
            "p4fabric.emulate.namespace",
            "testbed.emulate.child_processes",
            "p4engine.process.switch_process",
        )
        self._nodes = Spawner("switch pool", preload, self.record.folder / "switch-pool.log")
        self.record.add("switch pool", self.nodes.pid)
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
        for spawner in (self._pool, self._nodes):
            if spawner and spawner.kept is None and self.logs != self.record.folder:
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
        for spawner in (self._nodes, self._pool):
            if spawner is not None:
                spawner.check()
        if self._network is not None:
            self._network.check()

    def note_processes(self) -> None:
        """Bring the record up to date with the processes that the spawners have started."""
        for spawner in (self._nodes, self._pool):
            for process in spawner.processes.values() if spawner else ():
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
            for spawner in (self._pool, self._nodes):
                if spawner is not None:
                    spawner.close()
            self._pool = self._nodes = None
            self.record.remove()


class SharedSession:
    """The session of runs one after the other; a context manager, at whose end nothing is left.

    A run that fails takes the session away, and the next one gets a new one.
    """

    def __init__(self, title: str, hosts: Sequence[HostSpec]) -> None:
        """title: what `ina clean` calls it until a run begins. hosts: the kinds of hosts that
        the runs have (see Session.start)."""
        self._title = title
        self._hosts = hosts
        self._session: Session | None = None

    def start(self) -> None:
        """Start the spawners, which load their modules while the caller goes on."""
        if self._session is None:
            self._session = Session(self._title)
            self._session.start(self._hosts)

    @contextlib.contextmanager
    def run(self, title: str, logs: Path) -> Iterator[Session]:
        """The session, for one run; arguments as of `Session`."""
        try:
            self.start()
            assert self._session is not None
            self._session.begin(title, logs)
            yield self._session
        except BaseException as error:
            try:
                # With a spawner its children end, and with a namespace its links, on which
                # switches depend: one of them may have been noticed first.
                if isinstance(error, RunError) and self._session is not None:
                    self._session.check()
            finally:
                self.close()
            raise

    def __enter__(self) -> SharedSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the session away, if there is one."""
        if self._session is not None:
            self._session.__exit__()
            self._session = None
