"""The session of a run with hosts, and of several runs one after the other.

Beside what every network has (network_session.py) there is a spawner of host processes. The runs of
a sweep share one session (`SharedSession`): the spawners stay, with all that they have loaded, and
so does the network as long as the points have the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import RunError
from p4fabric.emulate.network_session import NetworkSession

if TYPE_CHECKING:
    from p4fabric.emulate.spawner import Spawner

    from testbed.protocols.host_spec import HostSpec

HOSTS = "host pool"


class Session(NetworkSession):
    """Has also `pool`, the spawner of host processes."""

    node_modules = (*NetworkSession.node_modules, "testbed.emulate.child_processes")

    @property
    def pool(self) -> Spawner:
        assert HOSTS in self.spawners, "the session has not been started"
        return self.spawners[HOSTS]

    def start(self, hosts: Sequence[HostSpec] = ()) -> None:
        """Register the run and start the spawners; their imports go on beside what follows.

        hosts: the kinds of hosts whose protocols the pool loads (HostSpec.small)."""
        kinds = json.dumps([spec.to_json() for spec in hosts])
        # testbed.protocols first: it tells numba where its cache is, and numba asks only once.
        modules = (
            "testbed.protocols",
            "testbed.emulate.child_processes",
            f"testbed.hosts.host_process:load {kinds}",
        )
        self._start({HOSTS: modules})


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
