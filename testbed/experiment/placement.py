"""The choice of free hosts for a job whose experiment does not name them.

`packed` takes the next free hosts in the topology's order, so that a job lies in as few racks as
its predecessors leave it; `spread` puts each role where most hosts are free, so that a job lies in
as many racks as there are; `random` draws. The hosts of a server with several ranks stay together:
`spread` and `random` place servers. Workers are placed first, then the parameter servers.
Where a topology keeps hosts for parameter servers, both take their own kind as long as it lasts,
and with `packed` a server is on the nearest one.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.routing.group_server import nearest
from testbed.routing.tree import switch_of
from testbed.topology import Topology
from testbed.traffic.draws import Stream

POLICIES = ("packed", "spread", "random")
PLACEMENT = 0x91AC  # distinguishes the stream of random placements from others of the same seed


def choose(
    policy: str,
    topology: Topology,
    free: Sequence[str],
    workers: int,
    servers: int,
    seed: int,
    job: int,
) -> list[str] | None:
    """Hosts for workers, then for parameter servers, of the hosts `free`, which are in the
    topology's order; None if they are too few.

    `seed` and `job` decide a random placement, independently of other jobs."""
    if len(free) < workers + servers:
        return None
    draws = Stream(seed, PLACEMENT, job)
    kept = topology.ps_hosts.intersection(free)
    if not kept:
        return _by_policy(policy, topology, free, workers + servers, draws)
    others = [host for host in free if host not in kept]
    found = _by_policy(policy, topology, others if len(others) >= workers else free, workers, draws)
    left = [host for host in free if host not in found]
    for_servers = [host for host in left if host in kept]
    pool = for_servers if len(for_servers) >= servers else left
    if policy != "packed":
        return found + _by_policy(policy, topology, pool, servers, draws)
    for _ in range(servers):
        found.append(nearest(topology, found[:workers], pool))
        pool.remove(found[-1])
    return found


def _by_policy(
    policy: str, topology: Topology, free: Sequence[str], count: int, draws: Stream
) -> list[str]:
    if policy == "packed":
        return list(free[:count])
    units: dict[str, list[str]] = {}  # the free hosts of each server, also of those with one
    for host in free:
        units.setdefault(topology.server_of(host), []).append(host)
    if policy == "spread":
        return _spread(topology, [*units.values()], count)
    if len(units) == len(free):
        return draws.sample(free, count)
    return [host for server in draws.sample([*units], len(units)) for host in units[server]][:count]


def _spread(topology: Topology, units: Sequence[list[str]], count: int) -> list[str]:
    """Each next server in the rack with the most free hosts; the first in order among equals."""
    racks: dict[str, list[list[str]]] = {}
    for hosts in units:
        racks.setdefault(_rack(topology, hosts[0]), []).append(hosts)
    order = [switch for switch in topology.switches if switch in racks]
    found: list[str] = []
    while len(found) < count:
        rack = racks[max(order, key=lambda switch: sum(map(len, racks[switch])))]
        found += rack.pop(0)
    return found[:count]


def _rack(topology: Topology, host: str) -> str:
    """The switch that a host shares with other servers: its own, or the one above its server's."""
    gateway, server = switch_of(topology, host), topology.server_of(host)
    neighbours = [name for name, _, _ in topology.ports(gateway).values()]
    above = [name for name in neighbours if not topology.is_host(name)]
    alone = all(topology.server_of(name) == server for name in neighbours if name not in above)
    return above[0] if alone and above and len(topology.servers.get(server, ())) > 1 else gateway
