"""The choice of free hosts for a job whose experiment does not name them.

`packed` takes the next free hosts in the topology's order, so that a job lies in as few racks as
its predecessors leave it; `spread` puts each role where most hosts are free, so that a job lies in
as many racks as there are; `random` draws. The hosts of a server with several ranks stay together:
`spread` and `random` place servers. Workers are placed first, then the parameter servers.
Where a topology keeps hosts for parameter servers, both take their own kind as long as it lasts,
and with `packed` a server is on the nearest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from p4fabric.base.hops import switch_of
from p4fabric.base.topology import Topology

from testbed.routing.group_server import nearest
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
    for_servers = [host for host in free if host in kept]
    found = _by_policy(policy, topology, others, min(workers, len(others)), draws)
    if more := workers - len(found):
        found += _by_policy(policy, topology, for_servers, more, draws)
    left = [host for host in for_servers if host not in found]
    also = [host for host in others if host not in found]
    if policy != "packed":
        found += _by_policy(policy, topology, left, min(servers, len(left)), draws)
        return found + _by_policy(policy, topology, also, workers + servers - len(found), draws)
    for _ in range(servers):
        pool = left or also
        found.append(nearest(topology, found[:workers], pool))
        pool.remove(found[-1])
    return found


def _by_policy(
    policy: str, topology: Topology, free: Sequence[str], count: int, draws: Stream
) -> list[str]:
    if policy == "packed":
        return list(free[:count])
    servers: dict[str, list[str]] = {}  # the free hosts of each, also of those with one
    for host in free:
        servers.setdefault(topology.server_of(host), []).append(host)
    if policy == "random" and len(servers) == len(free):
        return draws.sample(free, count)
    # Servers of which others have a part come last.
    whole: list[str] = []
    rest: list[str] = []
    kept, members = topology.ps_hosts, topology.servers
    for server, hosts in servers.items():
        ranks = [host for host in members.get(server, hosts) if host not in kept]
        (whole if len(hosts) >= len(ranks) else rest).append(server)
    found: list[str] = []
    for part in whole, rest:
        if policy == "random":
            order = draws.sample(part, len(part))
        else:
            hosts_of = {server: servers[server] for server in part}
            order = _spread(topology, hosts_of, count - len(found))
        found += [host for server in order for host in servers[server]]
    return found[:count]


def _spread(topology: Topology, servers: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Servers with `count` hosts, or all of them: each next one in the rack with the most free
    hosts, the first in order among equals."""
    racks: dict[str, list[str]] = {}
    for server in servers:
        racks.setdefault(_rack(topology, server, servers[server][0]), []).append(server)
    left = {rack: sum(len(servers[server]) for server in there) for rack, there in racks.items()}
    order = [switch for switch in topology.switches if switch in racks]
    found: list[str] = []
    while count > 0 and len(found) < len(servers):
        rack = max(order, key=lambda switch: left[switch])
        server = racks[rack].pop(0)
        found.append(server)
        left[rack] -= len(servers[server])
        count -= len(servers[server])
    return found


def _rack(topology: Topology, server: str, host: str) -> str:
    """The switch that a host shares with other servers: its own, or the one above its server's."""
    gateway = switch_of(topology, host)
    if topology.server_of(host) == host:
        return gateway
    neighbours = [name for name, _, _ in topology.ports(gateway).values()]
    above = [name for name in neighbours if not topology.is_host(name)]
    alone = all(topology.server_of(name) == server for name in neighbours if name not in above)
    return above[0] if alone and above else gateway
