"""Every system under every kind of trouble: exact, or a clear statement of why not.

All but the easy rows run with --slow. A cell always does. What a cell is: reliability.py.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from testbed import results
from tests.support.reliability import CELLS, MIN_PACKETS, TROUBLES, Outcome, run

ALWAYS = {("esa", "restart")}
EASY = {"none", "loss_0.1"}  # whose troubles others have as well
SHARE = {"loss_1": 0.01, "loss_5": 0.05, "duplicate": 0.01, "reorder": 0.01}
COLUMN = {"duplicate": "duplicates", "reorder": "reordered"}


@pytest.mark.parametrize(
    ("system", "trouble"),
    [
        pytest.param(*cell, marks=() if cell in ALWAYS else pytest.mark.slow, id="-".join(cell))
        for cell in CELLS
        if cell[1] not in EASY
    ],
)
def test_every_value_is_right_or_the_reason_is_clear(tmp_path: Path, system: str, trouble: str):
    outcome = run(system, trouble, tmp_path)
    read = outcome.read
    if system == "switchml" and trouble == "restart" and outcome.code == 1:
        its_registers_were_all_there_was(outcome)
        return
    assert outcome.code == 0, outcome.errors
    jobs = read.jobs.set_index("name")
    left = jobs[jobs.outcome == "finished"]
    assert set(left.index) == ({"a"} if trouble == "kill" else {"a", "b"})
    assert left.exact.all()
    assert (left.values_checked == left["values"] * left.iterations * left.workers).all()
    assert jobs.gradient_packets.sum() >= MIN_PACKETS
    took_place(read, trouble)


def took_place(read: results.Results, trouble: str) -> None:
    """That the run was in the trouble that it was to be in."""
    links = read.links
    if trouble in SHARE:
        column = COLUMN.get(trouble, "losses")
        share = links[column].sum() / links.packets.sum()
        assert 0.6 * SHARE[trouble] < share < 1.4 * SHARE[trouble]
        assert links.groupby("direction")[column].sum().gt(0).all()
    else:
        assert links[["losses", "duplicates", "reordered"]].sum().sum() == 0
    if not TROUBLES[trouble].fault:
        assert read.faults.empty
        return
    (fault,) = read.faults.to_dict("records")
    assert fault["begun_ns"] >= fault["at_ns"]
    if trouble in ("worker", "server"):
        # It had to wait, and is not to blame for it.
        assert fault["ended_ns"] - fault["begun_ns"] > 1.9e9
        assert read.jobs.set_index("name").jct_ns["a"] > 2.4e9
    if trouble == "kill":
        the_memory_is_back(read)


def the_memory_is_back(read: results.Results) -> None:
    """Nothing that the killed job held is lost to the other one."""
    (job,) = read.jobs[read.jobs.outcome == "killed"].to_dict("records")
    assert job["name"] == "b" and pd.isna(job["end_ns"])
    if read.switch_counters.empty:
        return  # a system without switch memory
    rows = read.switch_counters.set_index(["job", "counter"]).value
    assert rows[1, "allocations"] > 0
    # The pool is small, so job a needs every aggregator of it.
    assert rows[1, "ended_open"] == 0 and rows[1, "held_open_ns"] == 0
    if job["system"] == "atp":  # nothing else frees what it was still filling, if anything
        assert rows[0, "ghosts"] >= rows[1, "ended_discarded"]


def its_registers_were_all_there_was(outcome: Outcome) -> None:
    """SwitchML may not survive a restart; then it says so, and no value was wrong."""
    assert "could not finish: SwitchML keeps results in switch registers alone" in outcome.errors
    assert "restart of switch s1" in outcome.errors
    assert outcome.read.state == "failed"
    assert set(outcome.read.jobs.outcome) & {"unfinished"}
