"""The processes that run a sweep's points."""

import operator
import os
import subprocess
import sys
import weakref
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from testbed.paths import import_path
from testbed.sweeps.point_pool import executor, run_points
from testbed.sweeps.point_process import run_point
from tests.support.synthetic_results import write_run

LARGE = 1_000_000  # bytes: more than a pipe holds

INTERRUPTED = f"""
import time
from testbed.sweeps.point_pool import executor

with executor(1) as pool:
    held = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(600)"
    for _ in range(4):
        pool.submit(exec, held + " #" + {LARGE} * "x")
    import pathlib
    while not pathlib.Path("begun").exists():
        time.sleep(0.01)
    raise KeyboardInterrupt
"""


@dataclass(frozen=True)
class Given:
    key: str
    experiment: object


def test_what_is_called_may_be_large():
    with executor(1) as pool:
        lengths = [pool.submit(len, bytes(LARGE + more)) for more in range(3)]
        assert [length.result() for length in lengths] == [LARGE, LARGE + 1, LARGE + 2]


def test_what_has_no_memory_says_so(tmp_path):
    """1 << 45 repetitions of the folder's path are more than any machine has room for."""
    with executor(1) as pool:
        ((_, outcome),) = run_points(pool, [Given("a", 1 << 45)], tmp_path, operator.mul)
    assert outcome.error.startswith("memory ran out; ")


def test_points_of_a_process_that_ends_suddenly_say_so(tmp_path):
    points = [Given("a", "/bin/false"), Given("b", "/bin/false")]
    with executor(1) as pool:
        errors = [ended.error for _, ended in run_points(pool, points, tmp_path, os.execl)]
    assert len(errors) == 2
    assert all(error.startswith("a process of the sweep ended suddenly") for error in errors)


def test_an_interrupted_sweep_ends_at_once_whatever_waits_in_its_queue(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env={"PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


class Loses(Executor):
    """A cluster that runs again what somebody still waits for."""

    def __init__(self):
        self.asked = []

    def submit(self, call, /, *given):
        future = Future()
        future.set_result(call(*given))
        self.asked.append(weakref.ref(future))
        return future


def test_nobody_waits_for_a_point_that_has_ended(tmp_path):
    """So a cluster does not run it again when the worker that ran it is lost."""
    pool, points = Loses(), [Given(name, name) for name in "abcd"]
    for ended, _ in enumerate(run_points(pool, points, tmp_path, min), 1):
        waiting = sum(future() is not None for future in pool.asked)
        assert waiting <= len(points) - ended + 1


def test_a_point_that_has_finished_is_not_run_again(tmp_path):
    write_run(tmp_path)
    assert run_point(None, str(tmp_path)).error == ""
