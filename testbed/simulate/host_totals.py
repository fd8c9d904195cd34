"""The output of a role in virtual time at its end: its counters and its times.

The names are those of a host process of a Mininet run (testbed.hosts.host_process), so that the
tables are made from both in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.protocols import lag
from testbed.protocols.formats.kept_sums import by_position
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.status import as_dict
from testbed.workload import rank_program

if TYPE_CHECKING:
    from p4fabric.simulate.machine import Machine

    from testbed.simulate.world import Nodes


@dataclass
class Report:
    """`spec`: the role's specification. `done`: its counters. `times`: of a worker, int64 ns by
    name (see testbed.run_parts.result_rows.time_tables). `sums`: uint32[I, N] that a worker has
    kept, and those of its groups, each with its specification."""

    spec: HostSpec
    done: dict[str, Any]
    times: dict[str, np.ndarray] | None
    sums: tuple[tuple[HostSpec, np.ndarray], ...] = ()

    @property
    def totals(self) -> dict[str, Any]:
        return self.done


def report_of(nodes: Nodes, number: int) -> Report:
    """Report of a host that is there."""
    node, row = nodes.present_at(number), nodes.world.hosts[number]
    counted: dict[str, Any] = dict(as_dict(node.machine.counters))
    counted |= {
        "packets_sent": int(row.packets_sent),
        "packets_received": int(row.packets_received),
        "bytes_sent": int(row.bytes_sent),
        "bytes_received": int(row.bytes_received),
    }
    if not node.is_worker:
        return Report(node.spec, counted, None)
    loop = node.machine.source
    counted |= {
        "lag_p50_ns": lag.percentile(loop.lag, 0.50),
        "lag_p99_ns": lag.percentile(loop.lag, 0.99),
        "lag_max_ns": int(loop.lag[lag.MAXIMUM]),
        "end_ns": int(loop.end_ns[-1]),
    }
    times = times_of(node.machine)
    if node.spec.program is not None:
        counted |= rank_program.totals(node.spec, loop.graph)
        times |= rank_program.node_times(node.spec, loop.graph)
    roles = zip((node.spec, *node.spec.members), (node.machine, *node.members), strict=True)
    sums = tuple((spec, kept_by(spec, made)) for spec, made in roles if spec.job.keep_sums)
    return Report(node.spec, counted, times, sums)


def kept_by(spec: HostSpec, machine: Machine) -> np.ndarray:
    """The sums that a worker's machine has kept, uint32[I, N]."""
    worker = getattr(machine.protocol, "worker", machine.protocol)
    return by_position(spec, worker.kept_sums)


def times_of(machine: Machine) -> dict[str, np.ndarray]:
    """A worker's times, by name; the arrays are the worker's own."""
    scoreboard, loop = machine.scoreboard, machine.source
    times = {name: getattr(loop, name) for name in ("start_ns", "compute_end_ns", "end_ns")}
    times |= {name: getattr(loop, name) for name in ("forward_start_ns", "forward_end_ns")}
    times |= {name: getattr(scoreboard, name) for name in ("ready_ns", "first_sent_ns", "done_ns")}
    return times
