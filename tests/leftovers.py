"""What a run may have left on the machine: see p4engine_testing.leftovers, and files below the run
directory. Other people's runs on the same machine come and go during a test, so files count only
where their owner is this test process, descends from it, or no longer lives."""

from __future__ import annotations

import os
from pathlib import Path

from p4engine_testing.leftovers import children_of
from p4engine_testing.leftovers import leftovers as of_any_test

RUN_DIRECTORY = Path("/run/ina-testbed")


def _run_files(owners: set[int]) -> set[str]:
    """Files of runs whose runner is one of `owners` (process ids), or no longer lives."""
    found = set()
    if RUN_DIRECTORY.is_dir():
        for path in RUN_DIRECTORY.iterdir():
            pid = path.name.split("-")[0]
            if pid.isdigit() and (int(pid) in owners or not Path(f"/proc/{pid}").exists()):
                found.add(f"file {path}")
    return found


def leftovers() -> set[str]:
    """A snapshot; what is in a later one and not in an earlier one was left behind."""
    return of_any_test() | _run_files({os.getpid()} | children_of(os.getpid()))
