"""What links lose and what follows from it, in virtual time: counts add up, job by job."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from p4fabric_testing.matrix import first_of

from testbed.dataplane import loss_notes
from testbed.dataplane.loss_notes import AGAIN, CAUSES
from testbed.experiment import load_text
from testbed.protocols import wire
from testbed.schemes import set_up
from tests.support.experiments import memory_line
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 5}
links: {bandwidth: 10 Gbit/s, delay: 1 us, loss: %(loss)s, queue: %(queue)d packets}
system: %(system)s
%(memory)s
jobs:
  - {name: a, model: resnet50, workers: 4, iterations: 2, scale: 0.001, compute_scale: 0.0001}
  - {name: b, model: resnet50, workers: 3, iterations: 2, scale: 0.001, compute_scale: 0.0001}
%(more)s
"""
FAILS = "faults: [{fault: link_down, between: [s1, s3], at: 50 us, failover: 20 us}]"


def run(system: str, loss: str = "0", queue: int = 1000, more: str = "") -> dict:
    parts = {"system": system, "memory": memory_line(system, 256), "loss": loss, "more": more}
    return run_virtual(load_text(EXPERIMENT % {**parts, "queue": queue}))


@pytest.mark.parametrize("system", first_of(["switchml", "esa", "ring", "atp", "ps", "tree"], 3))
@pytest.mark.parametrize(
    "cause, setting",
    [("lost", {"loss": "1 %"}), ("queue_full", {"queue": 6}), ("link_down", {"more": FAILS})],
)
def test_losses_and_retransmissions_have_causes_and_jobs(system, cause, setting):
    """That they add up are laws of all runs."""
    tables = run(system, **setting)
    assert {row["cause"] for row in tables["losses"]} <= {cause}
    assert all(row["job"] is not None for row in tables["losses"])
    causes = {row["cause"] for row in tables["resent"]}
    assert causes <= {cause, "collision", "no_loss"}
    if cause != "link_down":
        for job in (0, 1):
            assert any(row["job"] == job and row["cause"] == cause for row in tables["losses"])
            assert any(row["job"] == job and row["cause"] == cause for row in tables["resent"])


def test_marks_are_counted_per_link_and_results_tell_the_jobs():
    tables = run("esa", queue=6)
    assert sum(row["marks"] or 0 for row in tables["links"]) > 0
    assert any(row["marked_results"] for row in tables["jobs"])


def test_notes_and_packets_have_the_same_constants():
    names = ("PORT", "SERVER", "RESEND", "REMINDED", "GRADIENT", "CONTROL", "GRADIENT_ZEROS")
    assert all(getattr(loss_notes, name) == getattr(wire, name) for name in names)


@pytest.mark.parametrize("seed", range(20))
def test_a_retransmission_follows_from_the_last_loss_of_its_fragment(seed):
    """Against the same rule, note by note."""
    spec = {"system": "esa", "memory": memory_line("esa", 256), "loss": "0", "queue": 9, "more": ""}
    platform = set_up(load_text(EXPERIMENT % spec)).platform
    draw = np.random.default_rng(seed)
    notes, expected = [], Counter()
    last: dict = defaultdict(lambda: "no_loss")
    for time in range(400):
        kind = int(draw.choice([wire.GRADIENT, wire.RESULT, wire.CONTROL, wire.ASK]))
        what, number = int(draw.choice(4)), int(draw.integers(0, 3))  # there are two jobs
        fragment, sender, extra = (int(draw.integers(0, most)) for most in (4, 3, 3))
        key = (number, fragment, (sender, extra) if kind == wire.CONTROL else None)
        place = kind << 12 | what << 10 | int(draw.choice(2)) << 9 | int(draw.choice(5))
        packet = place << 48 | number << 32 | fragment
        notes.append((time, packet, extra << 32 | sender << 16 | int(draw.integers(0, 1 << 16))))
        if what != AGAIN:
            last[key] = CAUSES[what]
        elif kind in (wire.GRADIENT, wire.CONTROL) and number < 2:
            expected[number, last[key]] += 1
    draw.shuffle(notes)
    halves = notes[::2], notes[1::2]  # of two switches
    every = [loss_notes.Notes([*np.array(half, np.uint64).ravel().tolist(), 0]) for half in halves]
    assert loss_notes.resent(platform, every) == expected
