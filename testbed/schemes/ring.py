"""Ring all-reduce: switches only forward (p4/forward.p4)."""

from __future__ import annotations

from typing import Any

from testbed.dataplane.table_calls import forward_only
from testbed.protocols.host_spec import HostSpec, RingSpec
from testbed.setup.records import Communicator, JobSetup, Scheme, Setup


class Ring(Scheme):
    """Each worker sends to the next one."""

    def host_options(self, setup: Setup, job: JobSetup) -> RingSpec:
        """Specification with the time that an acknowledgement waits."""
        return RingSpec.of(self.common_options(setup, job), ack_delay_ns=job.timers.ack_delay_ns)

    def peers(self, group: Communicator, worker: int) -> tuple[str, ...]:
        """The next worker and the one before."""
        return group.workers[(worker + 1) % len(group.workers)], group.workers[worker - 1]

    def machine(self, spec: HostSpec) -> Any:
        from testbed.protocols import ring
        from testbed.workload import gradients, worker

        return worker.worker_machine(ring.new_ring(spec, gradients.of_worker(spec)), spec)

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        forward_only(setup, switch, calls)


SCHEME = Ring()
