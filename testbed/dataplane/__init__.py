"""A switch from outside: the entries that the control plane writes, and the memory that it reads.

`install_tables` says which P4 program the switches run, with which compile-time parameters, and
fills a switch's tables; `job_tables` keeps them up to date while jobs come and go, `failover` and
`switch_entries` while links fail. `link_shaping` shapes its ports, and
`loss_notes` tells what they lose of which job. `read_registers` reads what its
registers have counted, and `memory_snapshot` its memory at one moment. What depends on the system
is in its scheme (testbed/schemes), which makes its entries with `table_calls`. They work with any
switch that offers the control interface of `p4engine.control.client.Client`.
"""

from testbed.dataplane.install_tables import install, program
from testbed.dataplane.job_tables import JobTables
from testbed.dataplane.link_shaping import give_buffer, shape_links
from testbed.dataplane.loss_notes import read_notes
from testbed.dataplane.memory_snapshot import (
    MemorySnapshot,
    SnapshotHistory,
    SnapshotTaker,
    take_snapshot,
)
from testbed.dataplane.read_registers import counters, occupancy, port_counts, refusals

__all__ = [
    "JobTables",
    "MemorySnapshot",
    "SnapshotHistory",
    "SnapshotTaker",
    "counters",
    "give_buffer",
    "install",
    "take_snapshot",
    "occupancy",
    "port_counts",
    "program",
    "read_notes",
    "refusals",
    "shape_links",
]
