"""Whole runs in which every value counts: the quickstart, lossy links, a switch that errs."""

from __future__ import annotations

import re
import shutil

from testbed import results
from tests.support.paths import ROOT
from tests.support.runs import events, finished, run

LOSSY = """
name: lossy
topology: {kind: star, hosts: 8}
links: {bandwidth: 20 Mbit/s, loss: 1 %, duplicate: 1 %}
system: {name: esa, window: 64, release: on_result, max_age: 300 ms}
memory: {aggregators: 64}
jobs:
  - {name: a, model: resnet50, workers: 3, iterations: 2, scale: 0.015, compute_scale: 0}
  - {name: b, model: vgg16, workers: 3, iterations: 2, scale: 0.002, compute_scale: 0}
"""

WRONG = """
name: wrong
topology: {{kind: star, hosts: 4}}
system: {{name: esa, window: 32, program: {program}}}
memory: {{aggregators: 256}}
jobs:
  - {{name: victim, model: resnet18, workers: 3, iterations: 2, scale: 0.001, compute_scale: 0}}
"""


def test_the_quickstart_is_exact(tmp_path):
    read = finished(ROOT / "experiments" / "quickstart.yaml", tmp_path / "results")
    assert len(read.jobs) >= 2
    assert read.jobs.gradient_packets.sum() >= 200_000
    assert read.links.losses.sum() == 0
    assert read.jobs.jct_ns.max() < 60e9
    # Every row of the table of events that a run without loss can reach.
    seen = events(read)
    seen["flushed"] = seen["flushes"] + seen["flush_additions"]
    for event in (
        "allocations",
        "additions",
        "completions",
        "preemptions",
        "downgrades",
        "flushed",
        "passes",
        "reminders",
        "reminders_empty",
        "results_passed",
    ):
        assert seen[event] >= 100, (event, seen[event])


def test_a_run_that_loses_packets_on_every_link_is_exact(tmp_path):
    path = tmp_path / "lossy.yaml"
    path.write_text(LOSSY)
    read = finished(path, tmp_path / "results")
    assert read.jobs.gradient_packets.sum() >= 50_000
    losses = read.links.groupby("direction").losses.sum()
    packets = read.links.groupby("direction").packets.sum()
    for direction in ("ingress", "egress"):
        share = losses[direction] / (packets[direction] + losses[direction])
        assert 0.008 < share < 0.012, (direction, share)
    assert (read.jobs.retransmissions > 0).all()
    # What the quickstart cannot reach: these need packets that come twice, and sums that are held.
    seen = events(read)
    for event in ("duplicates", "re_emissions", "preemptions_held", "releases"):
        assert seen[event] > 0, event


def test_a_switch_that_adds_a_value_twice_fails_the_run_and_is_located(tmp_path):
    folder = tmp_path / "p4"
    shutil.copytree(ROOT / "p4", folder)
    memory = folder / "value_memory.p4"
    adding = "EACH_VALUE(SUM_VALUE)"
    text = memory.read_text()
    assert text.count(adding) == 1
    # In one place of a packet only, as a fault in one register array would be.
    twice = "hdr.values.v05 = hdr.values.v05 + hdr.values.v05;"
    memory.write_text(text.replace(adding, f"{twice} {adding}"))
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG.format(program=folder / "esa.p4"))
    done = run(path, tmp_path / "results")
    assert done.returncode == 1, done.stderr
    found = re.search(
        r"failed: wrong value: job victim, iteration 0, tensor (\S+) \(\d+\), position (\d+)",
        done.stderr,
    )
    assert found, done.stderr
    assert int(found.group(2)) % 64 == 5
    (made,) = (tmp_path / "results").iterdir()
    assert results.read(made).state == "failed"
