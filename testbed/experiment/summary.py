"""An experiment in one line."""

from __future__ import annotations

from testbed.config.units import SIZE, count, show
from testbed.experiment.experiment import Experiment
from testbed.traffic import rank_source
from testbed.traffic.call_routes import AUTO
from testbed.traffic.rank_calls import load_program


def choices(experiment: Experiment) -> list[str]:
    """Choices of `auto` for the calls of programs, a line for each kind and size of groups, such
    as `all_reduce among 8 ranks (auto): double_tree, from 64 KiB on esa`."""
    found = []
    for job in experiment.jobs:
        routes = rank_source.of(job.trace().ranks).routes if job.has_ranks else None
        if routes is None or routes.network is None:
            continue
        groups = load_program(job.trace().ranks).groups.values()
        for kind in dict.fromkeys(kind for kind, _, use, _ in routes.rules if use == AUTO):
            for ranks in sorted({len(each) for each in groups} - {1}):
                steps = [
                    f"from {show(size, SIZE)} on {name or experiment.system.name}"
                    for size, name in routes.network.thresholds(kind, ranks)
                ]
                first = steps[0].partition(" on ")[2]
                found.append(f"{kind} among {ranks} ranks (auto): {', '.join([first, *steps[1:]])}")
    return list(dict.fromkeys(found))


def summary(experiment: Experiment) -> str:
    """One line, such as `2 jobs with 8 workers on star (10 hosts, 1 switch), ESA, 256 aggregators
    per switch`."""
    topology = experiment.topology_object()
    workers = sum(job.workers for job in experiment.jobs)
    network = f"{count(topology.hosts, 'host')}, {count(topology.switches, 'switch', 'es')}"
    jobs = f"{count(experiment.jobs, 'job')} with {workers} worker{'s' if workers > 1 else ''}"
    parts = [f"{jobs} on {experiment.topology.title()} ({network})", experiment.system_entry.title]
    if experiment.system_entry.memory:
        parts.append(f"{experiment.aggregators} aggregators per switch")
    return ", ".join(parts)
