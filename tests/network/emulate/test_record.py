"""`ina record`: what the ranks of a program give to the switches, replayed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed import results
from testbed.traffic.recording import load_recording
from tests.support.paths import ROOT
from tests.support.runs import run

PROGRAM = """
name: clicks
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 100 Mbit/s}}
system: switchml
memory: {{aggregators: 256}}
jobs:
  - {{name: clicks, command: {examples}/train_clicks.py --steps 6, workers: 2}}
"""
REPLAY = """
name: replay
topology: {kind: star, hosts: 3}
links: {bandwidth: 100 Mbit/s, loss: 1 %}
system: esa
memory: {aggregators: 256}
jobs:
  - {name: clicks, model: clicks.npz, workers: 2, iterations: 2}
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_a_program_is_recorded_and_replayed_on_mininet(tmp_path: Path):
    file = tmp_path / "experiment.yaml"
    file.write_text(PROGRAM.format(examples=ROOT / "examples"))
    output = tmp_path / "clicks.npz"
    words = ["record", file, "-o", output, "--steps", "2", "--results", tmp_path / "recorded"]
    command = [sys.executable, ROOT / "run.py", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    recording = load_recording(output)
    assert (recording.ranks, recording.header["steps"]) == (2, [3, 4])
    file.write_text(REPLAY)
    done = run(file, tmp_path / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    job = results.read(folder).jobs.iloc[0]
    assert job.exact and job.values_checked == 2 * 2 * 107_009
