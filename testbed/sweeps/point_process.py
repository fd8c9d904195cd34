"""One point of a sweep: in this process, or, on Mininet, in one of its own.

A process that runs Mininet needs its main thread, root, and the machine for itself. A worker of a
cluster has none of these for sure. So it starts a process for such a point, and the workers of one
machine wait for each other.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from p4fabric.base.errors import RunError, UserError, shortage
from p4fabric.base.steps import quiet_console

from testbed.sweeps.call_process import CallProcess, ProcessLost

if TYPE_CHECKING:
    from testbed.experiment import Experiment

LOCK = Path("/run/ina-testbed-mininet.lock")  # root's alone, as are the workers that take it


class Outcome(NamedTuple):
    """The end of a point: the reason for which it failed, or ""; and of a run that it has made, the
    name of the results folder and the summary (`run_summary.packed`)."""

    error: str = ""
    run: str = ""
    summary: bytes = b""


def run_point(experiment: Experiment, parent: str) -> Outcome:
    """Run one experiment, after tuning what it leaves to be tuned, and write its report.txt; its
    results folder goes below `parent`, RESULTS/SWEEP/KEY. A point that has finished is not run
    again: a cluster that loses a worker may ask for all it had run."""
    from testbed.analysis.data import run_summary
    from testbed.analysis.report import after_run
    from testbed.run_parts.program import prepare
    from testbed.run_parts.run import Run
    from testbed.runner import execute
    from testbed.schemes import set_up
    from testbed.sweeps.result_reuse import is_done
    from testbed.sweeps.trials import tuned

    if is_done(Path(parent)):
        return Outcome()
    quiet = quiet_console()
    try:
        experiment = tuned(experiment, Path(parent).parents[1])
        setup = set_up(experiment)
        folder = execute(Run(experiment, setup, prepare(setup), quiet), Path(parent))
        results = after_run(folder, quiet, draw=False)
        return Outcome("", folder.name, run_summary.packed(results))
    except (RunError, UserError) as error:
        return Outcome(str(error))
    except (MemoryError, OSError, RuntimeError) as error:
        if cause := shortage(error):
            return Outcome(cause)
        raise


def run_alone(experiment: Experiment, parent: str) -> Outcome:
    """Run a point on Mininet, called by a worker: in a process of its own, one at a time on a
    machine."""
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = CallProcess()
        try:
            return process(_prepare_and_run, experiment, parent)
        except ProcessLost as lost:
            return Outcome(f"the point's process ended with {lost}")
        finally:
            process.close()


def _prepare_and_run(experiment: Experiment, parent: str) -> Outcome:
    """The same, in that process's main thread."""
    from p4fabric.base import interrupts

    from testbed.runner import get_ready

    interrupts.install()
    try:
        get_ready([experiment])
        return run_point(experiment, parent)
    except UserError as raised:
        return Outcome(str(raised))
