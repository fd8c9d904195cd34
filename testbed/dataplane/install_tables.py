"""Filling a switch's tables for an experiment.

Every program has routes to every host and switch, and thresholds of congestion marks. The other
tables depend on the system (hooks `tables` and `job_tables` of its entry in testbed/systems). With
a pool of aggregators they say which workers complete a sum at this switch, where a job's sums and
results go next (from the job's tree of switches), and the addresses of each copy of a multicast
packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.paths import P4
from testbed.protocols.sizes import FEWEST_JOBS, fragments_of, job_places, rounded_bits
from testbed.routing.tree import JobTree, next_hop
from testbed.setup.plan_entries import (
    aggregating_switches,
    groups_by_tag,
    max_lead_packets,
    next_nodes_by_tag,
)
from testbed.systems.options import GridOptions, PoolOptions, SwitchmlOptions
from testbed.topology import Topology, host_ip, host_mac, switch_ip, switch_mac

if TYPE_CHECKING:
    from testbed.setup.records import JobSetup, Platform, Setup

TO_SERVER = 1  # p4/esa.p4
TO_WORKERS = 2
PREEMPTION = {"priority": 0, "always": 1, "coin": 2}
GRID_MEMORY = {"plain": 0, "atp": 0, "esa": 1}  # p4/grid.p4
WHOLE_INDEX = 0xFFFFFFFF
UNTAGGED = 0
BURST_FRAMES = 4


def program(platform: Platform) -> tuple[Path, dict[str, int], tuple[Path, ...]]:
    """The P4 program of the switches: file, definitions, include folders."""
    definitions = {"VALUES": platform.values, "BITMAP_WIDTH": platform.bitmap_bits}
    if platform.value_bits == 16:
        definitions["VALUE_BITS"] = 16
    if platform.job_count > FEWEST_JOBS:
        definitions["JOBS"] = job_places(platform.job_count)
    if platform.system.memory:
        definitions["AGGREGATORS"] = platform.aggregators
        if platform.omits_zeros:
            definitions["ZEROS"] = 1
    own = platform.system.hook("definitions")
    definitions |= own(platform) if own else {}
    return platform.program, definitions, (P4,)


def switchml_definitions(platform: Platform) -> dict[str, int]:
    """The definitions of p4/switchml.p4: the number of sets per slot."""
    return {"SETS": platform.options_of(SwitchmlOptions).sets}


def grid_definitions(platform: Platform) -> dict[str, int]:
    """The definitions of p4/grid.p4: the system whose rules decide who gets an aggregator."""
    return {"MEMORY": GRID_MEMORY[platform.options_of(GridOptions).memory]}


def holds(platform: Platform) -> bool:
    """Whether a complete sum keeps its aggregator until its result comes (option `release`, if the
    system has it)."""
    release = getattr(platform.options, "release", "on_completion")
    if release == "auto":  # GRID: as the system whose memory it uses
        return platform.options_of(GridOptions).memory == "atp"
    return release == "on_result"


def install(setup: Setup, switch: str, client: Any) -> None:
    """Fill all tables and multicast groups of one switch, in one batch.

    `client` is the switch's control interface (p4engine.control.client.Client)."""
    client.batch(list(entries_of(setup, switch, setup.jobs).values()))


def entries_of(setup: Setup, switch: str, jobs: Iterable[int]) -> dict[tuple, tuple]:
    """The control calls that fill the tables and multicast groups of one switch, for these jobs, by
    what they set (`entry_of`), in order."""
    calls: list[tuple] = []
    platform = setup.platform
    _install_routes(platform.topology, switch, calls)
    _install_marks(platform, switch, calls)
    platform.system.require("tables")(setup, switch, calls)
    if platform.admission == "port":
        calls.append(("table_set_default", "admission", "refuse", []))
    for number in jobs:
        calls += job_calls(platform, switch, setup.jobs[number])
        calls += admission_calls(platform, switch, setup.jobs[number])
    return {entry_of(call): call for call in calls}


def job_calls(platform: Platform, switch: str, job: JobSetup) -> list[tuple]:
    """The control calls that bring one job into a switch's tables and multicast groups. Several
    jobs may need the same entry."""
    calls: list[tuple] = []
    fill = platform.system.hook("job_tables")
    if fill is not None:
        fill(platform, switch, job, calls)
    if platform.value_bits == 16 and platform.system.memory:
        workers = len(job.group.workers)
        bits = rounded_bits(workers)
        below_half, odd = ((1 << bits - 1) - 1, 1) if bits else (0, 0)
        rounding = [(1 << workers) - 1, bits, below_half, odd]
        calls.append(("table_add", "rounding", "set_rounding", [job.group.number], rounding))
    return calls


