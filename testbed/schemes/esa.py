"""ESA: a pool whose index and priority the experiment chooses (p4/esa.p4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from testbed.protocols.host_spec import HostSpec, PoolSpec
from testbed.schemes.pool import PoolScheme
from testbed.setup.job_setups import JobSetup, Platform, Setup

if TYPE_CHECKING:
    from testbed.systems.options import EsaOptions


def _options(platform: Platform) -> EsaOptions:
    return cast("EsaOptions", platform.options)


class Esa(PoolScheme):
    """ESA."""

    def host_options(self, setup: Setup, job: JobSetup) -> PoolSpec:
        options = _options(setup.platform)
        return self.pool_options(setup, job, options.index, options.priority)

    def machine(self, spec: HostSpec) -> tuple:
        from testbed.protocols import esa
        from testbed.workload import gradients, servers, worker

        if spec.is_worker:
            return worker.worker_machine(esa.new_worker(spec, gradients.of_worker(spec)), spec)
        return servers.pool_machine(esa.new_server(spec))


SCHEME = Esa()
