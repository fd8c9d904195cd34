"""An entry in the list of systems."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from testbed.errors import UserError

if TYPE_CHECKING:
    from testbed.systems.options import ServerOptions, SlotOptions, SystemOptions

Hook = str | Callable[..., Any]


@functools.cache
def _function(place: str) -> Callable[..., Any] | None:
    return pkgutil.resolve_name(place) if place else None


@dataclass(frozen=True)
class System:
    """A system. `color` and `marker` are matplotlib's; `program` is its P4 file; `options` the
    model of its part of an experiment file (testbed/systems/options.py), or its place as
    "module:class", so that hosts and reports, which ask for no option, need not load models.

    `slot_bytes` is the state that its P4 program keeps per aggregator beside bitmap and values.
    `servers`: parameter servers of a job, "none", "one" or "many" (its option `servers` says how
    many). `memory`: whether it uses switch memory, so that `memory:` must be given.
    `divided`: whether each job has a part of every switch's memory to itself, in slots of as many
    aggregators as its option `sets` says.
    `planned`: whether a plan says which switch aggregates what, within what the switches can.
    `lost_with_registers`: why a job may not survive a switch that loses its registers; "" if it
    does.

    The hooks say where the code of the system's hosts and tables is. Each is a function, or its
    place as "module:function", which is imported when it is needed. Their arguments are the records
    of testbed/setup/records.py. `host_part(setup, job)`: what the hosts of a job are told beside
    what all systems' are (testbed/setup/host_specs.py); `worker_part(setup, job, worker)`: the same
    for one worker; `peers(communicator, worker)`: the nodes that a worker talks to, by default its
    servers. `machine(spec)`: the state machine of a host (testbed/workload/machine.py).
    `tables(setup, switch, calls)`: fills what names no job in a switch's tables;
    `job_tables(platform, switch, job, calls)`: fills a job's entries (both in
    testbed/dataplane/install_tables.py). `definitions(platform)`: preprocessor symbols of its P4
    program beside those of all systems. `statistics(platform)`: what its P4 program counts
    (testbed/dataplane/read_registers.py). `release(platform, job, client)`: frees what an ended job
    holds of a switch's memory (testbed/dataplane/release_job.py); the last two are by default those
    of a shared pool. `reroute(setup, going_on)`: what becomes of jobs when links have failed or are
    up again (testbed/setup/rerouting.py); without it, links cannot fail during a run."""

    name: str
    title: str
    color: str
    marker: str
    program: Path
    options: type[SystemOptions] | str
    slot_bytes: int
    servers: str = "one"
    memory: bool = True
    divided: bool = False
    planned: bool = False
    lost_with_registers: str = ""
    host_part: Hook = ""
    worker_part: Hook = ""
    peers: Hook = "testbed.setup.host_specs:servers_of"
    machine: Hook = ""
    tables: Hook = ""
    job_tables: Hook = ""
    definitions: Hook = ""
    statistics: Hook = "testbed.dataplane.read_registers:pool_statistics"
    release: Hook = "testbed.dataplane.release_job:mark_gone"
    reroute: Hook = ""

    @property
    def option_model(self) -> type[SystemOptions]:
        """The class behind `options`."""
        place = self.options
        return cast("type[SystemOptions]", _function(place)) if isinstance(place, str) else place

    def hook(self, name: str) -> Callable[..., Any] | None:
        """The function behind one of the hooks above; None if the system has none."""
        place = getattr(self, name)
        return _function(place) if isinstance(place, str) else place

    def servers_per_job(self, options: SystemOptions | None) -> int:
        """Parameter servers of each job; `options` are needed only where there are "many"."""
        if self.servers == "many":
            return cast("ServerOptions", options).servers
        return int(self.servers == "one")

    def aggregators_per_job(self, options: SystemOptions) -> int:
        """The fewest aggregators of each switch that every job must have to itself."""
        return cast("SlotOptions", options).sets if self.divided else 0

    def aggregator_bytes(self, values: int, bitmap_bits: int) -> int:
        """Switch memory of one aggregator: its registers, int32 values and bitmap included."""
        return self.slot_bytes + bitmap_bits // 8 + 4 * values

    def require(self, name: str) -> Callable[..., Any]:
        """The function behind a hook that every system must have. Raises UserError if it has
        none."""
        function = self.hook(name)
        if function is None:
            raise UserError(
                f"the system {self.name} has no `{name}` (see testbed/systems/system.py)"
            )
        return function
