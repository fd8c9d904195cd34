"""Tasks in forks: results in order, and what becomes of tasks that die or never end."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from p4engine.stf.isolate import TaskFailed, run_all


def work(kind, value=None):
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leave":
        os._exit(3)
    if kind == "hang":
        subprocess.run(["sleep", str(value)])
    if kind == "wait":
        time.sleep(value)
    return value


def test_results_in_order():
    tasks = [("wait", 0.2), ("now", "b"), ("now", None), ("now", [1, 2])]
    assert [r for r, _ in run_all(work, tasks, 60, workers=2)] == [0.2, "b", None, [1, 2]]


def test_no_tasks():
    assert list(run_all(work, [], 60)) == []


@pytest.mark.parametrize(
    ("kind", "reason"), [("die", "signal SIGKILL"), ("leave", "exit code 3"), ("hang", "2 s")]
)
def test_a_lost_task_does_not_take_the_others(kind, reason):
    seconds = 1234 + os.getpid() / 1e7  # a time that no test beside this one sleeps
    limit = 2 if kind == "hang" else 60
    first, second = (r for r, _ in run_all(work, [(kind, seconds), ("now", 7)], limit, workers=1))
    assert isinstance(first, TaskFailed) and reason in str(first)
    assert second == 7
    children = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert f"sleep {seconds}" not in children
