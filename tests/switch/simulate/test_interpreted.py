"""Compiled and interpreted hosts and loop give the same tables, value by value."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.paths import import_path
from tests.support.paths import ROOT

SCRIPT = """
import hashlib
from tests.support.experiments import experiment
from tests.support.virtual import content, run_virtual
text = '''
name: test
runtime: virtual
topology: {kind: two_level, tors: 2, hosts: 2}
links: {bandwidth: 10 Gbit/s, delay: 1 us, loss: 2 %, jitter: 100 ns}
system: {name: esa, window: 8}
memory: {aggregators: 4}
values_per_packet: 4
jobs:
  - {model: alexnet, workers: 3, iterations: 2, scale: 0.000003, compute_jitter: 10 %}
background:
  - {kind: tcp, from: h4, to: h1, burst: 20 kB, every: 100 us}
  - {kind: udp, from: random, to: random, rate: 300 Mbit/s, size: 200 B, on: 20 us, off: 30 us}
'''
tables = content(run_virtual(experiment(text)))
print(sum(len(table) for table in tables.values()))
print(hashlib.sha256(repr(tables).encode()).hexdigest())
"""


RANKS = """
import hashlib
import sys
from pathlib import Path
from tests.support.experiments import experiment
from tests.support.virtual import content, run_virtual
from tests.support.ranks import Ranks, text
made = Ranks(pair=(0, 1), turned=(1, 0), everyone=(0, 1, 2))
for rank in range(3):
    made.add(rank, "compute", duration_ns=1000 * (rank + 1))
    if rank < 2:
        made.add(rank, "all_reduce", group="pair", bytes=2000, dtype="float32")
        made.add(rank, "all_gather", group="turned", bytes=600)
    made.add(rank, "reduce_scatter", group="everyone", bytes=3072, dtype="float32")
path = made.write(Path(sys.argv[1]) / "ranks.et")
found = text(path, "switchml", 3, links=", loss: 1 %", iterations=2)
tables = content(run_virtual(experiment(found)))
print(sum(len(table) for table in tables.values()))
print(hashlib.sha256(repr(tables).encode()).hexdigest())
"""


def tables_with(script: str, folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, folder],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("script", [SCRIPT, RANKS], ids=["training", "ranks"])
def test_compiled_and_interpreted_code_agree(script, tmp_path):
    # Arithmetic of 32 bits is meant to wrap, without a warning.
    plain = {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "error::RuntimeWarning"}
    size, found = tables_with(script, tmp_path, **plain)
    assert int(size) > 1000
    assert [size, found] == tables_with(script, tmp_path)


STANDING = """
from testbed.protocols import host_sums
from tests.support.experiments import experiment
from tests.support.virtual import run_virtual
host_sums.deadline = lambda member, scoreboard: 0
text = '''
name: test
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: ring
jobs: [{model: alexnet, workers: 3, iterations: 1, scale: 0.000003}]
'''
run_virtual(experiment(text))
"""


def test_a_machine_that_lets_time_stand_still_ends_the_run():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": import_path()}
    done = subprocess.run(
        [sys.executable, "-c", STANDING], env=environment, capture_output=True, text=True
    )
    assert "RunError: host h" in done.stderr and "lets time stand still at" in done.stderr
