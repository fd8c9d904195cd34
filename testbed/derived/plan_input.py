"""The network and the jobs to plan for, from an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.errors import UserError
from testbed.experiment import Experiment, load
from testbed.experiment.resolve_links import MIN_FRAME_BYTES
from testbed.experiment.sweep import is_sweep, load_sweep
from testbed.routing.graph_file import network_of, read_graph
from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.systems.options import GridOptions

Input = tuple[Network, tuple[PlanJob, ...]]


def of_file(path: Path) -> Input:
    """The network and jobs of a graph file (graph_file.py), or of an experiment if the file's name
    ends in .yaml or .yml. Raises UserError."""
    return read(path)[0]


def read(path: Path) -> tuple[Input, tuple[str, ...], dict[str, Any]]:
    """The same, the planners that the file names, if it does, and what it tells them (arguments of
    make_plan): an experiment with a system that plans, or a sweep of such over one network. Raises
    UserError."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return network_of(read_graph(path)), (), {}
    if not is_sweep(path):
        experiments = [load(path)]
    else:
        experiments = [point.experiment for point in load_sweep(path).points]
    inputs = dict.fromkeys(of_experiment(experiment) for experiment in experiments)
    if len(inputs) > 1:
        raise UserError(
            f"{path}: its sweep varies the network or the jobs; plan for a file with one of them"
        )
    systems = [experiment.system for experiment in experiments]
    planning = [system for system in systems if isinstance(system, GridOptions)]
    options = [system.plan_options for system in planning]
    if any(each != options[0] for each in options):
        raise UserError(
            f"{path}: its sweep varies what planners are told (results, roundings, exact,"
            " max_rate), and such plans are not compared; plan for a file with one of them"
        )
    named = dict.fromkeys(system.planner for system in planning)
    return next(iter(inputs)), tuple(named), options[0] if options else {}


def of_experiment(experiment: Experiment) -> Input:
    """The network and jobs of an experiment. Of parallel links a path takes the first that has not
    failed; failed links are not there. Raises UserError if a job has not one PS."""
    topology = experiment.topology_object()
    links: dict[tuple[str, str], Link] = {}
    for node in (*topology.switches, *topology.hosts):
        for _, (neighbour, index, end) in sorted(topology.ports(node).items()):
            direction = experiment.link(index)[end]
            link = Link(node, neighbour, direction.bandwidth_bps, direction.delay_ns)
            links.setdefault(link.ends, link)
    # In the topology's order, which decides among equally short paths.
    order = {
        ends: (index, end)
        for node in (*topology.hosts, *topology.switches)
        for neighbour, index, end in topology.ports(node).values()
        for ends in [(node, neighbour)]
    }
    if experiment.arrivals is not None:
        raise UserError(
            "jobs that come and go (arrivals) have no hosts before they run; a plan needs `jobs`"
        )
    jobs = []
    for job in experiment.jobs:
        placement = job.fixed_placement
        if len(placement.servers) != 1:
            raise UserError(
                f"job {job.name} has {_servers(len(placement.servers))} under"
                f" {experiment.system_entry.title}; a plan needs exactly one"
            )
        jobs.append(PlanJob(job.name, placement.workers, placement.ps))
    slots = experiment.aggregators or None
    virtual = experiment.virtual
    network = Network(
        switches=tuple(
            Switch(name, settings.aggregates, settings.capacity_bps, slots)
            for name in topology.switches
            for settings in [experiment.switches.of(name)]
        ),
        hosts=tuple(Host(name) for name in topology.hosts),
        links=tuple(sorted(links.values(), key=lambda link: order[link.ends])),
        host_spread_ns=2 * virtual.worker_jitter_ns if virtual else 0,
        frame_bytes=MIN_FRAME_BYTES
        + experiment.bitmap_bits // 8
        - 4
        + 4 * experiment.values_per_packet,
    )
    return network, tuple(jobs)


def _servers(count: int) -> str:
    return "no parameter server" if count == 0 else f"{count} parameter servers"
