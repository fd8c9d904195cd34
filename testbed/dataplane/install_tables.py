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

from testbed.derived.job_ports import ports_of_job
from testbed.derived.job_trees import tree_of_job
from testbed.derived.last_fragment import last_fragment
from testbed.derived.plan_entries import (
    aggregating_switches,
    former_switches,
    groups_by_tag,
    max_lead_packets,
    next_nodes_by_tag,
    plan_of,
    undisturbed,
)
from testbed.derived.system_options import omits_zeros, options_of
from testbed.derived.timers import timers_of
from testbed.experiment.memory_shares import slots_of, window_of_slots
from testbed.paths import P4
from testbed.protocols.sizes import (
    FEWEST_JOBS,
    fragments_of,
    frame_bytes,
    job_places,
    rounded_bits,
)
from testbed.routing.tree import JobTree, next_hop
from testbed.systems.options import GridOptions, PoolOptions, SwitchmlOptions
from testbed.topology import Topology, host_ip, host_mac, switch_ip, switch_mac

if TYPE_CHECKING:
    from testbed.experiment import Experiment

TO_SERVER = 1  # p4/esa.p4
TO_WORKERS = 2
PREEMPTION = {"priority": 0, "always": 1, "coin": 2}
GRID_MEMORY = {"plain": 0, "atp": 0, "esa": 1}  # p4/grid.p4
WHOLE_INDEX = 0xFFFFFFFF
UNTAGGED = 0
BURST_FRAMES = 4


def program(experiment: Experiment) -> tuple[Path, dict[str, int], tuple[Path, ...]]:
    """The P4 program of the experiment's switches: file, definitions, include folders."""
    definitions = {
        "VALUES": experiment.values_per_packet,
        "BITMAP_WIDTH": experiment.bitmap_bits,
    }
    if experiment.value_bits == 16:
        definitions["VALUE_BITS"] = 16
    if len(experiment.jobs) > FEWEST_JOBS:
        definitions["JOBS"] = job_places(len(experiment.jobs))
    if experiment.system_entry.memory:
        definitions["AGGREGATORS"] = experiment.aggregators
        if omits_zeros(experiment):
            definitions["ZEROS"] = 1
    own = experiment.system_entry.hook("definitions")
    definitions |= own(experiment) if own else {}
    return (
        experiment.program,
        definitions,
        (P4,),
    )


def switchml_definitions(experiment: Experiment) -> dict[str, int]:
    """The definitions of p4/switchml.p4: the number of sets per slot."""
    return {"SETS": options_of(experiment, SwitchmlOptions).sets}


def grid_definitions(experiment: Experiment) -> dict[str, int]:
    """The definitions of p4/grid.p4: the system whose rules decide who gets an aggregator."""
    return {"MEMORY": GRID_MEMORY[options_of(experiment, GridOptions).memory]}


def holds(experiment: Experiment) -> bool:
    """Whether a complete sum keeps its aggregator until its result comes (option `release`, if the
    system has it)."""
    release = getattr(experiment.system, "release", "on_completion")
    if release == "auto":  # GRID: as the system whose memory it uses
        return options_of(experiment, GridOptions).memory == "atp"
    return release == "on_result"


def install(experiment: Experiment, switch: str, client: Any) -> None:
    """Fill all tables and multicast groups of one switch, in one batch.

    `client` is the switch's control interface (p4engine.control.client.Client)."""
    jobs = [number for number, _ in experiment.placed_jobs]
    client.batch(list(entries_of(experiment, switch, jobs).values()))


def entries_of(experiment: Experiment, switch: str, jobs: Iterable[int]) -> dict[tuple, tuple]:
    """The control calls that fill the tables and multicast groups of one switch, for these jobs, by
    what they set (`entry_of`), in order."""
    calls: list[tuple] = []
    topology = experiment.topology_object()
    _install_routes(topology, switch, calls)
    _install_marks(experiment, topology, switch, calls)
    experiment.system_entry.require("tables")(experiment, topology, switch, calls)
    if experiment.admission == "port":
        calls.append(("table_set_default", "admission", "refuse", []))
    for number in jobs:
        calls += job_calls(experiment, switch, number)
        calls += admission_calls(experiment, switch, number)
    return {entry_of(call): call for call in calls}


