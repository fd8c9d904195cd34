"""Systems with parameter servers, and the plain one; switches only forward (p4/forward.p4)."""

from __future__ import annotations

from testbed.dataplane.table_calls import forward_only
from testbed.protocols.host_spec import HostSpec, ServerSpec
from testbed.setup.job_setups import JobSetup, Scheme, Setup


class ServerScheme(Scheme):
    """A system with one parameter server per job, or several."""

    def host_options(self, setup: Setup, job: JobSetup) -> ServerSpec:
        """Without switches, a server asks workers for their missing fragments."""
        timers = job.timers
        return ServerSpec.of(
            self.common_options(setup, job),
            reminder=True,
            reminder_delay_ns=0,
            min_reminder_delay_ns=timers.min_reminder_delay_ns,
            max_reminder_delay_ns=timers.max_reminder_delay_ns,
        )


class Ps(ServerScheme):
    """One parameter server per job, or several."""

    def machine(self, spec: HostSpec) -> tuple:
        from testbed.protocols import ps
        from testbed.workload import gradients, servers, worker

        if spec.is_worker:
            return worker.worker_machine(ps.new_worker(spec, gradients.of_worker(spec)), spec)
        return servers.sending_machine(ps.new_server(spec))

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        forward_only(setup, switch, calls)


SCHEME = Ps()
