"""An exception in a step of a host, where protocols run as plain Python, reaches the caller."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = """
from testbed.experiment import load_text
from testbed.protocols import pool_server
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.simulation import Simulation

def interrupted(*arguments):
    raise KeyboardInterrupt

setup = set_up(load_text('''
runtime: virtual
topology: {kind: star, hosts: 3}
system: esa
memory: {aggregators: 8}
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.00001}]
'''))
pool_server.receive = interrupted
try:
    Simulation(setup, prepare(setup).compiled).run()
except KeyboardInterrupt:
    print("heard")
"""


def test_an_exception_in_a_step_is_not_lost():
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.stdout.strip() == "heard", done.stderr
