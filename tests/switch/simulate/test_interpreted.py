"""Compiled and interpreted hosts and loop give the same tables, value by value."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
  - {kind: cbr, from: random, to: random, rate: 300 Mbit/s, packet: 200 B, on: 20 us, off: 30 us}
'''
tables = content(run_virtual(experiment(text)))
print(sum(len(table) for table in tables.values()))
print(hashlib.sha256(repr(tables).encode()).hexdigest())
"""


def tables_with(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_compiled_and_interpreted_code_agree():
    # Arithmetic of 32 bits is meant to wrap, without a warning.
    size, found = tables_with(NUMBA_DISABLE_JIT="1", PYTHONWARNINGS="error::RuntimeWarning")
    assert int(size) > 1000
    assert [size, found] == tables_with()
