"""Recordings of real trainings in virtual time: real values, summed exactly, at their times."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.cli.recording_tables import tables
from testbed.experiment import load, load_text
from testbed.experiment.sweep import load_sweep
from testbed.traffic.recording import load_recording
from tests.support.experiments import memory_line
from tests.support.paths import ROOT
from tests.support.recordings import MS, SIZES, write_recording
from tests.support.virtual import run_virtual

TEXT = """
name: replay
runtime: virtual
topology: {{kind: star, hosts: 3}}
links: {{bandwidth: 1 Gbit/s, loss: {loss}}}
system: {{name: {system}}}
{memory}
jobs:
  - {{model: run.npz, workers: 2, iterations: 3}}
"""


def run(folder, system: str, loss: str = "0 %") -> dict:
    write_recording(folder / "run.npz")
    memory = memory_line(system, 64)
    text = TEXT.format(system=system, memory=memory, loss=loss)
    return run_virtual(load_text(text, folder=folder))


@pytest.mark.parametrize(
    "system",
    [
        "esa",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("atp", "grid", "ps", "ring")),
        pytest.param("switchml", marks=pytest.mark.slow),
    ],
)
def test_every_value_is_summed_exactly(tmp_path, system):
    (job,) = run(tmp_path, system, "3 %")["jobs"]
    assert job["outcome"] == "finished" and job["exact"]
    assert job["values_checked"] == 3 * 2 * sum(SIZES)


def test_iterations_take_as_long_as_the_recorded_steps(tmp_path):
    times = run(tmp_path, "esa")["iterations"]
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