def job_calls(experiment: Experiment, switch: str, number: int) -> list[tuple]:
    """The control calls that bring one job into a switch's tables and multicast groups. Several
    jobs may need the same entry."""
    calls: list[tuple] = []
    fill = experiment.system_entry.hook("job_tables")
    if fill is not None:
        fill(experiment, experiment.topology_object(), switch, number, calls)
    if experiment.value_bits == 16 and experiment.system_entry.memory:
        workers = experiment.jobs[number].workers
        bits = rounded_bits(workers)
        below_half, odd = ((1 << bits - 1) - 1, 1) if bits else (0, 0)
        rounding = [(1 << workers) - 1, bits, below_half, odd]
        calls.append(("table_add", "rounding", "set_rounding", [number], rounding))
    return calls


def admission_calls(experiment: Experiment, switch: str, number: int) -> list[tuple]:
    """The control calls that admit one job's packets at a switch (p4/admission.p4)."""
    if experiment.admission == "off":
        return []
    ports = sorted(ports_of_job(experiment, number).get(switch, ()))
    return [("table_add", "admission", "admit", [port, number], []) for port in ports]


def entry_of(call: tuple) -> tuple:
    """What a call sets: an entry of a table, by its key, a table's default action, a multicast
    group, or a meter."""
    if call[0] == "table_add":
        _, table, _, match, _ = call
        return table, *match
    return call[:2]


def install_forwarder(
    experiment: Experiment, topology: Topology, switch: str, calls: list[tuple]
) -> None:
    """The tables of p4/forward.p4 except routes and marks."""
    mac, _ = addresses(topology, switch)
    calls.append(("table_set_default", "node", "set_node", [mac]))


