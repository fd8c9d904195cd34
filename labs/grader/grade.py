"""Grading one submission: all checks of a lab, each in processes of its own, within a time limit.

Nothing that a submission does may keep the grader from giving a result for it: what does not
compile, hangs or crashes gets no points for the checks concerned, with the reason.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from p4engine.backend.build import compile_program
from p4engine.backend.c_build import share_runtime
from p4fabric.base.errors import UserError

from labs.grader import sandbox, seccomp
from labs.grader.bench import Bench, Broken, plain
from labs.grader.box import (
    Box,
    BoxError,
    NotJudged,
    Refused,
    hand_over,
    remove,
    scratch_folder,
)
from labs.grader.failure import Failure
from labs.grader.lab import SUBMISSION_S, Check, Lab
from labs.grader.network import Wires, refuse
from labs.grader.seeds import Seed, Stream
from labs.grader.submission import Unusable, collect
from labs.grader.trace import fold

# Limits in seconds of the submission's processor time.
COMPILE_S = 30.0
PRACTICE = Seed()
SMALL = Path(__file__).with_name("small.p4")  # compiled once, so that the runtime is in the cache


@dataclass
class Outcome:
    """The outcome of one check. `status`: "pass", "fail", "not run" (a file of the submission
    cannot be run at all), or "not judged" (this machine was too busy)."""

    check: Check
    status: str
    lines: list[str] = field(default_factory=list)  # the reasons
    trace: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    printed: str = ""
    played: str = ""  # the place, if a network was asked for
    seconds: float = 0.0
    score: float | None = None  # for a league table
    share: float = 0.0  # of the points of a check that has failed

    @property
    def points(self) -> float:
        """All, or in tenths a share of a check that has failed."""
        if self.status == "pass":
            return self.check.points
        return int(10 * self.share * self.check.points) / 10 if self.status == "fail" else 0


@dataclass
class Grade:
    """A submission's grade."""

    lab: Lab
    outcomes: list[Outcome]
    problem: str = ""  # the reason why checks could not be run
    warnings: list[str] = field(default_factory=list)  # of the compiler
    seconds: float = 0.0

    @property
    def points(self) -> float:
        return round(sum(o.points for o in self.outcomes), 1)

    @property
    def judged(self) -> bool:
        """False: some checks have to be run again, on a machine that is less busy."""
        return all(o.status != "not judged" for o in self.outcomes)


class Builder:
    """Compiles P4 programs in a confined process, each once per set of parameters; one that has
    errors is not tried again."""

    def __init__(self, lab: Lab, scratch: Path) -> None:
        self.lab, self.scratch = lab, scratch
        self.warnings: list[str] = []
        self._made: dict[tuple, str] = {}
        self._broken: dict[str, Broken] = {}

    def __call__(self, program: str, defines: dict[str, int], trace: bool) -> str:
        """The key of the compiled program. Raises Broken for one that has errors."""
        if program in self._broken:
            raise self._broken[program]
        wanted = (program, *sorted(defines.items()), trace)
        if wanted not in self._made:
            try:
                self._made[wanted] = self._compile(program, defines, trace)
            except BoxError as error:
                text = str(error) if isinstance(error, Refused) else f"while compiling, {error}"
                self._broken[program] = Broken(f"{program} does not compile\n{text}")
                raise self._broken[program] from None
        return self._made[wanted]

    def _compile(self, program: str, defines: dict[str, int], trace: bool) -> str:
        with Box("compile", self.scratch, COMPILE_S) as box:
            key, warnings = box.call("compile", program, defines, trace, limit_s=COMPILE_S)
        self.warnings = list(dict.fromkeys([*self.warnings, *map(str, warnings)]))
        return str(key)


class Switches:
    """The process that holds the submission's switches.

    One serves all checks, since each makes switches of its own and starting a process takes longer
    than most checks; after one that it did not survive there is a new one. With `wires` it is the
    network's switch.
    """

    def __init__(self, scratch: Path, wires: Wires | None = None) -> None:
        self.scratch, self.wires = scratch, wires
        self._box: Box | None = None

    def __call__(self) -> Box:
        if self._box is None or not self._box.alive:
            if self.wires is None:
                self._box = Box("switch", self.scratch, SUBMISSION_S)
            else:
                at = self.wires.namespace
                self._box = Box("network", self.scratch, SUBMISSION_S, namespace=at)
        return self._box

    def unload(self) -> None:
        """Forget the switches of the last check."""
        try:
            if self._box is not None and self._box.alive:
                self._box.call("unload")
        except (BoxError, NotJudged):
            pass  # it has not survived that; the next check gets a new one

    def close(self) -> None:
        if self._box is not None:
            self._box.close()


def prepare(scratch: Path) -> None:
    """Put what every P4 program needs into the scratch folder's cache."""
    cache = scratch / "cache"
    cache.mkdir()
    if not share_runtime(cache):
        compile_program(SMALL)
        share_runtime(cache)
    hand_over(cache)


