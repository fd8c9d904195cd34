"""Tests that build networks: when they are skipped, and what they may not leave behind.

Runs of other users come and go on the same machine during a test. So files below the run directory
count only where their owner is this test process, descends from it, or no longer lives.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from p4engine_testing.leftovers import children_of, nothing_left
from p4engine_testing.leftovers import leftovers as of_any_test
from p4engine_testing.rings import why_no_network

RUN_DIRECTORY = Path("/run/p4fabric")


def skip_without_mininet(items: list[pytest.Item], folder: Path) -> None:
    """Skip the tests of a folder, unless Mininet is installed."""
    if importlib.util.find_spec("mininet") is not None:
        return
    reason = "network tests need Mininet (sudo ./demo installs it)"
    for item in items:
        if folder in Path(item.path).parents:
            item.add_marker(pytest.mark.skip(reason=reason))


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


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    if why_no_network():
        yield
        return
    with nothing_left(leftovers):
        yield
