"""What only reads an experiment must not wait for compilers and plots."""

import subprocess
import sys

from tests.support.paths import ROOT

HEAVY = ("numba", "matplotlib", "scipy", "scapy")


def test_checking_and_planning_import_nothing_heavy():
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from testbed.experiment import load
from testbed.emulate import mininet_run
from testbed.derived.host_specs import plan
plan(load({str(ROOT / "experiments" / "quickstart.yaml")!r}))
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
