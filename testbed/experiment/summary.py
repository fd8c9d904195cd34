"""An experiment in one line."""

from __future__ import annotations

from testbed.config.units import count
from testbed.experiment.experiment import Experiment


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
