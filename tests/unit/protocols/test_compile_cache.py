"""Compiled code must never outlive the source that it was made from."""

import os
import subprocess
import sys

from tests.support.paths import ROOT


def test_every_compiled_function_is_cached_under_the_hash_of_all_sources():
    """Whichever package is imported first, no function is cached beside its source."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib
importlib.import_module(sys.argv[2])
from numba.core.dispatcher import Dispatcher
from testbed.protocols import cache_directory
folder = str(cache_directory())
found = 0
for name, module in list(sys.modules.items()):
    if name.startswith("testbed."):
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                found += 1
                where = value._cache.cache_path  # None: compiled into its callers alone
                assert where is None or where.startswith(folder), value
assert found > 3
"""
    for first in (
        "testbed.hosts.socket_calls",
        "testbed.workload.machine",
        "testbed.protocols.wire",
    ):
        subprocess.run([sys.executable, "-c", program, str(ROOT), first], check=True)


def test_a_folder_that_cannot_be_made_is_named():
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/nothing"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "run.py", "check", "experiments/quickstart.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/proc/nothing" in line and "XDG_CACHE_HOME" in line
