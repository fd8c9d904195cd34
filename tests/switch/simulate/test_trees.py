"""Static trees in virtual time: who carries each job, failures, and jobs that come and go."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed.experiment import load_text
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

TEXT = """
name: trees
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: %(delay)s%(links)s}
system: {name: tree%(options)s}
memory: {aggregators: %(memory)s}
timeout: 1 s
jobs:
%(jobs)s
%(faults)s
"""
JOB = "  - {name: %s, model: resnet18, scale: %s, compute_scale: 0, workers: %d, iterations: 2%s}"
LEAF_SPINE = "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}"


def made(*jobs: str, topology=LEAF_SPINE, options="", links="", faults=(), **more) -> dict:
    lines = "faults:\n" + "\n".join(f"  - {each}" for each in faults) if faults else ""
    parts = {"topology": topology, "options": options, "links": links, "faults": lines}
    parts |= {"memory": 256, "delay": "1 us"} | more
    tables = run_virtual(load_text(TEXT % {**parts, "jobs": "\n".join(jobs)}))
    for job in tables["jobs"]:
        assert job["outcome"] == "finished" and job["exact"], job
    return tables


def spread(name: str, hosts: str, scale: str = "0.0005") -> str:
    return JOB % (name, scale, hosts.count("h"), f", placement: {{workers: [{hosts}]}}")


def fat_tree(k_hosts: int, scale: str, options: str) -> dict:
    workers = 8 * k_hosts
    return made(
        JOB % ("a", scale, workers, ""),
        topology=f"{{kind: fat_tree, k: 4, hosts: {k_hosts}}}",
        options=options,
        links=", loss: 1 %",
    )


@pytest.mark.parametrize("options", first_of(["", ", mode: quotas"], 2))
def test_a_fat_tree_of_16_hosts_is_exact_under_losses(options):
    (job,) = fat_tree(2, "0.0002", options)["jobs"]
    assert job["retransmissions"] > 0 and job["fallback"] is None


def test_the_row_of_a_job_says_what_has_carried_it():
    tables = made(spread("a", "h1, h5"), spread("b", "h2, h6"), spread("c", "h3, h7"))
    a, b, c = tables["jobs"]
    assert (a["trees"], a["fallback"], a["refused"]) == ("s3", None, None)
    for row in (b, c):
        assert (row["system"], row["trees"]) == ("tree", None)
        assert (row["fallback"], row["refused"]) == ("ring", "s1 is held by a")
    completed = {
        row["job"]: row["value"]
        for row in tables["switch_counters"]
        if (row["switch"], row["counter"]) == ("s3", "completions")
    }
    assert completed[0] == a["fragments"] * a["iterations"] and not completed.get(1)


def test_times_of_slots_belong_to_the_jobs_that_have_them():
    tables = made(spread("a", "h1, h5"), spread("b", "h2, h6"), options=", mode: quotas")
    held = {
        (row["switch"], row["job"])
        for row in tables["switch_counters"]
        if row["counter"] == "held_ns" and row["value"]
    }
    assert held == {(switch, job) for switch in ("s1", "s2", "s3", "s4") for job in (0, 1)}


FIRST = "{fault: link_down, between: [s1, s3], at: %s, failover: 20 us}"


@pytest.mark.parametrize("options", first_of(["", ", mode: quotas", ", jobs_per_switch: 2"], 2))
@pytest.mark.parametrize("at", first_of(["40 us", "100 us", "131 us"], 1))
def test_a_root_that_fails_with_results_that_only_some_workers_have(at, options):
    tables = made(
        spread("a", "h1, h2, h5, h6"),
        spread("b", "h3, h8"),
        options=options,
        links=", loss: 1 %",
        faults=[FIRST % at],
    )
    a, b = tables["jobs"]
    assert a["trees"] == ("s3, s4, then s4, s4" if "quotas" in options else "s3, then s4")
    replanned = [row for row in tables["faults"] if row["kind"] == "replan"]
    assert [row["job"] for row in replanned] == ([0, 1] if "quotas" in options else [0])
    assert b["fallback"] == ("ring" if options == "" else None)


def test_a_switch_that_another_job_has_forwards_for_a_tree_planned_again():
    """With both spines taken, the root moves to a leaf."""
    topology = "{kind: leaf_spine, leaves: 4, spines: 2, hosts: 2}"
    tables = made(
        spread("a", "h1, h3"),
        spread("b", "h5, h7"),
        topology=topology,
        faults=["{fault: link_down, between: [s1, s5], at: 50 us, failover: 20 us}"],
    )
    a, b = tables["jobs"]
    assert (a["trees"], b["trees"]) == ("s5, then s1", "s6")


ARRIVALS = """
name: trees
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: {name: tree, mode: %s}
memory: {aggregators: 256}
arrivals:
  placement: spread
  poisson:
    jobs: 8
    interval: 60 us
    kinds: [{name: j, model: resnet18, workers: 2, iterations: 2, scale: 0.0002, compute_scale: 0}]
