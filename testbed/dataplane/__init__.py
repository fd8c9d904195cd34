"""A switch from outside: what the control plane writes into it and reads from it.

`program` says which P4 program an experiment's switches run and with which compile-time parameters;
`install` fills a switch's tables and `links` shapes its ports; `read` tells what its registers have
counted, and `take_snapshot` what its memory is like at a moment; `release` gives back what a killed
job held. They talk to any switch that offers the control interface of
`p4engine.control.client.Client`."""

from testbed.dataplane.install_tables import install, install_jobs, program
from testbed.dataplane.link_shaping import shape_links
from testbed.dataplane.memory_snapshot import MemorySnapshot, SnapshotHistory, take_snapshot
from testbed.dataplane.read_registers import counters, occupancy
from testbed.dataplane.release_job import release

__all__ = [
    "MemorySnapshot",
    "SnapshotHistory",
    "counters",
    "install",
    "install_jobs",
    "take_snapshot",
    "occupancy",
    "program",
    "release",
    "shape_links",
]
