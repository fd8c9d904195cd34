"""A run that says of itself what a test makes up, for its live page."""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.dataplane import MemorySnapshot, SnapshotHistory
from testbed.dataplane.memory_snapshot import Blocks
from testbed.run_parts.live_view import Sources, WorkerTimes

MS = 1_000_000
JOBS = [
    {"job": 0, "name": "large", "system": "esa"},
    {"job": 1, "name": "small <b>", "system": "esa"},
]


def snapshot(filling: int, held: int) -> MemorySnapshot:
    """Snapshot of a pool of 16 aggregators in 4 blocks: so many of the first job filling, of the
    other held."""
    blocks = Blocks(
        np.arange(0, 16, 4),
        np.full(4, 4),
        np.array([filling, 0, 0, 0]),
        np.array([0, held, 0, 0]),
    )
    jobs = np.array([[0, filling, 0], [1, 0, held]], np.int64)
    return MemorySnapshot(jobs, np.array([filling]), ("allocations",), blocks, 16)


class FakeRun:
    """Two workers and a server per job at switch s1, on links of 1 Mbit/s. `times`: a worker's,
    of 3 iterations and 2 tensors, none of which has begun; `carried`: bytes at each port."""

    def __init__(self) -> None:
        self.snapshots = SnapshotHistory()
        self.carried = 0
        self.said: list[dict[str, Any]] = []
        shapes = {name: (3,) for name in ("start_ns", "compute_end_ns", "end_ns")}
        tensors = ("forward_start_ns", "forward_end_ns", "ready_ns", "first_sent_ns", "done_ns")
        shapes |= dict.fromkeys(tensors, (3, 2))
        self.times = {name: np.full(shape, -1) for name, shape in shapes.items()}

    def iterate(self, iteration: int, end: bool = True) -> None:
        """An iteration of 10 ms takes place, perhaps not to its end."""
        begin = iteration * 10 * MS
        times = {
            "start_ns": begin,
            "compute_end_ns": begin + 6 * MS,
            "end_ns": begin + 10 * MS,
            "forward_start_ns": [begin, begin + 1 * MS],
            "forward_end_ns": [begin + 1 * MS, begin + 2 * MS],
            "ready_ns": [begin + 6 * MS, begin + 4 * MS],
            "first_sent_ns": [begin + 6 * MS, begin + 4 * MS],
            "done_ns": [begin + 10 * MS, begin + 8 * MS],
        }
        for name, value in times.items():
            if end or name not in ("end_ns", "done_ns"):
                self.times[name][iteration] = value

    def ports(self) -> dict[str, list[dict[str, Any]]]:
        """Answer of s1."""
        return {"s1": [{"port": port, "bytes": self.carried} for port in range(1, 7)]}

    def sources(self) -> Sources:
        hosts = [
            {
                "host": f"h{3 * job + place + 1}",
                "role": "ps" if place == 2 else "worker",
                "job": job,
                "worker": None if place == 2 else place,
            }
            for job in (0, 1)
            for place in range(3)
        ]

        def links(switch: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [
                {
                    "node": switch,
                    "port": row["port"],
                    "neighbour": f"h{row['port']}",
                    "direction": direction,
                    "rate_bps": 10**6,
                    "bytes": row["bytes"],
                }
                for row in rows
                for direction in ("ingress", "egress")
            ]

        return Sources(
            0,
            self.snapshots,
            lambda: hosts,
            lambda: [WorkerTimes(0, 0, self.times)],
            links,
            lambda elapsed_ns: [],
            lambda: self.said,
        )


def state(words: str, elapsed_ns: int = 0) -> dict[str, Any]:
    """State of the view."""
    jobs = {"name": "jobs", "columns": ["job", "iteration"], "rows": [["small <b>", "1/3"]]}
    return {"headline": words, "elapsed_ns": elapsed_ns, "tables": [jobs | {"ended": []}]}
