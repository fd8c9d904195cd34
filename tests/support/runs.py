"""Whole runs on Mininet: `ina` in a process of its own, and what came of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed import results
from tests.support.ina import ina

PYTHON = "/usr/bin/python3"


def run(path: Path, folder: Path, *more: str) -> subprocess.CompletedProcess:
    """`ina PATH --results FOLDER MORE...`, waited for."""
    return ina(path, "--results", folder, *more)


def succeeded(experiment: Path | str, folder: Path, *more: str) -> results.Results:
    """Results of a run that must end well. A text is written into a file beside the folder."""
    path = experiment
    if isinstance(experiment, str):
        path = folder.with_name(f"{folder.name}.yaml")
        path.write_text(experiment)
    done = run(path, folder, "--no-report", *more)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return results.read(made)


def finished(experiment: Path | str, folder: Path) -> results.Results:
    """As `succeeded`, with every value checked."""
    read = succeeded(experiment, folder)
    jobs = read.jobs
    assert read.state == "finished" and jobs.exact.all()
    assert (jobs.values_checked == jobs["values"] * jobs.iterations * jobs.workers).all()
    assert read.tensors.done_ns.notna().all()
    return read


def events(read: results.Results) -> dict[str, int]:
    """Number of times that each event occurred, over all switches and jobs."""
    return read.switch_counters.groupby("counter").value.sum().to_dict()
