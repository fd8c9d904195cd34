"""A2TP: ATP with two windows, one of them for aggregators (p4/a2tp.p4)."""

from __future__ import annotations

from typing import Any

from testbed.protocols.host_spec import HostSpec
from testbed.schemes.atp import Atp


class A2tp(Atp):
    """A2TP."""

    def machine(self, spec: HostSpec) -> Any:
        from testbed.protocols import a2tp
        from testbed.workload import fixed_point, servers, worker

        if spec.is_worker:
            made = a2tp.new_worker(spec, *fixed_point.or_gradients(spec))
            return worker.worker_machine(made, spec)
        return servers.pool_machine(a2tp.new_server(spec))


SCHEME = A2tp()
