"""Control calls that schemes of several systems make to fill tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from p4fabric.base.hops import next_hop
from p4fabric.base.topology import Topology, host_ip, host_mac, switch_ip, switch_mac

from testbed.routing.job_tree import JobTree
from testbed.setup.job_setups import JobSetup, Platform, Setup

BLOCK = 256  # workers that the lower half of a worker's number tells apart (p4/egress.p4)
TO_SERVER = 1  # p4/esa.p4
TO_WORKERS = 2


def forward_only(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The tables of p4/forward.p4 except routes and marks."""
    mac, _ = addresses(setup.platform.topology, switch)
    calls.append(("table_set_default", "node", "set_node", [mac]))


def addresses(topology: Topology, node: str) -> tuple[str, str]:
    """MAC and IPv4 address of a host or switch."""
    number = topology.number(node)
    if topology.is_host(node):
        return host_mac(number), host_ip(number)
    return switch_mac(number), switch_ip(number)


def hop_to(topology: Topology, switch: str, target: str) -> tuple[int, str]:
    """A switch's port and neighbour on the way to a node, to which there is one."""
    hop = next_hop(topology, switch, target)
    assert hop is not None, (switch, target)
    return hop


def send_up_tree(
    topology: Topology,
    switch: str,
    number: int,
    tree: JobTree,
    calls: list[tuple],
    *more_keys: int,
) -> None:
    """The entry that sends a sum on towards its job's server, or root switch. `more_keys`: further
    keys of table job_route."""
    send_up(topology, number, tree.parent[switch], tree.target, calls, *more_keys)


def send_up(
    topology: Topology,
    number: int,
    hop: tuple[int, str],
    target: str,
    calls: list[tuple],
    *more_keys: int,
) -> None:
    port, following = hop
    mac, _ = addresses(topology, following)
    _, ip = addresses(topology, target)
    keys = [number, TO_SERVER, *more_keys]
    calls.append(("table_add", "job_route", "to_server", keys, [port, mac, ip]))


def _replication_id(topology: Topology, node: str) -> int:
    """Replication id, which distinguishes a switch's copies: the number of the host, or, after all
    hosts, that of the switch."""
    number = topology.number(node)
    return number if topology.is_host(node) else len(topology.hosts) + number


def copy_to(
    platform: Platform,
    switch: str,
    job: JobSetup,
    children: Sequence[tuple[int, str]],
    behind: Mapping[str, Sequence[int]],
    calls: list[tuple],
    *more_keys: int,
    tree: int = 0,
    entry: bool = True,
) -> int:
    """The entries that send a result on to `children`, (port, node) of a job's tree. behind: the
    workers behind a switch among them. `more_keys`: further keys of table job_route. tree: number
    of this tree among those of the job. entry: False: without the entry of job_route. Returns the
    multicast group."""
    copies: list[tuple[int, int]] = []
    topology, number, workers = platform.topology, job.group.number, job.group.workers
    for port, child in children:
        rid = _add_copy(topology, switch, port, child, tree, "address", copies, calls)
        if (job.job.is_program or job.ranks is not None) and (
            platform.omits_zeros or platform.tokens
        ):
            found = behind.get(child) or [n for n, host in enumerate(workers) if host == child]
            members = sum(1 << worker for worker in found)
            for block in range(-(-len(workers) // BLOCK)):
                mask = (1 << BLOCK) - 1 << BLOCK * block
                parameters = [(members & mask) >> BLOCK * block, int(members & ~mask != 0)]
                keys = [number, port, rid, block]
                calls.append(("table_add", "members", "set_behind", keys, parameters))
    group = _group(platform, number, tree)
    calls.append(("multicast_group", group, copies))
    if entry:
        keys = [number, TO_WORKERS, *more_keys]
        calls.append(("table_add", "job_route", "to_workers", keys, [group]))
    return group


def _group(platform: Platform, number: int, tree: int) -> int:
    """Number of the multicast group of a communicator's tree."""
    return tree * platform.numbers + number + 1


def _add_copy(
    topology: Topology,
    switch: str,
    port: int,
    node: str,
    tree: int,
    action: str,
    copies: list[tuple[int, int]],
    calls: list[tuple],
) -> int:
    """Add a node's copy to a group of a switch, and the entry that addresses it, by the MAC address
    of the next node on the way there; returns its replication id."""
    rid = tree * (len(topology.hosts) + len(topology.switches)) + _replication_id(topology, node)
    copies.append((port, rid))
    mac, _ = addresses(topology, topology.ports(switch)[port][0])
    _, ip = addresses(topology, node)
    calls.append(("table_add", "receiver", action, [port, rid], [mac, ip]))
    return rid


def deliver(platform: Platform, switch: str, job: JobSetup, calls: list[tuple]) -> None:
    """The entries by which the switch of a job's server sends complete sums on as results, to the
    workers and to the server (p4/delivery.p4)."""
    topology, number, tree = platform.topology, job.group.number, job.group.routed_tree
    port, following = tree.parent[switch]
    if following != tree.target:
        return
    copies: list[tuple[int, int]] = []
    for below, child in tree.children[switch]:
        _add_copy(topology, switch, below, child, 0, "address", copies, calls)
    _add_copy(topology, switch, port, following, 1, "address_server", copies, calls)
    group = _group(platform, number, 1)
    calls.append(("multicast_group", group, copies))
    calls.append(("table_add", "delivery", "deliver", [number], [group]))
