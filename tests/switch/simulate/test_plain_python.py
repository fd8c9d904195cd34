"""Faults in a step of a host, where protocols run as plain Python: they reach the caller."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from testbed.paths import import_path

SCRIPT = """
from testbed.experiment import load_text
from testbed.protocols import host_sums, pool_server
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.simulation import Simulation

def interrupted(*arguments):
    raise KeyboardInterrupt

setup = set_up(load_text('''
name: test
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
%s
jobs: [{model: alexnet, workers: 2, iterations: 1, scale: 0.000003}]
'''))
%s
Simulation(setup, prepare(setup).compiled).run()
"""
POOL = "system: esa\nmemory: {aggregators: 8}"


@pytest.mark.parametrize(
    "system, fault, said",
    [
        (POOL, "pool_server.receive = interrupted", "KeyboardInterrupt"),
        ("system: ring", "host_sums.deadline = lambda *_: 0", "RunError: host h"),
    ],
)
def test_a_fault_of_a_step_is_told(system, fault, said):
    """Also one that lets time stand still."""
    environment = {
        **os.environ,
        **{"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": import_path()},
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }
    command = [sys.executable, "-c", SCRIPT % (system, fault)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    *_, last = done.stderr.splitlines()
    assert said in last and ("lets time stand still" in last) == (system != POOL)
