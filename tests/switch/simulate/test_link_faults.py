"""Links that fail in virtual time: jobs go on over other links, or wait, and stay exact."""

from __future__ import annotations

import random

import pytest
from p4fabric.base.errors import RunError
from p4fabric_testing.matrix import first_of

from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.virtual_run import run_repetition
from tests.support.link_faults import SYSTEMS, text
from tests.support.virtual import run_virtual

OTHER_PATH = "{at: 400 us, fault: link_down, between: [s1, s3], failover: 300 us}"
NO_PATH = "{at: 400 us, fault: link_down, between: [h1, s1], failover: 300 us, for: 10 ms}"


def tables(system: str, *faults: str) -> dict:
    """Tables of a run that must end well."""
    made = run_virtual(load_text(text(system, *faults)))
    for job in made["jobs"]:
        assert job["outcome"] == "finished" and job["exact"]
        assert job["values_checked"] == job["values"] * job["iterations"] * job["workers"]
    assert sum(row["down_drops"] for row in made["links"]) > 0
    return made


@pytest.mark.parametrize("system", first_of(SYSTEMS, 4))
def test_jobs_go_on_over_other_links(system):
    made = tables(system, OTHER_PATH)
    down, reroute, *planned = made["faults"]
    end_ns = down["ended_ns"]  # of the run: the link stays down
    assert (down["kind"], down["begun_ns"]) == ("link_down", 400_000)
    assert end_ns >= max(job["end_ns"] for job in made["jobs"])
    assert (reroute["kind"], reroute["begun_ns"]) == ("reroute", 700_000)
    assert reroute["entries"] > 0
    if system.startswith("grid"):
        assert [(row["kind"], row["job"]) for row in planned] == [("replan", 0), ("replan", 1)]
        assert all(row["rate_bps"] > 0 for row in planned)
    elif system == "tree":
        assert [(row["kind"], row["job"]) for row in planned] == [("replan", 0), ("replan", 1)]
        assert [job["trees"] for job in made["jobs"]] == ["s3, s4, then s4, s4"] * 2
    else:
        assert planned == []
    # Nothing more is sent over the link once all switches know.
    lost = {row["node"]: row["down_drops"] for row in made["links"] if row["down_drops"]}
    assert set(lost) <= {"s1", "s3"}


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_a_job_without_another_path_waits_for_its_link(system):
    made = tables(system, NO_PATH)
    a, b = made["jobs"]
    assert a["end_ns"] > 10_400_000  # job b has no host at that link
    assert b["end_ns"] < a["end_ns"]


@pytest.mark.parametrize("length", ["2500 ms", "1999.5 ms"])
def test_a_job_that_waits_for_a_link_is_not_held_for_stalled(length):
    """Nor when the timeout ends just after the link is there again."""
    longer_than_timeout = NO_PATH.replace("for: 10 ms", f"for: {length}")
    made = run_virtual(load_text(text("esa", longer_than_timeout)))
    assert [job["outcome"] for job in made["jobs"]] == ["finished", "finished"]


def test_a_job_that_is_cut_off_for_good_names_the_link_and_the_others_finish():
    faults = (
        "{at: 400 us, fault: link_down, between: [h1, s1]}",
        "{at: 450 us, fault: link_down, between: [s1, s3], for: 10 ms}",
    )
    written: list[dict] = []
    setup = set_up(load_text(text("esa", *faults)))
    with pytest.raises(RunError, match="job a could not finish.* without link h1-s1$"):
        run_repetition(setup, prepare(setup).compiled, write=written.append)
    (made,) = written
    assert [job["outcome"] for job in made["jobs"]] == ["unfinished", "finished"]
    assert made["jobs"][0]["jct_ns"] is None


def test_a_failure_after_the_end_does_not_take_place():
    made = run_virtual(load_text(text("esa", "{at: 30 s, fault: link_down, between: [s1, s3]}")))
    assert [row["begun_ns"] for row in made["faults"]] == [None]
    plain = run_virtual(load_text(text("esa")))
    for late, never in zip(made["jobs"], plain["jobs"], strict=True):
        assert late["exact"] and late["jct_ns"] == pytest.approx(never["jct_ns"], rel=0.02)
    assert all(row["down_drops"] == 0 for row in made["links"])
    assert all(row["down_drops"] is None for row in plain["links"])


def drawn(seed: int) -> list[str]:
    """Failures of links and switches at random times, all over after 30 ms; links of hosts fail,
    too."""
    draw = random.Random(seed)
    links = [f"between: [s{leaf}, s{spine}]" for leaf in (1, 2) for spine in (3, 4)]
    links += [f"between: [h{draw.randint(1, 8)}, s{{}}]", f"switch: s{draw.randint(3, 4)}"]
    faults, free_us = [], dict.fromkeys(links, 100)
    for target in (draw.choice(links) for _ in range(5)):
        down_us = draw.randint(free_us[target], free_us[target] + 4000)
        up_us = down_us + draw.randint(50, 3000)
        free_us[target] = up_us + 100
        if target.startswith("between: [h"):
            host = int(target[11])
            target = target.format(1 if host < 5 else 2)
        failover = f"failover: {draw.choice((0, 100, 400, 1500))} us"
        faults.append(f"{{at: {down_us} us, fault: link_down, {target}, {failover}}}")
        faults.append(f"{{at: {up_us} us, fault: link_up, {target}, {failover}}}")
    return faults


@pytest.mark.slow
@pytest.mark.parametrize(  # other seeds fail what is down already
    "system, seed",
    [(system, (1, 3, 4, 7)[(n + more) % 4]) for n, system in enumerate(SYSTEMS) for more in (0, 1)],
)
def test_jobs_survive_random_failures(system, seed):
    lossy = text(system, *drawn(seed)).replace("delay: 5 us}", "delay: 5 us, loss: 0.5 %}")
    for job in run_virtual(load_text(lossy))["jobs"]:
        assert job["outcome"] == "finished" and job["exact"]
