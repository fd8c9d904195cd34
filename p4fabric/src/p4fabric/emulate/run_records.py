"""The records of runs in /run/p4fabric: what runs have on this machine, and how to remove it.

A run writes a record before it starts anything: its runner's identity, then each process with its
start time. Below the folder of the same name lie the run's sockets. As all processes die with the
runner, a killed run usually leaves only its record and that folder; `clean` removes both, and kills
what of the recorded processes still lives, should the chain have been broken. It goes by process
identity and never by name, so it cannot touch another run, nor anything that is not ours.

The folder belongs to root and is closed to others: anybody who could write a record could have
processes killed.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.processes import Identity

_log = logging.getLogger(__name__)
DIRECTORY = Path("/run/p4fabric")


def _directory() -> Path:
    """The registry folder, made if missing, refused if others could write into it."""
    try:
        DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {DIRECTORY}: {error.strerror}") from error
    state = DIRECTORY.lstat()
    if DIRECTORY.is_symlink() or state.st_uid != 0 or state.st_mode & 0o077:
        raise UserError(
            f"{DIRECTORY} must belong to root with mode 0700: remove it, then run again"
        )
    return DIRECTORY


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass
class Record:
    """One run's record. Changes reach the file through `save`. `nodes`: "host" or "switch", by
    name; `logs`: the folder of their logs."""

    run: str
    runner: Identity
    title: str = ""
    processes: dict[str, Identity] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    logs: Path | None = None

    @property
    def path(self) -> Path:
        return DIRECTORY / f"{self.run}.json"

    @property
    def folder(self) -> Path:
        """Sockets and scratch files of the run; Unix socket paths must be short."""
        return DIRECTORY / self.run

    @staticmethod
    def new(title: str) -> Record:
        """A record of a run whose runner is this process; nothing is written yet."""
        runner = Identity.of(os.getpid())
        assert runner is not None
        return Record(f"{runner.pid}-{secrets.token_hex(3)}", runner, title)

    def register(self) -> None:
        """Write the record, then make the run's folder."""
        _directory()
        self.save()
        self.folder.mkdir(mode=0o700)

    def add(self, name: str, pid: int) -> None:
        """Note a process of ours (not yet in the file)."""
        identity = Identity.of(pid)
        if identity is not None:
            self.processes[name] = identity

    def save(self) -> None:
        content = {
            "run": self.run,
            "title": self.title,
            "boot": boot_id(),
            "runner": [self.runner.pid, self.runner.start],
            "processes": {name: [p.pid, p.start] for name, p in self.processes.items()},
            "nodes": self.nodes,
            "logs": str(self.logs.absolute()) if self.logs else None,
        }
        scratch = self.path.with_suffix(".new")
        scratch.write_text(json.dumps(content))
        os.replace(scratch, self.path)

    def remove(self) -> None:
        """Forget the run; its folder goes first, so that the rest is always found."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.path.unlink(missing_ok=True)

    @staticmethod
    def read(path: Path) -> Record | None:
        """The record in a file, None where it cannot be read or stems from an earlier boot."""
        try:
            content = json.loads(path.read_text())
            if content["boot"] != boot_id():
                return None
            processes = {name: Identity(*pair) for name, pair in content["processes"].items()}
            runner = Identity(*content["runner"])
            nodes = {str(name): str(kind) for name, kind in content.get("nodes", {}).items()}
            logs = Path(content["logs"]) if content.get("logs") else None
            return Record(path.stem, runner, str(content["title"]), processes, nodes, logs)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def live_runs() -> list[Record]:
    """Runs on this machine whose runner lives."""
    if not DIRECTORY.is_dir():
        return []
    records = [Record.read(path) for path in sorted(DIRECTORY.glob("*.json"))]
    return [record for record in records if record is not None and record.runner.alive()]


def clean() -> list[str]:
    """Remove what dead runs left; returns a line for each thing that was removed."""
    removed: list[str] = []
    if not DIRECTORY.is_dir():
        return removed
    _directory()
    for path in sorted(DIRECTORY.glob("*.json")):
        # Looked at one by one, here: a run may register while we clean.
        record = Record.read(path)
        if record is not None and record.runner.alive():
            continue
        for name, identity in record.processes.items() if record else ():
            if identity.kill():
                removed.append(f"process {identity.pid} ({name}) of run {path.stem}")
        shutil.rmtree(DIRECTORY / path.stem, ignore_errors=True)
        path.unlink(missing_ok=True)
        title = f" ({record.title})" if record and record.title else ""
        removed.append(f"record and folder of run {path.stem}{title}")
    for path in sorted(DIRECTORY.iterdir()):
        # A folder without a record cannot be a live run's: the record comes first and goes last.
        if path.is_dir() and not path.with_name(path.name + ".json").exists():
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix == ".new" and Identity.of(int(path.name.split("-")[0])) is None:
            path.unlink(missing_ok=True)
        else:
            continue
        removed.append(str(path))
    for each in removed:
        _log.info("removed: %s", each)
    return removed
