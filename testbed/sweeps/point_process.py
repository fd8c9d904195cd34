"""One point of a sweep: in this process, or, on Mininet, in one of its own.

A process that runs Mininet needs its main thread, root, and the machine for itself. A worker of a
cluster has none of these for sure. So it starts a process for such a point, and the workers of one
machine wait for each other.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import RunError, UserError, shortage
from p4fabric.base.steps import quiet_console

from testbed.sweeps.call_process import CallProcess, ProcessLost

if TYPE_CHECKING:
    from testbed.experiment import Experiment

LOCK = Path("/run/ina-testbed-mininet.lock")  # root's alone, as are the workers that take it


def run_point(experiment: Experiment, parent: str) -> str:
    """Run one experiment, after tuning what it leaves to be tuned, and write its report.txt; its
    results folder goes below `parent`, RESULTS/SWEEP/KEY. Returns why it failed, or "". A point
    that has finished is not run again: a cluster that loses a worker may ask for all it had run."""
    from testbed.analysis.report import after_run
    from testbed.run_parts.program import prepare
    from testbed.run_parts.run import Run
    from testbed.runner import execute
    from testbed.schemes import set_up
    from testbed.sweeps.result_reuse import finished
    from testbed.sweeps.trials import tuned

    if finished(Path(parent)):
        return ""
    quiet = quiet_console()
    try:
        experiment = tuned(experiment, Path(parent).parents[1])
        setup = set_up(experiment)
        folder = execute(Run(experiment, setup, prepare(setup), quiet), Path(parent))
        after_run(folder, quiet, draw=False)
    except (RunError, UserError) as error:
        return str(error)
    except (MemoryError, OSError, RuntimeError) as error:
        if cause := shortage(error):
            return cause
        raise
    return ""


def run_alone(experiment: Experiment, parent: str) -> str:
    """Run a point on Mininet, called by a worker: in a process of its own, one at a time on a
    machine. Returns why it failed, or ""."""
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = CallProcess()
        try:
            return str(process(_prepare_and_run, experiment, parent))
        except ProcessLost as lost:
            return f"the point's process ended with {lost}"
        finally:
            process.close()


def _prepare_and_run(experiment: Experiment, parent: str) -> str:
    """The same, in that process's main thread."""
    from p4fabric.base import interrupts

    from testbed.runner import get_ready

    interrupts.install()
    try:
        get_ready([experiment])
        return run_point(experiment, parent)
    except UserError as raised:
        return str(raised)
