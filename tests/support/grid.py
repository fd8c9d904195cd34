"""GRID's worked example, and what a plan says of packets: for tests of every runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from testbed.experiment import Experiment
from testbed.routing.plan import Plan
from testbed.schemes import platform_of
from testbed.setup.planning import plan_jobs
from tests.support.paths import ROOT

FRAGMENTS = 1300

TEXT = """
name: example
runtime: %(runtime)s
topology: %(topology)s
links: {each: [%(links)s]}
switches: {capacity: %(capacity)s, each: [%(switches)s]}
system: {name: grid, planner: %(planner)s, memory: %(memory)s}
memory: {aggregators: 1024}
jobs:
  - {model: %(model)s, workers: 8, iterations: 1%(job)s}
"""
DEFAULTS = {
    "runtime": "virtual",
    "topology": "{kind: triangle}",
    "links": "",
    "capacity": "9 Gbit/s",
    "switches": "",
    "planner": "grid-links",
    "memory": "esa",
    "job": "",
    "model": str(ROOT / "experiments" / "grid-example.csv"),
}
# Packets towards the server per scheme: L1, L2, L3 and the server's link; and the completion time
# in units of a quarter of GRID's.
UPWARDS = ("s1", "s3"), ("s1", "s2"), ("s2", "s3"), ("s3", "h9")
SCHEMES = {
    "none": ((3900, 1300, 3900, 10400), 12),
    "nearest": ((1600, 0, 1300, 3800), 12 / 2.4375),
    "grid-links": ((1300, 1300, 1300, 3900), 4),
}


def text_of(**changes: str) -> str:
    """The example's experiment file with some parts changed."""
    return TEXT % {**DEFAULTS, **changes}


def passed(rows: Iterable[Mapping]) -> dict[tuple[str, str], int]:
    """{(switch, neighbour): packets that left} of the rows of table links."""
    return {
        (row["node"], row["neighbour"]): int(row["packets"])
        for row in rows
        if row["direction"] == "egress"
    }


def plan_of(experiment: Experiment) -> Plan:
    """The plan for all jobs."""
    return plan_jobs(platform_of(experiment), experiment.jobs, experiment.seed)


def planned(experiment: Experiment, number: int = 0) -> Counter[tuple[str, str]]:
    """Packets of a job that leave each switch for each neighbour: gradients as its plan says, and
    results down its tree."""
    job = plan_of(experiment).jobs[number]
    fragments = experiment.jobs[number].trace().fragments(experiment.values_per_packet)
    expected: Counter[tuple[str, str]] = Counter()
    ways = [(each.range, each.path[1:]) for worker in job.workers for each in worker.assignments]
    ways += [(group.range, group.path) for group in job.groups]
    for share, path in ways:
        for ends in zip(path, path[1:], strict=False):
            expected[ends] += len(share.fragments(fragments))
    for parent, child in job.results.links[1:]:  # the first one is the server's own
        expected[parent, child] += fragments
    return expected
