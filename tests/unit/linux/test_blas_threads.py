"""p4fabric.base.linux.blas_threads: numpy is imported without threads for linear algebra."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from p4fabric.base.linux.blas_threads import VARIABLE

PROGRAM = """
import os
from testbed.cli.shared import import_schemas
import_schemas()
import numpy
threads = len(os.listdir("/proc/self/task"))
print(threads, os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize("given, threads", [(None, 1), ("2", None)])
def test_a_command_starts_no_threads_and_leaves_the_environment_as_it_was(given, threads):
    kept = {name: text for name, text in os.environ.items() if name != VARIABLE}
    environment = kept | ({} if given is None else {VARIABLE: given})
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found, variable = done.stdout.split()
    assert variable == str(given)
    assert threads is None or int(found) == threads