"""


def test_jobs_that_come_find_the_switches_taken_or_free():
    tables = run_virtual(load_text(ARRIVALS % "exclusive"))
    jobs = sorted(tables["jobs"], key=lambda job: job["start_ns"])
    assert all(job["exact"] for job in jobs)
    with_trees = [job for job in jobs if job["trees"]]
    assert 1 < len(with_trees) < len(jobs)  # some have waited for nobody, some were refused
    for before, after in zip(with_trees, with_trees[1:], strict=False):
        assert before["end_ns"] <= after["start_ns"]


def test_jobs_that_come_share_switches_by_quotas():
    tables = run_virtual(load_text(ARRIVALS % "quotas"))
    assert all(job["exact"] and job["trees"] for job in tables["jobs"])


def later(name: str, hosts: str, at: str) -> str:
    return f"{spread(name, hosts)[:-1]}, start: {at}}}"


def completing(tables: dict) -> set[int]:
    rows = [row for row in tables["switch_counters"] if row["counter"] == "completions"]
    return {row["job"] for row in rows if row["value"]}


STAR = {"topology": "{kind: star, hosts: 8}"}


def held_ns(tables: dict, job: int) -> int:
    rows = [row for row in tables["switch_counters"] if row["counter"].startswith("held_")]
    return sum(row["value"] for row in rows if row["job"] == job)


def test_a_job_that_starts_after_another_has_ended_gets_its_switch():
    """Also right after its end, with copies of its packets on their way; and its slots are its own
    until then."""
    options = {**STAR, "links": ", loss: 1 %, duplicate: 5 %"}
    alone = made(spread("j0", "h1, h2"), **options)
    starts = ("0 s", "1 us", f"{alone['jobs'][0]['end_ns'] + 2} ns")
    jobs = [later(f"j{n}", f"h{2 * n + 1}, h{2 * n + 2}", at) for n, at in enumerate(starts)]
    tables = made(*jobs, **options)
    assert [job["refused"] for job in tables["jobs"]] == [None, "s1 is held by j0", None]
    assert completing(tables) == {0, 2}
    assert held_ns(tables, 0) > 0.95 * held_ns(alone, 0)  # which ended a moment later


def test_a_job_that_is_refused_at_its_start_learns_who_has_the_switch_then():
    jobs = [
        spread("first", "h1, h2"),
        later("second", "h3, h4", "50 ms"),
        later("third", "h5, h6", "50.001 ms"),
    ]
    tables = made(*jobs, **STAR)
    carried = [(job["trees"], job["refused"]) for job in tables["jobs"]]
    assert carried == [("s1", None), ("s1", None), (None, "s1 is held by second")]


def test_a_late_job_shares_a_switch_equally_with_those_that_have_not_ended():
    """On links where the window is what counts."""
    options = {**STAR, "options": ", mode: quotas", "delay": "20 us", "memory": 16}
    jobs = [spread("a", "h1, h2"), spread("b", "h3, h4"), later("c", "h5, h6", "50 ms")]
    (alone,) = made(jobs[0], **options)["jobs"]
    a, b, c = made(*jobs, **options)["jobs"]
    times = [round(job["jct_ns"] / alone["jct_ns"]) for job in (a, b, c)]
    assert times == [4, 4, 1]  # of 8 slots 2, 2 and 8


def test_a_late_program_of_ranks_gets_trees_for_its_groups(tmp_path):
    program = Ranks(all=(0, 1, 2, 3), left=(0, 1), right=(2, 3))
    for rank in range(4):
        for group in ("all", "left" if rank < 2 else "right"):
            program.add(rank, "all_reduce", group=group, bytes=40_000)
    file = program.write(tmp_path / "program.et")
    job = f"  - {{name: %s, model: {file}, workers: 4, iterations: 1, start: %s}}"
    jobs = [job % ("a", "0 s"), job % ("b", "1 us"), job % ("c", "50 ms")]
    tables = made(*jobs, topology="{kind: star, hosts: 12}", links=", loss: 1 %")
    assert [each["fallback"] for each in tables["jobs"]] == [None, "ring", None]
    sums = {
        row["job"]: row["value"] for row in tables["switch_counters"] if row["counter"] == "sums"
    }
    assert sums[2] == sums[0] > 0 == sums.get(1, 0)


def test_a_late_job_gets_the_tree_that_failed_links_leave_and_another_when_they_fail_again():
    down = "{fault: link_down, between: [s1, %s], at: %s, failover: 20 us}"
    tables = made(
        spread("a", "h1, h5"),
        later("b", "h2, h6", "50 ms"),
        topology="{kind: leaf_spine, leaves: 2, spines: 3, hosts: 4}",
        faults=[down % ("s3", "20 ms"), down % ("s4", "50.04 ms")],
    )
    assert [job["trees"] for job in tables["jobs"]] == ["s3", "s4, then s5"]
