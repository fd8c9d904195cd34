"""The network and the jobs to plan for, from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError

from testbed.experiment import Experiment, load
from testbed.experiment.sweep_file import is_sweep, load_sweep
from testbed.routing.graph_file import network_of, read_graph
from testbed.routing.network import Network, PlanJob
from testbed.setup.build import platform_of
from testbed.setup.job_setups import Scheme
from testbed.setup.planning import network_of_platform, planned_jobs
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
    """The network and jobs of an experiment. Raises UserError if a job has not one PS."""
    if experiment.arrivals is not None:
        raise UserError(
            "jobs that come and go (arrivals) have no hosts before they run; a plan needs `jobs`"
        )
    platform = platform_of(experiment, Scheme())  # a planner asks no scheme
    return network_of_platform(platform), planned_jobs(experiment.jobs, platform.system.title)
