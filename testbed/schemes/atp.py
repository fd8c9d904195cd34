"""ATP: a pool in which a fragment has the index of its window position (p4/atp.p4)."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, cast

from testbed.protocols.host_spec import HostSpec, PoolSpec, WindowPositions
from testbed.schemes.pool import PoolScheme
from testbed.setup.job_setups import JobSetup, Platform, Setup

if TYPE_CHECKING:
    from testbed.systems.options import AtpOptions


def _options(platform: Platform) -> AtpOptions:
    return cast("AtpOptions", platform.options)


class Atp(PoolScheme):
    """ATP."""

    def host_options(self, setup: Setup, job: JobSetup) -> PoolSpec:
        options = _options(setup.platform)
        # Where nothing can be lost, a gap in the results is their different ways.
        gap = 0 if setup.platform.least_timeout_ns else options.gap
        positions = WindowPositions(
            index=options.index,
            rehash=options.rehash,
            gap=gap,
            fixed_point_scale=options.fixed_point_scale,
        )
        return self.pool_options(setup, job, options.index, positions=positions)

    def machine(self, spec: HostSpec) -> tuple:
        from testbed.workload import fixed_point, servers, worker

        hosts = self.hosts()
        if spec.is_worker:
            made = hosts.new_worker(spec, *fixed_point.or_gradients(spec))
            return worker.worker_machine(made, spec)
        return servers.pool_machine(hosts.new_server(spec))

    def hosts(self) -> ModuleType:
        """The protocol of workers and servers."""
        from testbed.protocols import atp

        return atp


SCHEME = Atp()
