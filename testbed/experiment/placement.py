"""The choice of free hosts for a job whose experiment does not name them.

`packed` takes the next free hosts in the topology's order, so that a job lies in as few racks as
its predecessors leave it; `spread` puts each role where most hosts are free, so that a job lies in
as many racks as there are; `random` draws. Workers are placed first, then the parameter servers.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.tree import switch_of
from testbed.topology import Topology
from testbed.traffic.draws import Stream

POLICIES = ("packed", "spread", "random")
PLACEMENT = 0x91AC  # distinguishes the stream of random placements from others of the same seed


def choose(
    policy: str, topology: Topology, free: Sequence[str], count: int, seed: int, job: int
) -> list[str] | None:
    """`count` of the hosts `free`, which are in the topology's order; None if they are too few.

    `seed` and `job` decide a random placement, independently of other jobs."""
    if len(free) < count:
        return None
    if policy == "random":
        return Stream(seed, PLACEMENT, job).sample(free, count)
    if policy == "spread":
        return _spread(topology, free, count)
    return list(free[:count])


def _spread(topology: Topology, free: Sequence[str], count: int) -> list[str]:
    """Each next one at the switch with the most free hosts; the first in order among equals."""
    at: dict[str, list[str]] = {}
    for host in free:
        at.setdefault(switch_of(topology, host), []).append(host)
    order = [switch for switch in topology.switches if switch in at]
    return [at[max(order, key=lambda switch: len(at[switch]))].pop(0) for _ in range(count)]