def grade(
    lab: Lab,
    folder: Path,
    seed: Seed = PRACTICE,
    trace: bool = False,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    network: bool = False,
) -> Grade:
    """Grade the submission in `folder`.

    Args:
        seed: of what the checks send. If it is hidden, no line of the result tells a value.
        trace: follow the first packet that differs of each failed check through the program.
        progress: called with each outcome.
        network: play the checks on Mininet, but for those that have no switch or need virtual time.

    Raises UserError where there can be no network, no sandbox for submissions, or where a part of
    the lab is not here: the testbed, or with hidden numbers the teacher's part.
    """
    if seed.hidden and lab.judged and lab.judge() is None:
        raise UserError(
            f"{lab.name}: hidden numbers need the teacher's part, labs/_teacher, which is not here"
            " (python -m labs export --with-teacher makes a kit that has it)"
        )
    if lab.testbed and importlib.util.find_spec("testbed") is None:
        raise UserError(
            f"{lab.name} runs experiments, which needs the whole testbed; grade it in a checkout of"
            " the testbed, or in a kit made by: python -m labs export --with-testbed"
        )
    seccomp.library()
    sandbox.require()
    begin = time.monotonic()
    made = Grade(lab, [])
    if network:
        refuse()
    with _Grading(made, seed, trace, network) as grading:
        try:
            grading.prepare(folder)
            for check in lab.checks:
                outcome = grading.run(check)
                made.outcomes.append(outcome)
                progress(outcome)
        except Unusable as error:
            made.problem = str(error)
            made.outcomes = [Outcome(check, "not run") for check in lab.checks]
    made.seconds = time.monotonic() - begin
    return made


class _Grading:
    """Things that the checks of one submission share: folders, compiled programs, processes, a
    network."""

    def __init__(self, made: Grade, seed: Seed, trace: bool, network: bool) -> None:
        self.made, self.lab = made, made.lab
        self.seed, self.network = seed, network
        self.trace = trace and not seed.hidden
        self.key = ""
        self.used_s = 0.0  # processor time of all checks
        self.scratch = scratch_folder()
        self.builder = Builder(self.lab, self.scratch)
        self.switches = Switches(self.scratch)
        self.wires: Wires | None = None
        self.node = self.switches
        self._modules: dict[str, Broken] = {}  # that cannot be imported
        self._logs: Path | None = None

    def __enter__(self) -> _Grading:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.node, self.switches, self.wires):
            if each is not None:
                each.close()
        for folder in (self.scratch, self._logs):
            if folder is not None:
                remove(folder)

    def prepare(self, folder: Path) -> None:
        """Take over the submission's files, and build the network. Raises Unusable."""
        collect(self.lab, folder, self.scratch / "source", self.seed.student)
        self.key = self.seed.key(self.lab.name)
        if self.lab.program or self.lab.switch:
            prepare(self.scratch)
        if self.network and self.lab.program:
            self._logs = scratch_folder()  # no submission can reach that one
            self.wires = Wires(self.lab.ports, self._logs / "network")
            self.node = Switches(self.scratch, self.wires)

    def run(self, check: Check) -> Outcome:
        """Run one check."""
        begin = time.monotonic()
        if self.used_s >= self.lab.seconds:
            text = f"all {self.lab.seconds:g} s of computing for a submission are used up"
            return Outcome(check, "not run", [text])
        bench = self._bench(check)
        outcome = self._run_check(check, bench)
        self.used_s += bench.used_s
        if not self.seed.hidden:
            if outcome.status == "fail":
                outcome.lines += [f"log: {text}" for text in bench.log[:5]]
            outcome.notes = bench.notes
            outcome.printed = bench.printed()
        outcome.seconds, outcome.score = time.monotonic() - begin, bench.score
        if self.network:
            outcome.played = _network_counts(bench)
        self.made.warnings = self.builder.warnings
        for each in {self.switches, self.node}:
            each.unload()
        return outcome

    def _bench(self, check: Check) -> Bench:
        key = self.seed.common_key(self.lab.name) if check.common else self.key
        stream = Stream(f"{self.lab.name}/{check.name}/{key}")
        wires = None if check.virtual else self.wires
        bench = Bench(
            self.lab,
            self.scratch,
            stream,
            self.builder,
            self.switches,
            check.limit_s,
            self.trace,
            wires,
            self.node,
            self._modules,
            self.seed.student,
        )
        return bench

    def _run_check(self, check: Check, bench: Bench) -> Outcome:
        outcome = Outcome(check, "pass")
        try:
            check.run(bench)
        except Failure as failure:
            hidden = self.seed.hidden
            outcome.status, outcome.share = "fail", bench.share
            outcome.lines = failure.hidden_lines(bench.case) if hidden else failure.lines()
            outcome.trace = [] if hidden else fold(bench.trace_lines)
        except Broken as error:
            outcome.status = "not run"
            if str(error) not in self.made.problem:
                self.made.problem = f"{self.made.problem}\n{error}".strip()
        except BoxError as error:
            text = plain(str(error)) if self.seed.hidden else str(error)
            outcome.status, outcome.lines = "fail", [text]
        except NotJudged as error:
            outcome.status, outcome.lines = "not judged", [str(error)]
        except UserError:
            raise
        except Exception as error:  # the check trips over what it gets, which may be anything
            what = "sends" if self.lab.program and not bench.modules else "returns"
            text = f"the test cannot use what your program {what}"
            if not self.seed.hidden:
                text += f": {type(error).__name__}: {error}"
            outcome.status, outcome.lines = "fail", [text]
        finally:
            bench.close()
        return outcome


def _network_counts(bench: Bench) -> str:
    """The place where a check was carried out, for somebody who has asked for a network."""
    if bench.wired is not None:
        sent, captured = bench.carried
        return f"on the network: hosts sent {sent} packets and captured {captured}"
    return "without the network, in virtual time" if bench.virtual else "has no switch"
