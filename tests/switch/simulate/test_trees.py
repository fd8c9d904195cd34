"""Static trees in virtual time: who carries each job, failures, and jobs that come and go."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from tests.support.matrix import first_of
from tests.support.virtual import run_virtual

TEXT = """
name: trees
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us%(links)s}
system: {name: tree%(options)s}
memory: {aggregators: 256}
timeout: 1 s
jobs:
%(jobs)s
%(faults)s
"""
JOB = "  - {name: %s, model: resnet18, scale: %s, compute_scale: 0, workers: %d, iterations: 2%s}"
LEAF_SPINE = "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}"


def made(*jobs: str, topology=LEAF_SPINE, options="", links="", faults=()) -> dict:
    lines = "faults:\n" + "\n".join(f"  - {each}" for each in faults) if faults else ""
    parts = {"topology": topology, "options": options, "links": links, "faults": lines}
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


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", ", mode: quotas"])
def test_a_fat_tree_of_64_hosts_is_exact_under_losses(options):
    tables = fat_tree(8, "0.001", options)
    (job,) = tables["jobs"]
    assert job["workers"] == 64 and job["retransmissions"] > 0
    completing = {
        row["switch"]
        for row in tables["switch_counters"]
        if row["counter"] == "completions" and row["value"]
    }
    # 8 edge switches, and with four trees all middle and core switches.
    assert len(completing) == (20 if options else 8 + 4 + 1)


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


STARTS = (("first", "0 s"), ("meanwhile", "1 us"), ("later", "50 ms"), ("at-once", "50.001 ms"))


def test_a_job_that_starts_after_another_has_ended_gets_its_switch():
    jobs = [JOB % (name, "0.0003", 2, f", start: {at}") for name, at in STARTS]
    tables = made(*jobs, topology="{kind: star, hosts: 8}")
    carried = {job["name"]: (job["fallback"], job["trees"]) for job in tables["jobs"]}
    assert carried == {
        "first": (None, "s1"),
        "meanwhile": ("ring", None),
        "later": (None, "s1"),
        "at-once": ("ring", None),  # with the one before it
    }
    counted = [row for row in tables["switch_counters"] if row["counter"] == "completions"]
    completed = {row["job"] for row in counted if row["value"]}
    assert completed == {0, 2}
