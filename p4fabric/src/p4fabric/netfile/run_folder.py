"""The folder of a network file's run in virtual time: which one it is, and how far its run is."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE, RESULTS = "network.yaml", "results.json"


@contextmanager
def in_progress(folder: Path) -> Iterator[None]:
    """Hold a lock on a run's folder, which ends with the process at the latest."""
    with open(folder / FILE) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def state(folder: Path) -> str:
    """State of a run: finished, running, or killed before it had written its results."""
    if (folder / RESULTS).is_file():
        return "finished"
    with open(folder / FILE) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "running"
    return "killed"


def is_run(folder: Path) -> bool:
    """True if a folder is that of a run, also of one that has no results yet, or was killed."""
    named = re.search(r"-\d{8}T\d{6}Z-[0-9a-f]{4}$", folder.absolute().name)
    return (folder / FILE).is_file() and bool(named or (folder / RESULTS).is_file())
