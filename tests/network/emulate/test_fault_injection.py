"""Runs that lose a part by plan: the right job ends with its reason, and the other one exactly."""

from __future__ import annotations

import pytest

from tests.support.faulty_runs import all_exact, run


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
