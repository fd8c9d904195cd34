"""Recordings of real trainings in virtual time: their times and bytes."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.cli.recording_tables import tables
from testbed.experiment import load, load_text
from testbed.experiment.sweep_file import load_sweep
from testbed.traffic.recording import load_recording
from tests.support.paths import ROOT
from tests.support.recordings import MS, write_recording
from tests.support.virtual import run_virtual

TEXT = """
name: replay
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 1 Gbit/s}
system: esa
memory: {aggregators: 64}
jobs:
  - {model: run.npz, workers: 2, iterations: 3}
"""


def test_iterations_take_as_long_as_the_recorded_steps(tmp_path):
    write_recording(tmp_path / "run.npz")
    times = run_virtual(load_text(TEXT, folder=tmp_path))["iterations"]
    of_rank = np.asarray(times["worker"]) == 1
    took = (np.asarray(times["compute_end_ns"]) - np.asarray(times["start_ns"]))[of_rank]
    # Rank 1: 10 ms forward and backward, twice as long; before them the update, twice and thrice.
    expected = [20 * MS, 40 * MS, 60 * MS]
    updates = [0, round(2 * 8.12 * MS), round(2 * 2 * 8.12 * MS)]
    assert [a - b for a, b in zip(took, updates, strict=True)] == pytest.approx(expected, abs=MS)


@pytest.mark.slow
def test_the_shipped_one_is_replayed():
    (job,) = run_virtual(load(ROOT / "experiments" / "replay-clicks.yaml"))["jobs"]
    assert job["exact"] and job["values_checked"] == 2 * 4 * 107_009


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_formats_need_as_many_bytes_as_the_recording_says(number):
    """The points of experiments/replay-formats.yaml with ESA, and `ina recording`'s last table."""
    point = load_sweep(ROOT / "experiments" / "replay-formats.yaml").points[number].experiment
    assert point.system.name == "esa"
    recording = load_recording(ROOT / "traffic" / "recordings" / "train_clicks.npz")
    *_, packets = tables(recording, recording.trace(), 1_000_000, point.values_per_packet)
    rows = {tuple(row.values[:2]): row.values[2:4] for row in packets.rows}
    sent, got = rows[point.value_bits, point.system.zeros]
    found = run_virtual(point)
    assert found["jobs"][0]["exact"] and found["jobs"][0]["retransmissions"] == 0
    on_links = {(row["neighbour"], row["direction"]): row["bytes"] for row in found["links"]}
    ranks = [f"h{number}" for number in range(1, 5)]
    assert sum(on_links[rank, "ingress"] for rank in ranks) == pytest.approx(4 * 2 * sent)
    assert all(on_links[rank, "egress"] == pytest.approx(2 * got) for rank in ranks)
