"""Where the fragments of an experiment's jobs meet: found once for each job, for its hosts and for
the tables of all switches."""

from __future__ import annotations

from testbed.experiment import Experiment
from testbed.routing.tree import JobTree, job_tree, root_switch


def root_of_job(experiment: Experiment, number: int) -> str:
    """The switch that completes the sums of a job without a server. Raises UserError."""
    workers = experiment.jobs[number].fixed_placement.workers
    return experiment.derived(
        ("root", number), lambda: root_switch(experiment.topology_object(), workers)
    )


def tree_of_job(experiment: Experiment, number: int) -> JobTree:
    """The tree towards a job's server, or towards its root switch. Raises UserError."""
    placement = experiment.jobs[number].fixed_placement
    target = placement.servers[0] if placement.servers else root_of_job(experiment, number)
    return experiment.derived(
        ("tree", number), lambda: job_tree(experiment.topology_object(), placement.workers, target)
    )
