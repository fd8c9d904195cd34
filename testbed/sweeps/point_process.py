"""One point of a sweep: in this process, or, on Mininet, in one of its own.

A process that runs Mininet needs its main thread, root, and the machine for itself. A worker of a
cluster has none of these for sure. So it starts a process for such a point, and the workers of one
machine wait for each other.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import RunError, UserError, shortage
from testbed.paths import import_path
from testbed.steps import quiet_console

if TYPE_CHECKING:
    from testbed.experiment import Experiment

LOCK = Path("/run/ina-testbed-mininet.lock")  # root's alone, as are the workers that take it


def run_point(experiment: Experiment, parent: str) -> str:
    """Run one experiment and write its report.txt; its results folder goes below `parent`. Returns
    why it failed, or ""."""
    from testbed.analysis.report import after_run
    from testbed.runner import execute
    from testbed.runtimes.program import prepare
    from testbed.runtimes.run import Run
    from testbed.schemes import set_up

    quiet = quiet_console()
    try:
        setup = set_up(experiment)
        folder = execute(Run(experiment, setup, prepare(setup), quiet), Path(parent))
        after_run(folder, quiet, draw=False)
    except (RunError, UserError) as error:
        return str(error)
    except (MemoryError, OSError) as error:
        if cause := shortage(error):
            return cause
        raise
    return ""


def run_alone(experiment: Experiment, parent: str) -> str:
    """Run a point on Mininet, called by a worker: in a process of its own, one at a time on a
    machine. Returns why it failed, or ""."""
    path = [import_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "testbed.sweeps.point_process", str(os.getpid())],
            input=pickle.dumps((experiment, parent)),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )
    try:
        return str(json.loads(done.stdout.splitlines()[-1])["error"])
    except (IndexError, ValueError):
        return f"the point's process ended with code {done.returncode}"


def main(parent: int) -> int:
    """The process of a point: experiment and folder come in, pickled by the worker."""
    from testbed.linux.kernel import die_with_parent
    from testbed.runner import get_ready
    from testbed.runtimes import interrupts

    die_with_parent(parent)
    interrupts.install()
    experiment, folder = pickle.load(sys.stdin.buffer)
    try:
        get_ready([experiment])
        error = run_point(experiment, folder)
    except UserError as raised:
        error = str(raised)
    print(json.dumps({"error": error}))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
