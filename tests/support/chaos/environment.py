"""Surroundings of an event's command: file systems of its own, limits of memory and processors.

The run's registry lies in /run. A small file system there is mounted in a mount namespace of the
command alone, so that other runs of the machine do not notice it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from p4fabric.emulate import run_records

from tests.support.chaos.plans import Plan

GROUPS = Path("/sys/fs/cgroup")
_GROUPED = {"group MiB": "memory", "quota %": "cpu"}
_PRIVATE = 'mount -t tmpfs -o size="$1"k,mode=0700 tmpfs "$2" && shift 2 && exec "$@"'
_BUSY = "import os\nos.nice(-5)\nwhile True: pass"


@dataclass
class Environment:
    """`wrapper` goes before the command; `prepare` is called in its process, before it begins.
    `group`: the control group that limits memory. `left`: what could not be taken away."""

    results: Path
    wrapper: list[str] = field(default_factory=list)
    group: Path | None = None
    left: list[str] = field(default_factory=list)
    _prepare: list[Callable[[], None]] = field(default_factory=list)

    def prepare(self) -> None:
        # Tests in the background of a shell inherit an ignored SIGINT, and Python leaves it so.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for each in self._prepare:
            each()


@contextlib.contextmanager
def environment(plan: Plan, folder: Path) -> Iterator[Environment]:
    """Surroundings that `plan.setting` asks for. folder: of the event."""
    made = Environment(folder / "results")
    with contextlib.ExitStack() as stack:
        for name, amount in plan.setting.items():
            _SETTINGS[name](made, amount, stack)
        yield made


def memory_file(group: Path) -> Path:
    """File with the memory limit of a control group, in version 2 or 1."""
    second = group / "memory.max"
    return second if second.exists() else group / "memory.limit_in_bytes"


def possible(plan: Plan) -> bool:
    """True if this machine has the control groups that an event needs."""
    return all(_has(_GROUPED[name]) for name in plan.setting if name in _GROUPED)


def _has(controller: str) -> bool:
    if not os.access(_group_folder(controller), os.W_OK):
        return False
    handed_down = GROUPS / "cgroup.subtree_control"  # version 2
    return not handed_down.exists() or controller in handed_down.read_text().split()


def _group_folder(controller: str) -> Path:
    first = GROUPS / controller
    return first if first.is_dir() else GROUPS


def _results(made: Environment, kib: int, stack: contextlib.ExitStack) -> None:
    made.results.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(made.results)]
    subprocess.run(mount, check=True)
    stack.callback(subprocess.run, ["umount", "--lazy", str(made.results)], check=True)


def _registry(made: Environment, kib: int, stack: contextlib.ExitStack) -> None:
    run_records.DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    made.wrapper += ["unshare", "--mount", "sh", "-c", _PRIVATE, "sh"]
    made.wrapper += [str(kib), str(run_records.DIRECTORY)]


def _memory_group(made: Environment, mib: int, stack: contextlib.ExitStack) -> None:
    made.group = _group(made, "memory", stack)
    memory_file(made.group).write_text(str(mib << 20))


def _quota(made: Environment, percent: int, stack: contextlib.ExitStack) -> None:
    group = _group(made, "cpu", stack)
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{percent * 1000} 100000")
    else:
        (group / "cpu.cfs_quota_us").write_text(str(percent * 1000))


def _group(made: Environment, controller: str, stack: contextlib.ExitStack) -> Path:
    group = _group_folder(controller) / f"ina-chaos-{controller}-{os.getpid()}"
    group.mkdir()
    stack.callback(_remove_group, made, group)
    members = group / "cgroup.procs"
    made._prepare.append(lambda: _write_raw(members, os.getpid()))
    return group


def _write_raw(path: Path, number: int) -> None:
    path.write_text(str(number))


def _remove_group(made: Environment, group: Path) -> None:
    deadline = time.monotonic() + 5
    while True:
        try:
            group.rmdir()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                made.left.append(f"control group {group}: {error.strerror}")
                return
        time.sleep(0.05)


def _one_processor(made: Environment, _: int, stack: contextlib.ExitStack) -> None:
    one = min(os.sched_getaffinity(0))
    made._prepare.append(lambda: os.sched_setaffinity(0, {one}))


def _busy(made: Environment, count: int, stack: contextlib.ExitStack) -> None:
    for _ in range(count):
        busy = subprocess.Popen([sys.executable, "-S", "-c", _BUSY])
        stack.callback(busy.wait)
        stack.callback(busy.kill)


_SETTINGS = {
    "results KiB": _results,
    "registry KiB": _registry,
    "group MiB": _memory_group,
    "quota %": _quota,
    "one processor": _one_processor,
    "busy processes": _busy,
}