def install_pool(
    experiment: Experiment, topology: Topology, switch: str, calls: list[tuple]
) -> None:
    """The tables of p4/esa.p4 and p4/atp.p4 that name no job, except routes and marks: what the
    switch is, and its policies."""
    options = options_of(experiment, PoolOptions)
    mac, ip = addresses(topology, switch)
    max_age = -(-options.max_age_ns // experiment.timestamp_unit_ns)
    parameters = [
        topology.number(switch),
        mac,
        ip,
        int(holds(experiment)),
        int(getattr(options, "downgrading", False)),  # ATP has neither
        PREEMPTION[getattr(options, "preempt", "priority")],
        max_age,
    ]
    calls.append(("table_set_default", "node", "set_node", parameters))


def install_pool_job(
    experiment: Experiment, topology: Topology, switch: str, number: int, calls: list[tuple]
) -> None:
    """A job's entries in the tables of p4/esa.p4 and p4/atp.p4."""
    tree = tree_of_job(experiment, number)
    if switch in tree.former:  # what it still holds goes to the server when that asks for it
        hop = next_hop(topology, switch, tree.target)
        if hop is not None:
            _install_hop_up(topology, number, hop, tree.target, calls)
    if switch not in tree.below:
        return
    if switch in tree.switches:  # else gradients are only forwarded, and results are copied
        complete = sum(1 << worker for worker in tree.below[switch])
        last = last_fragment(experiment, number)
        whole = [complete, 0, WHOLE_INDEX, experiment.aggregators, last]
        calls.append(("table_add", "job", "aggregate", [number], whole))
        _install_route_up(topology, switch, number, tree, calls)
    _install_copies(topology, number, tree.children[switch], calls)


def install_switchml(
    experiment: Experiment, topology: Topology, switch: str, calls: list[tuple]
) -> None:
    """The tables of p4/switchml.p4 that name no job, except routes and marks."""
    mac, ip = addresses(topology, switch)
    calls.append(("table_set_default", "node", "set_node", [mac, ip]))


def install_switchml_job(
    experiment: Experiment, topology: Topology, switch: str, number: int, calls: list[tuple]
) -> None:
    """A job's entries in the tables of p4/switchml.p4."""
    tree = tree_of_job(experiment, number)
    root = tree.target
    if switch in tree.former:  # it adds nothing more
        calls.append(("table_add", "job", "do_not_aggregate", [number], []))
    if switch not in tree.switches:  # a switch that only forwards needs no entries for jobs
        return
    complete = sum(1 << worker for worker in tree.below[switch])
    part = slots_of(experiment, number)
    step = window_of_slots(experiment, number) * options_of(experiment, SwitchmlOptions).sets
    last = last_fragment(experiment, number)
    parameters = [complete, int(switch == root), part.base, part.slots, last, step]
    calls.append(("table_add", "job", "aggregate", [number], parameters))
    _install_copies(topology, number, tree.receivers(switch), calls)
    if switch != root:
        _install_route_up(topology, switch, number, tree, calls)
        return
    for worker, host in enumerate(experiment.jobs[number].fixed_placement.workers):
        port, neighbour = _hop(topology, switch, host)
        mac, _ = addresses(topology, neighbour)
        _, ip = addresses(topology, host)
        calls.append(("table_add", "worker_route", "to_worker", [number, worker], [port, mac, ip]))


def install_grid(
    experiment: Experiment, topology: Topology, switch: str, calls: list[tuple]
) -> None:
    """The tables of p4/grid.p4 that name no job, except routes and marks, and the meter of the
    switch's aggregation capacity."""
    install_pool(experiment, topology, switch, calls)
    _install_capacity(experiment, switch, calls)


def install_grid_job(
    experiment: Experiment, topology: Topology, switch: str, number: int, calls: list[tuple]
) -> None:
    """A job's entries in the tables of p4/grid.p4: the plan's for this switch, with its trees of
    results."""
    placement = experiment.jobs[number].fixed_placement
    planned = plan_of(experiment).jobs[number]
    signals = int(options_of(experiment, GridOptions).collision == "drop")
    _, server_ip = addresses(topology, placement.ps)

    def steer(tag: int, port: int, node: str) -> None:
        mac, _ = addresses(topology, node)
        keys = [number, TO_SERVER, tag]
        calls.append(("table_add", "job_route", "to_server", keys, [port, mac, server_ip]))

    for (here, tag), following in next_nodes_by_tag(planned).items():
        if here == switch:
            steer(tag, topology.port_to(switch, following), following)
    hop = next_hop(topology, switch, placement.ps)
    if switch in former_switches(experiment, number) and hop is not None:
        steer(UNTAGGED, *hop)  # what it still holds goes to the server when that asks for it
    if switch in aggregating_switches(planned):
        steer(UNTAGGED, *_hop(topology, switch, placement.ps))
        last = last_fragment(experiment, number)
        whole = [0, 0, WHOLE_INDEX, experiment.aggregators, last]
        calls.append(("table_add", "job", "aggregate", [number], whole))
    subtotals = {each.tag for each in planned.groups if each.parent}
    for tag, group in groups_by_tag(planned, switch):
        adds = next((each.node for each in planned.groups if each.number == group.parent), switch)
        told = signals if tag not in subtotals else 0  # no worker has sent a subtotal
        parameters = [group.bitmap, group.tag, told, topology.number(adds)]
        calls.append(("table_add", "fan_in", "gather", [number, tag], parameters))
    children = [
        (topology.port_to(switch, child), child)
        for parent, child in planned.results.links
        if parent == switch
    ]
    if children:
        _install_copies(topology, number, children, calls, UNTAGGED)


def _install_capacity(experiment: Experiment, switch: str, calls: list[tuple]) -> None:
    """The meter of a switch's aggregation capacity. The burst allows for the lead that paced
    senders can have; see docs/grid-switches.md."""
    settings = experiment.switches.of(switch)
    if settings.capacity_bps is None:
        return
    frame = frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    burst = (settings.burst_packets or 0) * frame
    if settings.burst_packets is None:
        for number, job in enumerate(plan_of(experiment).jobs):
            burst_ns = timers_of(undisturbed(experiment), number).burst_ns
            sizes = [layer.values for layer in experiment.jobs[number].trace().layers]
            first = fragments_of(sizes, experiment.values_per_packet)
            for group in job.groups:
                if group.node == switch:
                    late = int(group.rate_bps * burst_ns // (8 * 10**9))
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


def _install_marks(
    experiment: Experiment, topology: Topology, switch: str, calls: list[tuple]
) -> None:
    for port, (_, link, end) in topology.ports(switch).items():
        threshold = experiment.link(link)[end].ecn_threshold_packets
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
