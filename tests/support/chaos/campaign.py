"""Many events, one after the other, and what came of them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos import processes
from tests.support.chaos.environment import possible
from tests.support.chaos.invariants import broken, outcome
from tests.support.chaos.one_run import Ended, carry_out, registered
from tests.support.chaos.plans import Plan, draw
from tests.support.paths import ROOT
from tests.support.runs import PYTHON

OUTCOMES = ("finished", "failed", "interrupted", "killed", "refused", "without effect", "broken")


@dataclass
class Failure:
    """An event that broke an invariant. `folder`: what is kept of it."""

    plan: Plan
    found: list[str]
    folder: Path

    @property
    def again(self) -> str:
        """The command that repeats it."""
        own = f"--seed {self.plan.seed} --only {self.plan.number}"
        return f".venv/bin/python -m tests.support.chaos {own}"


@dataclass
class Summary:
    """`counts`: events by (kind, outcome). An event of two kinds counts for both. `values`: how
    often a value was checked in runs that finished. `longest_s`: of all runs."""

    events: int = 0
    values: int = 0
    longest_s: float = 0.0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


class Campaign:
    """Events whose failures are kept in `kept`; `say` gets a line for each."""

    def __init__(self, kept: Path, say: Callable[[str], object] = print) -> None:
        self.kept = kept
        self.say = say
        self.summary = Summary()
        self._killed: list[int] = []  # runners whose traces the next run must take away

    def run(
        self, seed: int, numbers: Iterable[int], systems: Iterable[str], minutes: float
    ) -> Summary:
        """Events until the time is over. Those of other systems are passed over, and those that
        this machine has no control groups for."""
        end = time.monotonic() + 60 * minutes
        wanted = set(systems)
        with processes.adopting():
            for number in numbers:
                if time.monotonic() > end:
                    break
                plan = draw(seed, number)
                if plan.system in wanted and possible(plan):
                    self.event(plan)
        return self.summary

    def event(self, plan: Plan) -> None:
        """Carry out a plan, and judge what came of it."""
        folder = Path(tempfile.mkdtemp(prefix="ina-chaos-"))
        try:
            ended = carry_out(plan, folder)
            found = broken(ended) + self._take_away(ended)
            self._note(ended, found)
            if found:
                self._keep(ended, found, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _take_away(self, ended: Ended) -> list[str]:
        """Problems with the remains of a killed runner: they must be gone after `ina clean`, or the
        next run."""
        if ended.killed:
            if ended.plan.cleaned:
                command = [PYTHON, str(ROOT / "run.py"), "clean"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                found = [] if done.returncode == 0 else [f"clean: {done.stderr}"]
                return found + registered(ended.pid)
            self._killed.append(ended.pid)
        elif ended.code == 0 and "registry KiB" not in ended.plan.setting:
            before, self._killed = self._killed, []
            return [each for pid in before for each in registered(pid)]
        return []

    def _note(self, ended: Ended, found: list[str]) -> None:
        plan, summary = ended.plan, self.summary
        word = outcome(ended)
        if plan.happenings and not ended.done and not plan.setting and not plan.faults:
            word = "without effect" if ended.code == 0 else word
        summary.events += 1
        summary.longest_s = max(summary.longest_s, ended.took_s)
        if ended.code == 0:
            summary.values += sum(int(job["values_checked"]) for job in ended.jobs)
        for kind in plan.kinds or ("nothing",):
            summary.counts[kind, "broken" if found else word] += 1
        cause = ended.errors.partition("failed: ")[2] or ended.errors.partition("error: ")[2]
        because = f": {cause.splitlines()[0][:110]}" if cause else ""
        self.say(
            f"{plan.number:5} {'BROKEN' if found else 'ok':6} {plan}"
            f" -> {word}, {ended.took_s:.1f} s{because}",
        )

    def _keep(self, ended: Ended, found: list[str], folder: Path) -> None:
        plan = ended.plan
        place = self.kept / f"{plan.seed}-{plan.number}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place, dirs_exist_ok=True)
        failure = Failure(plan, found, place)
        done = [f"{each.after_s:.3f} s: {each.happening}: {each.victims}" for each in ended.done]
        lines = [str(plan), *done, f"exit code {ended.code}, folder: {ended.state}", *found]
        (place / "why").write_text("\n".join([*lines, failure.again, ""]))
        self.summary.failures.append(failure)
        for each in found:
            self.say(f"      {each}")


def table(summary: Summary) -> str:
    """Events by kind and outcome."""
    shown = [word for word in OUTCOMES if any(each == word for _, each in summary.counts)]
    shown += sorted({word for _, word in summary.counts} - set(OUTCOMES))
    lines = [f"{'kind':10}" + "".join(f"{word:>16}" for word in shown)]
    for kind in sorted({kind for kind, _ in summary.counts}):
        cells = (f"{summary.counts[kind, word] or '':>16}" for word in shown)
        lines.append(f"{kind:10}" + "".join(cells))
    return "\n".join(lines)
