"""Running experiments and sweeps from Python.

`run` and `sweep` work in this process and show how far they are: in a notebook below the cell, in a
terminal in one line, elsewhere as lines on standard error. `run_async` gives each run a process of
its own (child.py), since a process has one set of signals and handlers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from p4engine.module_start import module_command
from p4fabric.base.config.yaml_document import write_yaml
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.steps import quiet_console
from rich.console import Console

from testbed.api.experiments import Experiment, load
from testbed.api.results import Result, SweepResult
from testbed.paths import module_environment

RESULTS = "results"
_LONGEST = 64  # characters of a name


def run(
    experiment: Experiment | str | Path,
    results: str | Path = RESULTS,
    *,
    pcap: Sequence[str] = (),
    report: bool = False,
    progress: bool = True,
) -> Result:
    """Run one experiment; its folder goes below `results`.

    pcap: ports to capture, such as "s1:1" (captures.md). report: whether figures and report.html
    are made at once; `Result.report` makes them later. progress: whether it shows how far it is.
    Raises UserError before anything is run, and RunError when the run fails; what it has left can
    be read."""
    from testbed.analysis.report import after_run
    from testbed.runner import carry_out
    from testbed.sweeps.sweep_runner import tune_here

    console, parent = _console(progress), Path(results)
    resolved = tune_here(_loaded(experiment).resolved, parent, console)
    folder = carry_out(resolved, parent, tuple(pcap), console)
    after_run(folder, quiet_console(), draw=report)
    return Result(folder)


async def run_async(
    experiment: Experiment | str | Path,
    results: str | Path = RESULTS,
    *,
    pcap: Sequence[str] = (),
    report: bool = False,
) -> Result:
    """The same in a process of its own, so that others can be awaited beside it.

    Runs in virtual time can go on side by side; runs on Mininet would disturb each other. When the
    task is cancelled, the run ends in order, as with Ctrl-C. Shows nothing; warnings go to standard
    error. Raises what `run` raises."""
    loaded = _loaded(experiment)
    asked = {
        "text": write_yaml(loaded.data),
        "file": loaded._file,
        "folder": str(loaded.folder),
        "stem": loaded._stem,
        "results": str(Path(results).absolute()),
        "pcap": list(pcap),
        "report": report,
    }
    if loaded.is_sweep:
        loaded.resolved  # noqa: B018  # raises the error that says so
    child = await asyncio.create_subprocess_exec(
        *module_command("testbed.api.child", os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=module_environment(),
    )
    try:
        said, complained = await child.communicate(json.dumps(asked).encode())
    except asyncio.CancelledError:
        if child.returncode is None:
            child.send_signal(signal.SIGINT)
        await child.wait()
        raise
    return _answer(said.decode(), complained.decode(errors="replace"), child.returncode or 0)


def _answer(said: str, complained: str, code: int) -> Result:
    try:
        answer = json.loads(said.splitlines()[-1])
    except (IndexError, ValueError):
        raise RunError(f"the run's process ended with code {code}", complained.strip()) from None
    if complained:
        print(complained, end="", file=sys.stderr)
    if "folder" in answer:
        return Result(answer["folder"])
    if answer["error"] == "user":
        raise UserError(answer["message"])
    raise RunError(answer["message"], answer["log_tail"], answer["log"])


def sweep(
    experiment: Experiment | str | Path,
    results: str | Path = RESULTS,
    *,
    name: str | None = None,
    seeds: int | None = None,
    together: Iterable[Mapping[str, Any]] = (),
    skip: Iterable[Mapping[str, Any]] = (),
    processes: int | None = None,
    dask: str | None = None,
    slurm: str | None = None,
    report: bool = False,
    progress: bool = True,
    **vary: object,
) -> SweepResult:
    """Run an experiment with each value of some keys with each of the others.

    vary: lists of values by key, as in a file's key `sweep`: `system=["esa", "atp"],
    **{"memory.aggregators": [16, 64]}`; beside those that the file varies. together, skip: as in
    the file. seeds: how many seeds each point is run with, from the experiment's own on (its key
    `repetitions`).

    name: of the folder below `results`; without it, the experiment's name and the keys. A point
    that has a finished run in it is not run again. processes: how many points of virtual time run
    at a time (None: one per processor); dask: the address of a cluster's scheduler instead;
    slurm: the settings of SLURM jobs, such as "partition=short,timeout_min=30" (docs/dask.md).
    report, progress: as in `run`. Points that fail do not stop the others; `SweepResult.failed` has
    them, and a line on standard error. Raises UserError before anything is run."""
    from testbed.analysis.report import sweep_report
    from testbed.sweeps.sweep_runner import carry_out

    if processes is not None and (isinstance(processes, bool) or processes < 1):
        raise UserError(f"processes: found {processes!r}; allowed: a whole number from 1")
    if sum(each is not None for each in (processes, dask, slurm)) > 1:
        raise UserError("processes, dask and slurm: give one of them")
    loaded = _loaded(experiment)
    if vary or together or skip:
        loaded = loaded.sweep(vary, together, skip)
    if not loaded.is_sweep:
        raise UserError(
            'nothing is varied: name keys and lists of values, such as system=["esa", "atp"]'
        )
    changes: dict[str, Any] = {} if seeds is None else {"repetitions": seeds}
    changes["name"] = name if name is not None else _name(loaded, bool(vary or together))
    loaded = loaded.with_(changes)
    assert loaded._sweep is not None
    made = carry_out(loaded._sweep, Path(results), _console(progress), processes, dask, slurm)
    folder = made.folder
    sweep_report(folder, quiet_console(), draw=report, again=False, known=made.summaries)
    for point, error in made.failed:
        print(f"failed: {point.label}: {error}", file=sys.stderr)
    return SweepResult(folder)


def _name(loaded: Experiment, varied: bool) -> str:
    """A name that tells sweeps of one experiment over different keys from each other."""
    if not varied or loaded._sweep is None:
        return loaded.name
    words = [loaded.name, *loaded._sweep.keys]
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)).strip("-")
    if len(found) <= _LONGEST:
        return found
    short = hashlib.sha256(found.encode()).hexdigest()[:6]
    return f"{found[: _LONGEST - 7]}-{short}"


def _loaded(experiment: Experiment | str | Path) -> Experiment:
    return experiment if isinstance(experiment, Experiment) else load(experiment)


def _console(progress: bool) -> Console:
    return Console(stderr=True) if progress else quiet_console()
