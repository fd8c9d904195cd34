"""One event: a run is started, its plan is carried out, and what came of both is collected."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p4fabric.base.config.data_files import DataError
from p4fabric.base.errors import UserError
from p4fabric.emulate import run_records

from testbed import results
from tests.support.chaos import processes
from tests.support.chaos.environment import Environment, environment, memory_file
from tests.support.chaos.plans import VICTIMS, WITHOUT_SERVER, Happening, Plan
from tests.support.intruders import SENDER, frames
from tests.support.paths import ROOT
from tests.support.runs import PYTHON

LIMIT_S = 180  # of a run, on a machine that does much else
GONE_S = 8  # for what has been killed to be gone
_LOOK_S = 0.05  # interval of looks for processes
_TICK_S = 0.005
_MEMBER = re.compile(r"workers: \[(?P<workers>[^\]]*)\](?:, ps: h(?P<server>\d+))?")


@dataclass
class Done:
    """A happening that took place. `victims`: titles of the processes."""

    happening: Happening
    after_s: float
    victims: list[str]


@dataclass
class Ended:
    """Outcome of an event. code: negative for a signal. state, error: of the results folder, ""
    where there is none. jobs: rows of its table. left: things that were still there when nothing
    should have been."""

    plan: Plan
    pid: int
    code: int
    took_s: float
    output: str
    errors: str
    done: list[Done]
    in_time: bool
    state: str = ""
    error: str = ""
    fidelity: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def killed(self) -> bool:
        """True if the runner was killed and could not say how it ended."""
        return self.code == -signal.SIGKILL


def carry_out(plan: Plan, folder: Path) -> Ended:
    """Run a plan in an empty folder, which gets the experiment, the output and the results."""
    file = folder / "experiment.yaml"
    file.write_text(plan.experiment)
    (folder / "tmp").mkdir()
    with environment(plan, folder) as around:
        event = _Event(plan, folder, around)
        try:
            event.watch()
        finally:
            event.close()
        ended = event.ended()
        _read_results(ended, around.results)
    ended.left += around.left + [f"mount {each}" for each in _mounts(folder)]
    if not ended.killed:
        ended.left += registered(ended.pid)
        ended.left += [f"file {path}" for path in (folder / "tmp").iterdir()]
    return ended


def registered(pid: int) -> list[str]:
    """Entries of a runner in the registry."""
    if not run_records.DIRECTORY.is_dir():
        return []
    return [f"file {path}" for path in run_records.DIRECTORY.glob(f"{pid}-*")]


def _mounts(folder: Path) -> list[str]:
    """Mount points below a folder."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(str(folder))]


