"""Traces that a test leaves behind."""

from __future__ import annotations

import subprocess
from multiprocessing import shared_memory

from p4engine_testing import leftovers


def test_what_python_starts_for_the_process_is_not_left_by_a_test():
    with leftovers.nothing_left():
        memory = shared_memory.SharedMemory(create=True, size=64)
        memory.close()
        memory.unlink()


def test_a_process_is_left():
    before = leftovers.leftovers()
    child = subprocess.Popen(["sleep", "60"])
    try:
        (left,) = leftovers.leftovers() - before
        assert left.startswith(f"process {child.pid} ")
    finally:
        child.kill()
        child.wait()
