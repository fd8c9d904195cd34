"""Whole runs in which every value counts, and whose packets or events depend on how soon hosts
are: the quickstart, and SwitchML without retransmissions."""

from __future__ import annotations

import pytest

from tests.support.departures import causes_of
from tests.support.paths import ROOT
from tests.support.runs import events, finished


@pytest.mark.slow
def test_the_quickstart_is_exact(tmp_path):
    read = finished(ROOT / "experiments" / "quickstart.yaml", tmp_path / "results")
    assert len(read.jobs) >= 2
    assert read.jobs.gradient_packets.sum() >= 200_000
    assert read.links.losses.sum() == 0
    assert read.jobs.jct_ns.max() < 60e9
    # Every row of the table of events that a run without loss reaches;
    # tests/network/emulate/test_exact_runs.py has the others. Only retransmissions after the pauses
    # pass, some dozens.
    seen = events(read)
    for event in (
        "allocations",
        "additions",
        "completions",
        "preemptions",
        "downgrades",
        "passes",
        "reminders",
        "reminders_empty",
        "results_passed",
    ):
        least = 10 if event == "passes" else 100
        assert seen[event] >= least, (event, seen[event])
    causes = causes_of(read.departures.to_dict("records"))
    assert all(counted["evicted"] for counted in causes.values())