class _Event:
    """The run while it goes on."""

    def __init__(self, plan: Plan, folder: Path, around: Environment) -> None:
        self.plan = plan
        self.folder = folder
        self.around = around
        self.done: list[Done] = []
        self.left: list[str] = []
        self.in_time = True
        self.waiting = list(plan.happenings)
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.stopped: set[int] = set()
        self.senders: list[subprocess.Popen] = []
        self.own = processes.adopted(())
        command = [PYTHON, str(ROOT / "run.py"), str(folder / "experiment.yaml")]
        command += ["--results", str(around.results), *plan.arguments]
        with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
            self.began = time.monotonic()
            self.anchors = {"command": self.began}
            self.process = subprocess.Popen(
                [*around.wrapper, *command],
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(folder / "tmp")},
                preexec_fn=around.prepare,
            )
        self.looked = 0.0
        self.took_s = 0.0

    def watch(self) -> None:
        """Until the run has ended."""
        while self.process.poll() is None:
            now = time.monotonic()
            if now - self.began > LIMIT_S:
                self.in_time = False
                self.process.kill()
                self.process.wait()
                break
            self._find_anchors(now)
            self._act(now)
            time.sleep(_TICK_S)
        self.took_s = time.monotonic() - self.began

    def close(self) -> None:
        """Nothing of ours is left, and nobody is stopped."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        processes.carry_on(self.stopped)
        for sender in self.senders:
            sender.kill()
            sender.wait()
        deadline = time.monotonic() + GONE_S
        while left := processes.adopted(self.own):
            if time.monotonic() > deadline:
                self.left = [f"process {pid} {processes.title(pid)}" for pid in sorted(left)]
                for pid in left:
                    processes.send(pid, signal.SIGKILL)
                return
            time.sleep(0.02)

    def ended(self) -> Ended:
        """How."""
        texts = ((self.folder / name).read_text(errors="replace") for name in ("output", "errors"))
        code = self.process.returncode
        ended = Ended(
            self.plan, self.process.pid, code, self.took_s, *texts, self.done, self.in_time
        )
        ended.left = self.left
        return ended

    def _find_anchors(self, now: float) -> None:
        if len(self.anchors) == 3 or now - self.looked < _LOOK_S:
            return
        self.looked = now
        if "results" not in self.anchors:
            if "results: " in (self.folder / "output").read_text(errors="replace"):
                self.anchors["results"] = now
        elif "host" in processes.by_kind(self.process.pid):
            self.anchors["hosts"] = now

    def _act(self, now: float) -> None:
        for each in list(self.waiting):
            anchor = self.anchors.get(each.moment.anchor)
            if anchor is not None and now >= anchor + each.moment.after_s:
                victims = getattr(self, f"_{each.what}")(each)
                if victims is None:  # there is nobody yet
                    continue
                self.waiting.remove(each)
                if victims:
                    self.done.append(Done(each, now - self.began, victims))
        for each in list(self.later):
            if now >= each[0]:
                self.later.remove(each)
                each[1]()

    def _signal(self, what: Happening) -> list[str]:
        self.process.send_signal(signal.Signals[what.signal])
        return ["the runner"]

    def _chosen(self, what: Happening) -> dict[int, str] | None:
        """Title by process id; None: there is no process of this kind yet."""
        if what.victim == "runner":
            return {self.process.pid: "the runner"}
        found = processes.by_kind(self.process.pid)
        if what.victim in VICTIMS:
            listed = found.get(what.victim)
            if not listed:
                return None
            name, pid = listed[what.place % len(listed)]
            return {pid: name}
        everybody = {pid: name for each in found.values() for name, pid in each}
        return {self.process.pid: "the runner", **everybody}

    def _kill(self, what: Happening) -> list[str] | None:
        chosen = self._chosen(what)
        if chosen is None:
            return None
        number = signal.Signals[what.signal]
        return [name for pid, name in chosen.items() if processes.send(pid, number)]

    def _freeze(self, what: Happening) -> list[str] | None:
        chosen = self._chosen(what)
        if chosen is None:
            return None
        assert what.for_s is not None
        stopped = {p: name for p, name in chosen.items() if processes.send(p, signal.SIGSTOP)}
        self.stopped |= set(stopped)
        until = time.monotonic() + what.for_s
        self.later.append((until, lambda: processes.carry_on(stopped)))
        return list(stopped.values())

    def _fill(self, what: Happening) -> list[str]:
        """Nothing more goes into a file system."""
        folder = self.around.results
        if what.victim == "registry":
            inside = str(run_records.DIRECTORY).lstrip("/")
            folder = Path(f"/proc/{self.process.pid}/root") / inside
        try:
            with (folder / "filler").open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
        except FileNotFoundError:  # the run has just ended
            return []
        except OSError:
            pass
        return [what.victim]

    def _limit(self, what: Happening) -> list[str]:
        """Lower the memory limit from now on."""
        assert self.around.group is not None
        try:
            memory_file(self.around.group).write_text(str(what.amount))
        except OSError:  # more is in use, and cannot be taken away
            return []
        return ["the control group"]

    def _storm(self, what: Happening) -> list[str] | None:
        """A stranger floods its switch with what claims to be the jobs'."""
        wanted = f"ina namespace {self.plan.stranger}"
        found = processes.by_kind(self.process.pid).get("namespace", [])
        pid = next((pid for name, pid in found if name == wanted), None)
        if pid is None or "hosts" not in self.anchors:
            return None
        listed = self.folder / "frames"
        listed.write_text("".join(f"{each.hex()}\n" for each in hostile(self.plan)))
        inside = ["nsenter", "--target", str(pid), "--net"]
        sender = subprocess.Popen(
            [*inside, sys.executable, "-S", "-c", SENDER, str(listed)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.senders.append(sender)
        assert what.for_s is not None
        self.later.append((time.monotonic() + what.for_s, sender.kill))
        return [self.plan.stranger]


def hostile(plan: Plan) -> list[bytes]:
    """Frames that claim the plan's jobs."""
    made = []
    for job, found in enumerate(_MEMBER.finditer(plan.experiment)):
        workers = [int(name.strip().lstrip("h")) for name in found["workers"].split(",")]
        server = 0 if plan.system in WITHOUT_SERVER else int(found["server"])
        made += frames(plan.system, workers, server, values=64, job=job)
    return made


def _read_results(ended: Ended, folder: Path) -> None:
    """Read the state, the error and the jobs of the results folder, if there is one. It cannot be
    read where the runner was killed before it was whole."""
    made = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    if not made:
        return
    if len(made) > 1:
        ended.left.append(f"{len(made)} results folders")
    try:
        read = results.read(made[0])
    except (UserError, DataError, results.ResultsError) as error:
        if not ended.killed and (made[0] / "status.json").exists():
            ended.left.append(f"results that cannot be read: {error}")
        return
    ended.state, ended.error = read.state, read.error or ""
    ended.fidelity = read.fidelity or ""
    if read.state in ("finished", "failed"):
        ended.jobs = read.jobs.to_dict("records")
