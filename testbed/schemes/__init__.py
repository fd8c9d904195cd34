"""The systems' code, one module per system (testbed/setup/job_setups.py describes a scheme).

`set_up` makes the Setup of an experiment with the scheme of its system. Schemes import the machines
of hosts only when one is made: a command that sets up an experiment does not wait for numba.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from testbed import plugins
from testbed.setup.job_setups import Scheme
from testbed.systems.registry import SHIPPED

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.protocols.host_spec import HostSpec
    from testbed.setup import Platform, Setup
    from testbed.systems.options import TreeOptions


@functools.cache
def scheme_of(system: str) -> Scheme:
    """The scheme of a system; its module is imported only now. Raises UserError for a system of
    another package that has none."""
    if system in SHIPPED:
        module = "host_sums" if SHIPPED[system].algorithm else system
        scheme: Scheme = importlib.import_module(f"testbed.schemes.{module}").SCHEME
        return scheme
    return plugins.load(plugins.SCHEMES, system, Scheme)


def platform_of(experiment: Experiment) -> Platform:
    """Platform that all jobs of an experiment share."""
    from testbed.setup import build

    return build.platform_of(experiment, scheme_of(experiment.system.name))


def set_up(experiment: Experiment, repetition: int = 0) -> Setup:
    """Setup of a repetition of an experiment (testbed/setup/build.py). Raises UserError."""
    from testbed.experiment.sampled_layers import smaller
    from testbed.setup import build

    names = {*experiment.collectives.algorithms}
    if experiment.system_entry.managed:
        names.add(cast("TreeOptions", experiment.system).fallback)
    algorithms = {name: scheme_of(name) for name in sorted(names)}
    scheme = scheme_of(experiment.system.name)
    setup = build.set_up(experiment, scheme, repetition, algorithms)
    sizes = smaller(experiment)
    fewer = tuple(build.set_up(each, scheme, repetition, algorithms) for each in sizes)
    return replace(setup, smaller=fewer)


def new_machine(spec: HostSpec) -> Any:
    """The state machine of a host (p4fabric/src/p4fabric/simulate/machine.py)."""
    if spec.program is not None and spec.program.partners is not None:
        from testbed.workload import worker

        return worker.transfer_machine(spec)
    if spec.job.wanted:
        from testbed.protocols import tokens
        from testbed.workload import worker

        return worker.worker_machine(tokens.new_worker(spec), spec)
    return scheme_of(spec.job.system).machine(spec)
