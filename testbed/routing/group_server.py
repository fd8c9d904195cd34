"""Choice of a group's parameter server among several.

Sums of a group that is on one server, or on one rail, need not cross the rest of the network if a
parameter server is near. So a job on servers with several ranks may have further parameter servers
for its groups, and each group uses the one with the shortest way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from p4fabric.base.errors import UserError
from p4fabric.base.hops import next_hops, switch_of
from p4fabric.base.topology import Topology

from testbed.routing.job_tree import root_switch, steps_to


def has_shared_servers(topology: Topology) -> bool:
    """True if a server has several hosts."""
    return topology.derived(
        "has shared servers", lambda: any(len(hosts) > 1 for hosts in topology.servers.values())
    )


def nearest(topology: Topology, workers: Sequence[str], servers: Iterable[str]) -> str:
    """The host of `servers` with the shortest path to its farthest worker. Of several, the one with
    the smallest sum of paths, then one on the switch where the workers' paths meet; else they take
    turns, by the first worker's server and local rank, so that groups of neighbouring ranks have
    different ones. A host without a path to all workers comes last."""
    try:
        root = root_switch(topology, tuple(workers))
    except UserError:  # no switch that aggregates is near
        root = ""
    ranks: dict[str, tuple] = {}
    for host in servers:
        gateway = switch_of(topology, host)
        hops = next_hops(topology, gateway)
        steps = [steps_to(hops, switch_of(topology, worker), gateway) for worker in workers]
        known = [each for each in steps if each is not None]
        lost = len(known) < len(steps)
        ranks[host] = lost, max(known, default=0), sum(known), gateway != root
    best = [host for host, rank in ranks.items() if rank == min(ranks.values())]
    places = [*topology.servers]
    server = topology.server_of(workers[0])
    turn = places.index(server) + topology.local_rank(workers[0]) if server in places else 0
    return best[turn % len(best)]
