"""Packets without zeros and with values of 16 bits, in real frames: a recording, and a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs import succeeded

KEYS = """
value_bits: 16
links: {bandwidth: 100 Mbit/s, loss: 1 %}
memory: {aggregators: 256}
"""
REPLAY = f"""
name: replay
topology: {{kind: star, hosts: 5}}
system: {{name: esa, zeros: header_only}}
{KEYS}
jobs:
  - {{model: {ROOT}/traffic/recordings/train_clicks.npz, workers: 4, iterations: 2}}
"""
PROGRAM = f"""
name: arrays
topology: {{kind: star, hosts: 4}}
system: {{name: switchml, zeros: header_only}}
{KEYS}
jobs:
  - {{name: arrays, command: {ROOT}/examples/sum_arrays.py --rounds 2 --error 0.00025, workers: 4}}
"""


@pytest.mark.slow
def test_a_recording_is_replayed_exactly(tmp_path: Path):
    read = succeeded(REPLAY, tmp_path / "results")
    job = read.jobs.iloc[0]
    assert job.exact and job.values_checked == 2 * 4 * 107_009


@pytest.mark.slow
def test_a_program_gets_its_sums(tmp_path: Path):
    """The program checks them by itself: int32 exactly, and averages of numbers below 8 to (4 + 4)
    * 8 / 65534 / 4."""
    succeeded(PROGRAM, tmp_path / "results")
