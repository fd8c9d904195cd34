"""Grading one submission: all checks of a lab, each in processes of its own, within a time limit.

Nothing that a submission does may keep the grader from giving a result for it: what does not
compile, hangs or crashes gets no points for the checks concerned, with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from labs.grader.bench import Bench, Broken
from labs.grader.box import Box, BoxError, Refused, remove, scratch_folder
from labs.grader.failure import Failure
from labs.grader.lab import Check, Lab
from labs.grader.submission import Unusable, collect
from testbed.p4engine.build import compile_program, share_runtime

# What a check trips over when a submission returns something of another shape than agreed.
UNUSABLE = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
SUBMISSION_S = 60.0  # hard limit for all checks together
COMPILE_S = 30.0
COMPILERS = "testbed.p4engine.build testbed.p4engine.codegen testbed.p4engine.parser"
SWITCHES = "testbed.p4engine.library testbed.p4engine.build testbed.p4engine.trace_text"
SMALL = Path(__file__).with_name("small.p4")  # compiled once, so that the runtime is in the cache


@dataclass
class Outcome:
    """What became of one check. `status`: "pass", "fail" or "not run"."""

    check: Check
    status: str
    lines: list[str] = field(default_factory=list)  # why
    trace: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    printed: str = ""
    seconds: float = 0.0

    @property
    def points(self) -> int:
        return self.check.points if self.status == "pass" else 0


@dataclass
class Grade:
    """A submission's grade."""

    lab: Lab
    outcomes: list[Outcome]
    problem: str = ""  # why nothing could be run
    gaps: list[str] = field(default_factory=list)  # what this machine does not protect
    warnings: list[str] = field(default_factory=list)  # of the compiler
    seconds: float = 0.0

    @property
    def points(self) -> int:
        return sum(o.points for o in self.outcomes)


class Builder:
    """Compiles P4 programs in a confined process, each once per set of parameters."""

    def __init__(self, lab: Lab, scratch: Path, deadline: float) -> None:
        self.lab, self.scratch, self.deadline = lab, scratch, deadline
        self.warnings: list[str] = []
        self.gaps: list[str] = []
        self._made: dict[tuple, str | Broken] = {}

    def __call__(self, program: str, defines: dict[str, int], trace: bool) -> str:
        """The key of the compiled program. Raises Broken for one that has errors."""
        wanted = (program, *sorted(defines.items()), trace)
        if wanted not in self._made:
            try:
                self._made[wanted] = self._compile(program, defines, trace)
            except BoxError as error:
                text = str(error) if isinstance(error, Refused) else f"while compiling, {error}"
                self._made[wanted] = Broken(f"{program} does not compile\n{text}")
        made = self._made[wanted]
        if isinstance(made, Broken):
            raise made
        return made

    def _compile(self, program: str, defines: dict[str, int], trace: bool) -> str:
        left = max(0.1, self.deadline - time.monotonic())
        with Box("compile", self.scratch, COMPILE_S, COMPILERS) as box:
            self.gaps = box.walls.gaps()
            key, warnings = box.call(
                "compile", program, defines, trace, limit_s=COMPILE_S, clock_s=left
            )
        self.warnings = list(dict.fromkeys([*self.warnings, *map(str, warnings)]))
        return str(key)


class Switches:
    """The process that holds the submission's switches.

    One serves all checks, since each makes switches of its own and starting a process takes longer
    than most checks; after one that it did not survive there is a new one.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._box: Box | None = None

    def __call__(self) -> Box:
        if self._box is None or not self._box.alive:
            self._box = Box("run", self.scratch, SUBMISSION_S, SWITCHES)
        return self._box

    def unload(self) -> None:
        """Forget the switches of the last check."""
        try:
            if self._box is not None and self._box.alive:
                self._box.call("unload")
        except BoxError:
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


def grade(
    lab: Lab,
    folder: Path,
    seed: int = 0,
    trace: bool = False,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    patience: float = 1.0,
) -> Grade:
    """Grade the submission in `folder`.

    Args:
        seed: of what the checks send. No submission can know it.
        trace: follow the first packet that differs of each failed check through the program.
        progress: called with each outcome.
        patience: factor for all limits on the clock, for machines that are busy with other things;
            those in CPU time stay.
    """
    begin = time.monotonic()
    scratch = scratch_folder()
    made = Grade(lab, [])
    switches = Switches(scratch)
    try:
        collect(lab, folder, scratch / "source")
        if lab.program:
            prepare(scratch)
        builder = Builder(lab, scratch, begin + SUBMISSION_S * patience)
        for check in lab.checks:
            if made.problem:
                outcome = Outcome(check, "not run")
            elif time.monotonic() > builder.deadline:
                limit = f"{SUBMISSION_S * patience:g} s"
                outcome = Outcome(check, "not run", [f"all {limit} for a submission are used up"])
            else:
                outcome = _run(check, made, scratch, builder, switches, seed, trace, patience)
                switches.unload()
            made.outcomes.append(outcome)
            progress(outcome)
        made.warnings = builder.warnings
        made.gaps = made.gaps or builder.gaps
    except Unusable as error:
        made.problem = str(error)
        made.outcomes = [Outcome(check, "not run") for check in lab.checks]
    finally:
        switches.close()
        remove(scratch)
    made.seconds = time.monotonic() - begin
    return made


def _run(
    check: Check,
    made: Grade,
    scratch: Path,
    builder: Builder,
    switches: Switches,
    seed: int,
    trace: bool,
    patience: float,
) -> Outcome:
    """Run one check."""

    def build(program: str, defines: dict[str, int], traced: bool) -> str:
        """Compiling does not count as the check's time."""
        start = time.monotonic()
        try:
            return builder(program, defines, traced)
        finally:
            bench.deadline += time.monotonic() - start

    begin, lab = time.monotonic(), made.lab
    key = f"{lab.name}/{check.name}/{seed}"
    deadline = min(begin + check.limit_s * patience, builder.deadline)
    bench = Bench(lab, scratch, key, build, switches, deadline, trace)
    outcome = Outcome(check, "pass")
    try:
        check.run(bench)
    except Failure as failure:
        outcome.status, outcome.lines = "fail", failure.lines()
        outcome.trace = bench.trace_lines
    except Broken as error:
        outcome.status, made.problem = "not run", str(error)
    except BoxError as error:
        outcome.status, outcome.lines = "fail", [str(error)]
    except UNUSABLE as error:
        outcome.status = "fail"
        outcome.lines = [f"the test cannot use what your program returns ({error})"]
    finally:
        bench.close()
    outcome.lines += [f"log: {text}" for text in bench.log[:5]] if outcome.status == "fail" else []
    outcome.notes = bench.notes
    outcome.printed = bench.printed()
    outcome.seconds = time.monotonic() - begin
    made.gaps = made.gaps or bench.gaps
    return outcome
