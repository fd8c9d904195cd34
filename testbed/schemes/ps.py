"""The plain parameter server: switches only forward (p4/forward.p4)."""

from __future__ import annotations

from typing import Any

from testbed.dataplane.table_calls import forward_only
from testbed.protocols.host_spec import HostSpec
from testbed.schemes.server import ServerScheme
from testbed.setup.records import Setup


class Ps(ServerScheme):
    """One parameter server per job, or several."""

    def machine(self, spec: HostSpec) -> Any:
        from testbed.protocols import ps
        from testbed.workload import gradients, servers, worker

        if spec.is_worker:
            return worker.worker_machine(ps.new_worker(spec, gradients.of_worker(spec)), spec)
        return servers.sending_machine(ps.new_server(spec))

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        forward_only(setup, switch, calls)


SCHEME = Ps()