def admission_calls(platform: Platform, switch: str, job: JobSetup) -> list[tuple]:
    """The control calls that admit one job's packets at a switch (p4/admission.p4)."""
    if platform.admission == "off":
        return []
    number, ports = job.group.number, sorted(job.group.ports.get(switch, ()))
    return [("table_add", "admission", "admit", [port, number], []) for port in ports]


def entry_of(call: tuple) -> tuple:
    """What a call sets: an entry of a table, by its key, a table's default action, a multicast
    group, or a meter."""
    if call[0] == "table_add":
        _, table, _, match, _ = call
        return table, *match
    return call[:2]


def install_forwarder(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The tables of p4/forward.p4 except routes and marks."""
    mac, _ = addresses(setup.platform.topology, switch)
    calls.append(("table_set_default", "node", "set_node", [mac]))


def install_pool(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The tables of p4/esa.p4 and p4/atp.p4 that name no job, except routes and marks: what the
    switch is, and its policies."""
    platform = setup.platform
    options, topology = platform.options_of(PoolOptions), platform.topology
    mac, ip = addresses(topology, switch)
    max_age = -(-options.max_age_ns // platform.timestamp_unit_ns)
    parameters = [
        topology.number(switch),
        mac,
        ip,
        int(holds(platform)),
        int(getattr(options, "downgrading", False)),  # ATP has neither
        PREEMPTION[getattr(options, "preempt", "priority")],
        max_age,
    ]
    calls.append(("table_set_default", "node", "set_node", parameters))


def install_pool_job(platform: Platform, switch: str, job: JobSetup, calls: list[tuple]) -> None:
    """A job's entries in the tables of p4/esa.p4 and p4/atp.p4."""
    topology, number, tree = platform.topology, job.group.number, job.group.routed_tree
    if switch in tree.former:  # what it still holds goes to the server when that asks for it
        hop = next_hop(topology, switch, tree.target)
        if hop is not None:
            _install_hop_up(topology, number, hop, tree.target, calls)
    if switch not in tree.below:
        return
    if switch in tree.switches:  # else gradients are only forwarded, and results are copied
        complete = sum(1 << worker for worker in tree.below[switch])
        whole = [complete, 0, WHOLE_INDEX, platform.aggregators, job.last_fragment]
        calls.append(("table_add", "job", "aggregate", [number], whole))
        _install_route_up(topology, switch, number, tree, calls)
    _install_copies(topology, number, tree.children[switch], calls)


def install_switchml(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The tables of p4/switchml.p4 that name no job, except routes and marks."""
    mac, ip = addresses(setup.platform.topology, switch)
    calls.append(("table_set_default", "node", "set_node", [mac, ip]))


def install_switchml_job(
    platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
) -> None:
    """A job's entries in the tables of p4/switchml.p4."""
    topology, group = platform.topology, job.group
    number, tree, part = group.number, group.routed_tree, group.slots
    assert part is not None, "the system divides its memory"
    root = tree.target
    if switch in tree.former:  # it adds nothing more
        calls.append(("table_add", "job", "do_not_aggregate", [number], []))
    if switch not in tree.switches:  # a switch that only forwards needs no entries for jobs
        return
    complete = sum(1 << worker for worker in tree.below[switch])
    step = job.window * platform.options_of(SwitchmlOptions).sets
    last = job.last_fragment
    parameters = [complete, int(switch == root), part.base, part.slots, last, step]
    calls.append(("table_add", "job", "aggregate", [number], parameters))
    _install_copies(topology, number, tree.receivers(switch), calls)
    if switch != root:
        _install_route_up(topology, switch, number, tree, calls)
        return
    for worker, host in enumerate(group.workers):
        port, neighbour = _hop(topology, switch, host)
        mac, _ = addresses(topology, neighbour)
        _, ip = addresses(topology, host)
        calls.append(("table_add", "worker_route", "to_worker", [number, worker], [port, mac, ip]))


def install_grid(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The tables of p4/grid.p4 that name no job, except routes and marks, and the meter of the
    switch's aggregation capacity."""
    install_pool(setup, switch, calls)
    _install_capacity(setup, switch, calls)


def install_grid_job(platform: Platform, switch: str, job: JobSetup, calls: list[tuple]) -> None:
    """A job's entries in the tables of p4/grid.p4: the plan's for this switch, with its trees of
    results."""
    topology, group = platform.topology, job.group
    number, planned = group.number, group.routed_plan
    signals = int(platform.options_of(GridOptions).collision == "drop")
    _, server_ip = addresses(topology, group.ps)

    def steer(tag: int, port: int, node: str) -> None:
        mac, _ = addresses(topology, node)
        keys = [number, TO_SERVER, tag]
        calls.append(("table_add", "job_route", "to_server", keys, [port, mac, server_ip]))

    for (here, tag), following in next_nodes_by_tag(planned).items():
        if here == switch:
            steer(tag, topology.port_to(switch, following), following)
    hop = next_hop(topology, switch, group.ps)
    if switch in group.former and hop is not None:
        steer(UNTAGGED, *hop)  # what it still holds goes to the server when that asks for it
    if switch in aggregating_switches(planned):
        steer(UNTAGGED, *_hop(topology, switch, group.ps))
        whole = [0, 0, WHOLE_INDEX, platform.aggregators, job.last_fragment]
        calls.append(("table_add", "job", "aggregate", [number], whole))
    subtotals = {each.tag for each in planned.groups if each.parent}
    for tag, sums in groups_by_tag(planned, switch):
        adds = next((each.node for each in planned.groups if each.number == sums.parent), switch)
        told = signals if tag not in subtotals else 0  # no worker has sent a subtotal
        parameters = [sums.bitmap, sums.tag, told, topology.number(adds)]
        calls.append(("table_add", "fan_in", "gather", [number, tag], parameters))
    children = [
        (topology.port_to(switch, child), child)
        for parent, child in planned.results.links
        if parent == switch
    ]
    if children:
        _install_copies(topology, number, children, calls, UNTAGGED)


def _install_capacity(setup: Setup, switch: str, calls: list[tuple]) -> None:
    """The meter of a switch's aggregation capacity. The burst allows for the lead that paced
    senders can have; see docs/grid-switches.md."""
    platform = setup.platform
    settings = platform.switches.of(switch)
    if settings.capacity_bps is None:
        return
    frame = platform.longest_frame_bytes
    burst = (settings.burst_packets or 0) * frame
    if settings.burst_packets is None:
        for job in setup.jobs.values():
            first = fragments_of(job.trace.sizes, platform.values)
            for group in job.group.routed_plan.groups:
                if group.node == switch:
                    late = int(group.rate_bps * job.timers.burst_ns // (8 * 10**9))
                    frames = BURST_FRAMES + max_lead_packets(first, group.range)
                    burst += len(group.workers) * (frames * frame + late)
    rate = settings.capacity_bps / 8e6  # bytes per microsecond
    burst += 1  # the meter's arithmetic rounds
    calls.append(("meter_set", "capacity", 0, [(rate, burst), (rate, burst)]))


def _hop(topology: Topology, switch: str, target: str) -> tuple[int, str]:
    """A switch's port and neighbour on the way to a node, to which there is one."""
    hop = next_hop(topology, switch, target)
    assert hop is not None, (switch, target)
    return hop


def addresses(topology: Topology, node: str) -> tuple[str, str]:
    """MAC and IPv4 address of a host or switch."""
    number = topology.number(node)
    if topology.is_host(node):
        return host_mac(number), host_ip(number)
    return switch_mac(number), switch_ip(number)


def _install_routes(topology: Topology, switch: str, calls: list[tuple]) -> None:
    for node in (*topology.hosts, *topology.switches):
        hop = next_hop(topology, switch, node)
        if hop is None:
            continue
        port, neighbour = hop
        _, ip = addresses(topology, node)
        mac, _ = addresses(topology, neighbour)
        calls.append(("table_add", "route", "forward", [(ip, 32)], [port, mac]))


def _install_marks(platform: Platform, switch: str, calls: list[tuple]) -> None:
    for port, (_, link, end) in platform.topology.ports(switch).items():
        threshold = platform.link(link)[end].ecn_threshold_packets
        if threshold:
            calls.append(("table_add", "congestion", "set_threshold", [port], [threshold]))


def _install_route_up(
    topology: Topology, switch: str, number: int, tree: JobTree, calls: list[tuple]
) -> None:
    """The entry that sends a sum on towards its job's server, or root switch."""
    _install_hop_up(topology, number, tree.parent[switch], tree.target, calls)


def _install_hop_up(
    topology: Topology, number: int, hop: tuple[int, str], target: str, calls: list[tuple]
) -> None:
    port, following = hop
    mac, _ = addresses(topology, following)
    _, ip = addresses(topology, target)
    calls.append(("table_add", "job_route", "to_server", [number, TO_SERVER], [port, mac, ip]))


def _replication_id(topology: Topology, node: str) -> int:
    """What tells a switch's copies apart: the number of the host, or, behind these, of the
    switch."""
    number = topology.number(node)
    return number if topology.is_host(node) else len(topology.hosts) + number


def _install_copies(
    topology: Topology,
    number: int,
    children: Sequence[tuple[int, str]],
    calls: list[tuple],
    *more_keys: int,
) -> None:
    """The entries that send a result on to `children`, (port, node) of a job's tree. `more_keys`:
    further keys of table job_route."""
    copies = []
    for port, child in children:
        rid = _replication_id(topology, child)
        copies.append((port, rid))
        mac, ip = addresses(topology, child)
        calls.append(("table_add", "receiver", "address", [port, rid], [mac, ip]))
    group = number + 1
    calls.append(("multicast_group", group, copies))
    keys = [number, TO_WORKERS, *more_keys]
    calls.append(("table_add", "job_route", "to_workers", keys, [group]))
