"""The networks of tests/support/known_optima.py in virtual time: runs reach the rates that are
worked out by hand, as long as results have room."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.protocols.sizes import frame_bytes
from testbed.setup.plan_input import of_file
from tests.support.experiments import experiment
from tests.support.grid import DEFAULTS, passed, plan_of, planned
from tests.support.known_optima import INPUTS
from tests.support.virtual import run_virtual

FRAME_BITS = 8 * frame_bytes(64, 32)
TEXT = """
name: known-optimum
runtime: virtual
topology: {kind: graph, file: %(file)s}
system: {name: grid, planner: %(planner)s}
memory: {aggregators: 1024}
jobs: [%(jobs)s]
"""
JOB = "{name: %s, model: %s, iterations: 1, workers: %d, placement: {workers: [%s], ps: %s}}"  # noqa: UP031
# Those that run always: shares at a full capacity, jobs that share one, directions.
ALWAYS = {
    ("the further switch is the better one", "nearest"),
    ("two jobs at one switch", "nearest"),
    ("leaves below a switch that adds", "two-level"),
    ("the narrow direction is the results'", "grid-links"),
}
ALL = {(name, planner) for name, (_, planners) in INPUTS.items() for planner in planners}
CASES = [
    pytest.param(
        name,
        planner,
        id=f"{name}: {planner}",
        marks=() if (name, planner) in ALWAYS else pytest.mark.slow,
    )
    for name, planner in sorted(ALL)
]


@pytest.mark.parametrize(("name", "planner"), CASES)
def test_runs_reach_the_rates_worked_out_by_hand(name, planner, tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(INPUTS[name][0])
    jobs = [
        JOB % (job.name, DEFAULTS["model"], len(job.workers), ", ".join(job.workers), job.ps)
        for job in of_file(path)[1]
    ]
    spec = experiment(TEXT % {"file": path, "planner": planner, "jobs": ", ".join(jobs)})
    tables = run_virtual(spec)
    links = passed(tables["links"])
    expected = sum((planned(spec, job) for job in range(len(jobs))), Counter())
    assert {ends: packets for ends, packets in links.items() if packets} == +expected
    assert sum(r["value"] for r in tables["switch_counters"] if r["counter"] == "over_rate") == 0
    for job, part in zip(tables["jobs"], plan_of(spec).jobs, strict=True):
        assert job["exact"] and job["retransmissions"] == 0
        min_ns = job["fragments"] * FRAME_BITS * 10**9 / part.results_bps
        assert min_ns * 0.999 <= job["jct_ns"] < 1.02 * min_ns + 15_000


def test_the_inputs_that_always_run_exist():
    assert not ALWAYS - ALL
