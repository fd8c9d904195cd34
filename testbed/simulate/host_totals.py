"""The output of a role in virtual time at its end: its counters and its times.

The names are those of a host process of a Mininet run (testbed.hosts.host_process), so that the
tables are made from both in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.collective.tally import SYSTEM, label
from testbed.protocols import lag
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.records import as_dict
from testbed.traffic.rank_calls import calls_of, load_program

if TYPE_CHECKING:
    from testbed.simulate.world import Node, Nodes


@dataclass
class Report:
    """`spec`: the role's specification. `done`: its counters. `times`: of a worker, int64 ns by
    name (see testbed.runtimes.result_rows.time_tables)."""

    spec: HostSpec
    done: dict[str, Any]
    times: dict[str, np.ndarray] | None

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
    if node.spec.program is not None:
        counted["values_due"] = sum(_values_due(spec) for spec in node.spec.members)
        counted["collectives"] = _collectives(node)
    return Report(node.spec, counted, times_of(node.machine))


def _values_due(spec: HostSpec) -> int:
    """Values that a rank has to check in one of its communicators."""
    due = 0
    for tensor, (share, first, from_one) in zip(spec.job.tensors, spec.job.shares, strict=True):
        own = tensor.values
        if share:  # what belongs to the rank, of `values` from `first` on
            start, stop = spec.number * share, (spec.number + 1) * share
            own = max(0, min(stop, first + tensor.values) - max(start, first))
            own = tensor.values - own if from_one else own
        due += own
    return spec.job.iterations * due


def _collectives(node: Node) -> list[dict[str, Any]]:
    """A rank's rows of table collectives."""
    part, graph = node.spec.program, node.machine.source.graph
    assert part is not None
    program = load_program(part.path)
    rows: dict[tuple[str, str, str], list[int]] = {}
    for port, name in enumerate(part.groups, start=1):
        ranks = program.groups[name]
        who = label(None if len(ranks) == len(program.ranks) else list(ranks))
        begin = int(graph.first_call[port])
        for place, call in enumerate(calls_of(program, part.rank, name), start=begin):
            row = rows.setdefault((who, call.kind, call.dtype), [0, 0, 0])
            row[0] += node.spec.job.iterations
            row[1] += node.spec.job.iterations * call.bytes
            row[2] += int(graph.call_ns[place])
    keys = ("communicator", "collective", "dtype", "calls", "bytes", "time_ns")
    return [
        {"job": part.job, "worker": part.rank, "route": SYSTEM}
        | dict(zip(keys, (*key, *counted), strict=True))
        for key, counted in rows.items()
    ]


def times_of(machine: Any) -> dict[str, np.ndarray]:
    """A worker's times, by name; the arrays are the worker's own."""
    scoreboard, loop = machine.scoreboard, machine.source
    times = {name: getattr(loop, name) for name in ("start_ns", "compute_end_ns", "end_ns")}
    times |= {name: getattr(loop, name) for name in ("forward_start_ns", "forward_end_ns")}
    times |= {name: getattr(scoreboard, name) for name in ("ready_ns", "first_sent_ns", "done_ns")}
    return times
