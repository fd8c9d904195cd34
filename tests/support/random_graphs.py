"""Random networks with jobs, as graph files, and runs of them as a planner plans.

A run of a plan is held against what the plan states: the rate of its slowest worker."""

from __future__ import annotations

import random
from pathlib import Path

from testbed.experiment import Experiment
from testbed.protocols.sizes import frame_bytes
from testbed.setup.plan_input import of_file
from tests.support.experiments import experiment
from tests.support.grid import DEFAULTS, plan_of
from tests.support.virtual import run_virtual

FRAME_BITS = 8 * frame_bytes(64, 32)
TEXT = """
name: random-graph
runtime: virtual
topology: {kind: graph, file: %(file)s}
system: {name: grid, planner: %(planner)s%(options)s}
memory: {aggregators: 4096}
jobs: [%(jobs)s]
"""
JOB = "{name: %s, model: %s, iterations: 1, workers: %d, placement: {workers: [%s], ps: %s}}"  # noqa: UP031
RATES = (1, 1, 2, 3, 3, 5, 9)


def graph_text(seed: int) -> str:
    """A graph file: 2 to 6 switches, 4 to 12 hosts, one or two jobs; rates of 1 to 30 Gbit/s.

    Links have different rates in both directions as often as not. A switch adds up to a limit of
    its own, without limit, or not at all."""
    draw = random.Random(seed)
    switches = [f"s{i}" for i in range(1, draw.randint(2, 6) + 1)]
    hosts = [f"h{i}" for i in range(1, draw.randint(4, 12) + 1)]
    lines = []
    for switch in switches:
        kind = draw.choice(["unlimited", "limited", "limited", "none"])
        rate = kind if kind != "limited" else f"{draw.randint(4, 30)}Gbit/s"
        lines.append(f"switch {switch} aggregation={rate}")

    def link(a: str, b: str) -> None:
        there = draw.choice(RATES)
        back = draw.choice((there, draw.choice(RATES)))
        lines.append(f"{a} {b} {there}Gbit/s {back}Gbit/s")

    for number, switch in enumerate(switches[1:], 1):
        parent = draw.choice(switches[:number])
        for other in switches[:number]:
            if other == parent or draw.random() < 0.4:
                link(switch, other)
    for host in hosts:
        link(host, draw.choice(switches))
    lines += [f"host {host}" for host in hosts]
    draw.shuffle(hosts)
    cut = draw.randint(2, len(hosts) - 2)
    parts = [hosts] if len(hosts) < 6 or draw.random() < 0.5 else [hosts[:cut], hosts[cut:]]
    for name, part in zip("ab", parts, strict=False):
        lines.append(f"job {name} workers={','.join(part[1:])} ps={part[0]}")
    return "\n".join(lines) + "\n"


def planned_experiment(path: Path, planner: str, options: str = "") -> Experiment:
    """The experiment that runs a graph file's jobs, each for one block of 1300 fragments.

    options: more options of the system, `, key: value`."""
    jobs = [
        JOB % (job.name, DEFAULTS["model"], len(job.workers), ", ".join(job.workers), job.ps)
        for job in of_file(path)[1]
    ]
    changes = {"file": path, "planner": planner, "options": options}
    return experiment(TEXT % {**changes, "jobs": ", ".join(jobs)})


def share_of_stated_rate(spec: Experiment) -> float:
    """Share of its stated rate that the worst job of a run reaches in virtual time: fragments' bits
    by completion time, by the rate of the job's slowest worker. Nothing may be lost."""
    tables = run_virtual(spec)
    shares = []
    for job, part in zip(tables["jobs"], plan_of(spec).jobs, strict=True):
        assert job["exact"] and job["retransmissions"] == 0
        reached = job["fragments"] * FRAME_BITS * 10**9 / job["jct_ns"]
        shares.append(reached / float(part.rate_bps))
    return min(shares)
