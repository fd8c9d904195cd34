"""Runs with planned faults: all jobs finish exactly, or the right one ends with its reason.

Two short jobs on one switch; the fault strikes job a, or the switch under both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testbed import results
from tests.support.paths import ROOT

TEXT = """
name: fault
topology: {{kind: star, hosts: 6}}
links: {{bandwidth: 10 Mbit/s}}
system: {system}
{memory}
timeout: 2 s
jobs:
  - {{name: a, model: resnet18, workers: 2, iterations: 4, scale: 0.008, compute_scale: 1}}
  - {{name: b, model: resnet18, workers: 2, iterations: 4, scale: 0.008, compute_scale: 1}}
faults:
  - {{at: 400 ms, {fault}}}
"""


def run(folder: Path, system: str, fault: str) -> tuple[int, str, results.Results]:
    """(exit code, errors, results) of a run with a fault."""
    path = folder / "fault.yaml"
    memory = "memory: {aggregators: 64}" if system in ("esa", "atp") else ""
    path.write_text(TEXT.format(system=system, memory=memory, fault=fault))
    command = [sys.executable, str(ROOT / "run.py"), str(path), "--results", str(folder / "r")]
    command.append("--no-report")
    done = subprocess.run(command, capture_output=True, text=True)
    (made,) = (folder / "r").glob("fault-*")
    return done.returncode, done.stderr, results.read(made)


def all_exact(jobs) -> bool:
    checked = jobs.values_checked == jobs["values"] * jobs.iterations * jobs.workers
    return bool(jobs.exact.all() and checked.all())


@pytest.mark.slow
@pytest.mark.parametrize("system", ["esa", "atp", "ps"])
@pytest.mark.parametrize(
    "fault",
    [
        "fault: slow, job: a, ps: 0, factor: 4, for: 500 ms",
        "fault: slow, switch: s1, factor: 4, for: 500 ms",
        "fault: pause, switch: s1, for: 500 ms",
    ],
)
def test_a_slowed_run_ends_exactly(tmp_path, system, fault):
    code, errors, read = run(tmp_path, system, fault)
    assert code == 0, errors
    assert set(read.jobs.outcome) == {"finished"} and all_exact(read.jobs)
    (row,) = read.faults.to_dict("records")
    assert row["ended_ns"] - row["begun_ns"] > 0.49e9
    standstills = read.table("fidelity").query("measure == 'seconds of standstill'")
    assert {"h1", "runner"} <= set(standstills.name)
    assert standstills.query("name == 's1'").ok.tolist() == [True] * ("slow, switch" not in fault)


@pytest.mark.parametrize(
    ("system", "fault", "named"),
    [
        ("esa", "fault: kill, job: a, worker: 1", "worker 1 of job a"),
        pytest.param(
            "esa",
            "fault: kill, job: a, ps: 0",
            "parameter server 0 of job a",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "ring", "fault: kill, job: a, worker: 0", "worker 0 of job a", marks=pytest.mark.slow
        ),
    ],
)
def test_a_job_that_lost_a_part_ends_and_says_why(tmp_path, system, fault, named):
    code, errors, read = run(tmp_path, system, fault)
    assert code == 1
    assert "Traceback" not in errors
    assert "job a could not finish" in errors and f"faults[0], end of {named}" in errors
    jobs = read.jobs.set_index("name")
    assert jobs.outcome.to_dict() == {"a": "unfinished", "b": "finished"}
    assert all_exact(jobs.loc[["b"]])


@pytest.mark.slow
def test_no_job_survives_its_only_switch(tmp_path):
    code, errors, read = run(tmp_path, "esa", "fault: kill, switch: s1")
    assert code == 1
    assert "Traceback" not in errors
    assert "faults[0], end of switch s1" in errors
    assert set(read.jobs.outcome) == {"unfinished"}
