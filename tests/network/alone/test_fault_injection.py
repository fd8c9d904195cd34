"""Runs in which something is slow or stands still by plan: all jobs finish exactly, and nothing
else is taken to have stood still."""

from __future__ import annotations

import pytest

from tests.support.faulty_runs import all_exact, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "fault"),
    [
        ("esa", "fault: slow, job: a, ps: 0, factor: 4, for: 500 ms"),
        ("atp", "fault: slow, switch: s1, factor: 4, for: 500 ms"),
        ("ps", "fault: pause, switch: s1, for: 500 ms"),
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
