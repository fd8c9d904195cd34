"""Results where memory is so limited that no thread can start: pyarrow would wait for one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from tests.support.paths import ROOT

# Threads get a stack of the limit's size, which does not fit into the address space.
STACK_BYTES, SPACE_BYTES = 8 << 30, 4 << 30
PROGRAM = """
import sys
from pathlib import Path
from testbed.results import Writer, read
from tests.support.synthetic_results import ENVIRONMENT, tables

with Writer.create(Path(sys.argv[1]), "small", "name: small\\n", ENVIRONMENT) as writer:
    for name, rows in tables().items():
        writer.write(name, rows, repetition=0)
    writer.finish()
made = read(writer.folder)
print(len(made.jobs), len(made.tensors))
"""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (SPACE_BYTES, SPACE_BYTES))


def test_they_are_written_and_read(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert all(int(count) > 0 for count in done.stdout.split())
