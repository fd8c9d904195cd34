"""The folder of a network file's run in virtual time: which one it is, and how far its run is."""

from __future__ import annotations

import fcntl
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.ownership import hand_over
from p4fabric.base.linux.whole_files import write_whole

FILE, RESULTS = "network.yaml", "results.json"


def new_folder(parent: Path, name: str, text: str) -> Path:
    """Make a run's folder, with the network file's text in it. Raises UserError."""
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "run"
    started = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    folder = parent / f"{slug}-{started}Z-{secrets.token_hex(2)}"
    try:
        for path in reversed([folder, *folder.parents]):
            if not path.exists():
                path.mkdir()
                hand_over(path)
        write_whole(folder / FILE, text)
    except OSError as error:
        raise UserError(f"can't make a results folder in {parent}: {error.strerror}") from None
    return folder


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
