"""A limit on the number of processes ends a run with one cause and its remedy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs import PYTHON

GROUPS = Path("/sys/fs/cgroup")
EXPERIMENT = """
name: small
topology: {kind: star, hosts: 3}
system: esa
memory: {aggregators: 16}
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
"""


@pytest.fixture
def group():
    """A control group that can limit processes."""
    handed_down = GROUPS / "cgroup.subtree_control"  # version 2
    if (GROUPS / "pids").is_dir():
        top = GROUPS / "pids"
    elif handed_down.exists() and "pids" in handed_down.read_text().split():
        top = GROUPS
    else:
        pytest.skip("no control group limits processes here")
    made = top / f"ina-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


@pytest.mark.parametrize("limit", [3, 6, 9, 11])
def test_it_is_named_with_its_remedy(group, tmp_path, limit):
    """Reached by the command itself, by what starts hosts, and by what builds the network."""
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    (group / "pids.max").write_text(str(limit))
    command = [PYTHON, str(ROOT / "run.py"), str(path), "--results", str(tmp_path), "--no-report"]
    join = ["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"]
    done = subprocess.run([*join, *command], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and "BlockingIOError" not in done.stderr
    said = [line for line in done.stderr.splitlines() if "raise the limit (pids.max of" in line]
    assert len(said) == 1, done.stderr
