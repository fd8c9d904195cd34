"""Access from another shell to a run in progress: find it and its nodes, run commands in them.

Everything comes from the run's record (run_records.py). A command in a node's namespace is a child
of the shell's process, not of the run; it is ended when the run ends, so that no namespace outlives
its run.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from p4fabric.base.errors import RunError, UserError, did_you_mean, sentence
from p4fabric.base.linux import kernel
from p4fabric.base.linux.processes import Identity
from p4fabric.base.program import command_line
from p4fabric.emulate import run_records
from p4fabric.emulate.network_needs import require_root
from p4fabric.emulate.run_records import Record, live_runs

KEEP_S = 2.0  # for a command to end once it has been asked to


def choose(name: str | None) -> Record:
    """The run in progress; `name`: of several, the one whose title begins so, or whose process
    id this is. Raises UserError when there is not one."""
    records = live_runs()
    if name is None:
        found = records
    else:
        found = [each for each in records if name in (each.run, str(each.runner.pid))]
        found = found or [each for each in records if each.title.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not records:
        raise UserError("no run on Mininet is in progress; runs in virtual time have no processes")
    listed = "\n".join(f"  --run {each.runner.pid}  {each.title}" for each in found or records)
    which = "several runs go on; name one" if found else f"no run is called {name!r}; there are"
    raise UserError(f"{which}:\n{listed}")


def check_node(record: Record, node: str, kind: str | None = None) -> None:
    """Raises UserError unless the run has such a node. kind: "host" or "switch"; None: any."""
    known = [name for name, each in record.nodes.items() if kind in (None, each)]
    if node not in known:
        what = kind or "host or switch"
        hint = did_you_mean(node, known)
        raise UserError(
            sentence(f"{record.title} has no {what} {node!r}", hint, f"there are {_few(known)}")
        )


def _few(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def processes(record: Record, node: str) -> dict[str, Identity]:
    """The processes of a node that live, by kind: "namespace", and "process" where it runs one."""
    found = {}
    for key, identity in record.processes.items():
        name, _, what = key.rpartition("-")
        if name == node and identity.alive():
            found["namespace" if what == "net" else "process"] = identity
    return found


def control_socket(record: Record, switch: str) -> Path:
    """The socket of a switch. Raises UserError for one that has none."""
    check_node(record, switch, "switch")
    path = record.folder / f"{switch}.sock"
    if not path.exists():
        raise UserError(
            f"switch {switch} of {record.title} has no control socket: it is not up yet, or it is"
            f" BMv2 (`{command_line(f'exec {switch} -- simple_switch_CLI', root=True)}` reads that)"
        )
    return path


def run_in_node(record: Record, node: str, command: Sequence[str]) -> int:
    """Run a command in the namespaces of a node, with this terminal; returns its exit code (128 +
    the signal that ended it). It is ended when the run ends. Raises UserError, and RunError in that
    case."""
    check_node(record, node)
    holder = processes(record, node).get("namespace")
    if holder is None:
        raise UserError(f"{node} of {record.title} is not up")
    parent = os.getpid()

    def enter() -> None:
        kernel.die_with_parent(parent)
        kernel.enter_node(holder.pid)
        os.chdir(folder)

    folder = os.getcwd()
    with _deaf():
        try:
            child = subprocess.Popen(list(command), preexec_fn=enter)
        except FileNotFoundError:
            raise UserError(f"there is no command {command[0]!r}") from None
        except (OSError, subprocess.SubprocessError) as error:
            raise UserError(f"{command[0]}: cannot be started: {error}") from None
        with _watch(record.runner.pid) as runner, _watch(child.pid) as ended:
            ready, _, _ = select.select([runner, ended], [], [])
        if ended in ready:
            code = child.wait()
            return 128 - code if code < 0 else code
        child.terminate()
        try:
            child.wait(KEEP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    raise RunError(f"{record.title} has ended, and with it {node}")


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """A block in which Ctrl-C is the command's alone."""
    before = signal.signal(signal.SIGINT, _ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore(number: int, frame: object) -> None:
    """A handler, not SIG_IGN, which a child would inherit."""


@contextlib.contextmanager
def _watch(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def log_files(record: Record, node: str) -> list[Path]:
    """The logs of a node, one per repetition, oldest first."""
    check_node(record, node)
    folder = record.logs or record.folder
    found = [path for path in (*folder.glob(f"{node}.log"), *folder.glob(f"{node}-r*.log"))]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def clean_command() -> int:
    """Remove what killed runs have left on this machine, and say what. Raises UserError."""
    require_root(f"`{command_line('clean')}`")
    removed = run_records.clean()
    for line in removed:
        print(f"removed {line}")
    for record in live_runs():
        print(f"left alone: {record.title or 'a run'} is running (process {record.runner.pid})")
    if not removed:
        print("nothing to remove")
    return 0
