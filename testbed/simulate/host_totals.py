"""What a role in virtual time hands over at its end: what it has counted, and its times.

The names are those that a host process of a Mininet run uses (testbed.hosts.host_process), so that
the tables are made of both alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from testbed.protocols import counters as n
from testbed.protocols import lag
from testbed.protocols.host_spec import HostSpec
from testbed.simulate import state as w

if TYPE_CHECKING:
    from testbed.simulate.world import Nodes


@dataclass
class Report:
    """`spec`: the role's specification. `done`: its counters. `times`: of a worker, int64 ns by
    name (see testbed.runtimes.result_rows.time_tables)."""

    spec: HostSpec
    done: dict[str, int | None]
    times: dict[str, np.ndarray] | None

    @property
    def totals(self) -> dict[str, int | None]:
        return self.done


def report_of(nodes: Nodes, number: int) -> Report:
    """That of a host that is there."""
    node, row = nodes.hosts[number], nodes.world.hosts[number]
    counted = {name: int(v) for name, v in zip(n.NAMES, node.machine.counters, strict=True)}
    counted |= {
        "packets_sent": int(row[w.PACKETS_SENT]),
        "packets_received": int(row[w.PACKETS_RECEIVED]),
        "bytes_sent": int(row[w.BYTES_SENT]),
        "bytes_received": int(row[w.BYTES_RECEIVED]),
    }
    if not node.is_worker:
        return Report(node.spec, counted, None)
    b, t = node.machine.book, node.machine.training
    counted |= {
        "lag_p50_ns": lag.percentile(t.lag, 0.50),
        "lag_p99_ns": lag.percentile(t.lag, 0.99),
        "lag_max_ns": int(t.lag[lag.MAXIMUM]),
        "end_ns": int(t.end_ns[-1]),
    }
    times = {name: getattr(t, name) for name in ("start_ns", "compute_end_ns", "end_ns")}
    times |= {name: getattr(t, name) for name in ("forward_start_ns", "forward_end_ns")}
    times |= {name: getattr(b, name) for name in ("ready_ns", "first_sent_ns", "done_ns")}
    return Report(node.spec, counted, times)
