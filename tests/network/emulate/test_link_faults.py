"""Links that fail while jobs run on Mininet: routes follow, and every value stays right."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed import results
from tests.support.link_faults import SYSTEMS, text
from tests.support.runs import finished, run

FAILS = "{at: 150 ms, fault: link_down, between: [s1, s3], failover: 200 ms, for: 500 ms}"


@pytest.mark.parametrize(
    "system", first_of(sorted(SYSTEMS, key=lambda name: name != "grid-atp"), 1)
)
def test_jobs_go_on_over_other_links(tmp_path, system):
    read = finished(text(system, FAILS, virtual=False), tmp_path / "r")
    down, *followed = read.faults.to_dict("records")
    assert (down["kind"], down["target"]) == ("link_down", "link s1-s3")
    assert down["begun_ns"] >= 150_000_000 and down["ended_ns"] >= 650_000_000
    again = [row for row in followed if row["kind"] == "reroute"]
    assert [row["at_ns"] for row in again] == [350_000_000, 850_000_000]
    assert again[0]["entries"] > 0
    planned = [row for row in followed if row["kind"] == "replan"]
    assert bool(planned) == (system.startswith("grid") or system == "tree")
    failed = read.links.query("node == 's1' and neighbour == 's3'")
    assert (failed.down_drops > 0).any() and failed.down_drops.notna().all()


@pytest.mark.slow
def test_a_job_that_is_cut_off_for_good_names_the_link(tmp_path):
    path = tmp_path / "links.yaml"
    fault = "{at: 300 ms, fault: link_down, between: [h8, s2]}"
    path.write_text(text("esa", fault, virtual=False))
    done = run(path, tmp_path / "r", "--no-report")
    assert done.returncode == 1
    assert "job b could not finish" in done.stderr and "without link h8-s2" in done.stderr
    (made,) = (tmp_path / "r").iterdir()
    assert results.read(made).jobs.outcome.tolist() == ["finished", "unfinished"]


@pytest.mark.slow
def test_a_switch_that_restarts_while_a_link_is_down_takes_the_new_routes(tmp_path):
    restart = "{at: 400 ms, fault: restart, switch: s1}"
    read = finished(text("esa", FAILS, restart, virtual=False), tmp_path / "r")
    assert read.faults.kind.tolist() == ["link_down", "restart", "reroute", "reroute"]
