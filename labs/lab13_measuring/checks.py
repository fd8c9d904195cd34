"""Checks of lab 13: a fair comparison, numbers with their intervals, and what explains them.

The grader runs the submission's experiment file itself, in virtual time, and once more the
student's setting with seeds that nobody knows.
"""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from p4engine.module_start import module_command, module_path
from scipy import stats

from labs.grader.bench import Bench, Failure
from labs.grader.box import NotJudged
from labs.grader.lab import LABS, Lab
from labs.lab13_measuring.setting import (
    BASELINE,
    MIN_REPETITIONS,
    SYSTEMS,
    Setting,
    draw,
    files,
)

LAB = Lab(
    title="Measuring",
    hand_in=("experiment.yaml", "answers.yaml", "report.md"),
    given=("setting.yaml",),
    personal=files,
    testbed=True,
    judged=True,
)
DRIVER = "labs.lab13_measuring.driver"
EXACT = 0.01  # of a number: what rounding may change
EXACT_INTERVAL = 0.1  # of a half width
LEVEL = 0.95
CLOSE = 0.05  # of a rank correlation
PANELS = ("jct", "jct_ratio", "ps_packets_per_fragment")
BANDS = (0.02, 0.1, 0.5)  # in which a message says how far off a number is
VERDICTS = ("slower", "faster", "undecided")
LIMITS = ("communication", "computation")
MEASURES: dict[str, Callable[[dict], float]] = {
    "ps_packets": lambda row: row["ps_packets"],
    "retransmissions": lambda row: row["retransmissions"],
    "computation": lambda row: sum(row["computing"].values()),
    "bound": lambda row: sum(row["sending"].values()),
}


@dataclass(frozen=True)
class Estimate:
    """A mean over repetitions, and half of the width of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.half:.2g}"

    @property
    def verdict(self) -> str:
        """A ratio to the baseline's JCT, in words."""
        if self.mean - self.half > 1:
            return "slower"
        return "faster" if self.mean + self.half < 1 else "undecided"


def estimate(values: list[float]) -> Estimate:
    """Of a sample; Student's t."""
    if len(values) < 2:
        return Estimate(values[0], math.inf)
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * stats.sem(values)
    return Estimate(float(np.mean(values)), float(half))


class Measured:
    """The driver's answer about an experiment file."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.points, self.figure = made["points"], made["figure"]
        self.rows, self.answers, self.mistake = made["rows"], made["answers"], made["mistake"]

    def samples(self, system: str, size: int) -> list[dict]:
        """The rows of a point. Raises Failure where there is none."""
        rows = [r for r in self.rows if (r["system"], r["aggregators"]) == (system, size)]
        if not rows:
            text = "the sweep leaves out a system or a size of your setting"
            raise Failure(f"{text}: {system} with {size} aggregators", case=text)
        return rows

    def jct_us(self, system: str, size: int) -> Estimate:
        return estimate([row["jct_ns"] / 1000 for row in self.samples(system, size)])

    def ratio(self, system: str, size: int) -> Estimate:
        """JCT relative to the baseline's with the same seed."""
        pairs = zip(self.samples(system, size), self.samples(BASELINE, size), strict=False)
        return estimate([a["jct_ns"] / b["jct_ns"] for a, b in pairs])


@functools.lru_cache(maxsize=64)
def driven(request: str) -> str:
    """The driver's answer to a request, as JSON. Raises NotJudged."""
    from testbed.paths import import_path

    command = module_command(DRIVER, os.getpid())
    path = module_path(str(LABS.parent), environment={"PYTHONPATH": import_path()})
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        command, input=request, capture_output=True, text=True, cwd=LABS.parent, env=environment
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return json.dumps({"problem": f"the experiment cannot be run: {lines[-1]}"})
    if "busy" in json.loads(done.stdout):
        raise NotJudged(json.loads(done.stdout)["busy"])
    return done.stdout


def _made(t: Bench, experiment: str, answers: str | None = None) -> Measured:
    """An experiment, run, and its answers: two requests, so that other answers do not run it
    again."""
    request = {"experiment": experiment, "setting": draw(t.student).as_data()}
    made = json.loads(driven(json.dumps(request)))
    if "problem" in made:
        text = "experiment.yaml cannot be run"
        raise Failure(text, details=made["problem"].splitlines(), case=text)
    read: dict[str, Any] = {"answers": None, "mistake": ""}
    if answers is not None:
        read = json.loads(driven(json.dumps({"answers": answers})))
        if "problem" in read:
            text = "answers.yaml cannot be read"
            raise Failure(text, details=read["problem"].splitlines(), case=text)
    return Measured(made | read)


def handed_in(t: Bench) -> Measured:
    """The submission's experiment, run. Raises Failure where it cannot be run, or is not about the
    student's setting."""
    made = _made(t, t.read("experiment.yaml"), t.read("answers.yaml"))
    base = [p for p in made.points if p["system"] == BASELINE and p["known"]]
    wrong = [key for point in base for key in point["differs"]]
    if wrong or not base:
        text = "the experiment is not about your setting"
        told = f": {BASELINE} has other {', '.join(dict.fromkeys(wrong))}" if wrong else ""
        raise Failure(f"{text}{told}", case=text)
    return made


@LAB.check(5, "The experiment file can be run, and is about your setting")
def runs(t: Bench) -> None:
    made = handed_in(t)
    t.note(f"{len(made.rows)} runs, each point with each seed")


@LAB.check(15, "All systems have the same jobs, workers and network, with every size of the memory")
def fair(t: Bench) -> None:
    made, setting = handed_in(t), draw(t.student)
    for point in made.points:
        where = f"{point['system']} with {point['aggregators']} aggregators"
        if not point["known"]:
            text = "the sweep has a point that is not of your setting"
            raise Failure(f"{text}: {where}", case=text)
        if point["differs"]:
            text = "systems are not compared under equal conditions"
            names = ", ".join(point["differs"])
            raise Failure(f"{text}: {where} has other {names}", case=f"{text}: {names}")
    for system in SYSTEMS:
        for size in setting.aggregators:
            made.samples(system, size)


@LAB.check(10, "There are enough repetitions for an interval")
def seeds(t: Bench) -> None:
    made = handed_in(t)
    few = [p for p in made.points if p["repetitions"] < MIN_REPETITIONS]
    if few:
        text = f"there are fewer than {MIN_REPETITIONS} repetitions"
        raise Failure(text, case=text)


@LAB.check(10, "The figure shows the measures over the size of the memory")
def figure(t: Bench) -> None:
    drawn = handed_in(t).figure
    if drawn is None:
        text = "experiment.yaml has no key figure"
    elif drawn["x"] != "memory.aggregators":
        text = "the figure's x axis is not the number of aggregators"
    elif missing := [name for name in PANELS if name not in drawn["panels"]]:
        text = f"the figure has no panel {', '.join(missing)}"
    elif drawn["against"].lower() != BASELINE:
        text = "the figure's ratios are not relative to ESA"
    else:
        return
    raise Failure(text, case=text)


class Answers:
    """answers.yaml. Every access to what is not there is a Failure."""

    def __init__(self, made: Measured) -> None:
        if made.mistake or not isinstance(made.answers, dict):
            text = "answers.yaml cannot be read"
            raise Failure(text, details=made.mistake.splitlines(), case=text)
        self.data = made.answers

    def value(self, *keys: str) -> Any:
        found: Any = self.data
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            text = "an answer is missing"
            raise Failure(f"{text}: {'.'.join(keys)}", case=text)
        return found

    def number(self, *keys: str) -> float:
        found = self.value(*keys)
        if type(found) not in (int, float) or not 0 <= found < 1e12:
            text = "an answer is no number"
            raise Failure(f"{text}: {'.'.join(keys)} is {found!r}"[:200], case=text)
        return float(found)

    def estimate(self, *keys: str) -> Estimate:
        return Estimate(self.number(*keys, "mean"), self.number(*keys, "half_width"))

    def word(self, allowed: tuple[str, ...], *keys: str) -> str:
        found = self.value(*keys)
        if found not in allowed or not isinstance(found, str):
            text = "an answer is none of those to choose from"
            raise Failure(f"{text}: {'.'.join(keys)} is {found!r}"[:200], case=text)
        return found


def band(said: float, right: float) -> str:
    """Band of a number's error: so that a mistake can be found, and the right number cannot."""
    far = abs(said - right) / right if right else math.inf
    for low, high in zip((0.0, *BANDS), BANDS, strict=False):
        if far < high:
            return f"by {low:.0%} to {high:.0%}" if low else f"by less than {high:.0%}"
    return f"by more than {BANDS[-1]:.0%}"


def same(name: str, said: Estimate, found: Estimate) -> None:
    """Raises Failure for a number that the experiment does not give, which it does not tell."""
    if abs(said.mean - found.mean) > EXACT * found.mean:
        what, one, two = "mean", said.mean, found.mean
    elif not abs(said.half - found.half) <= EXACT_INTERVAL * found.half:
        what, one, two = "half width", said.half, found.half
    else:
        return
    text = f"a {what} is not what your experiment gives"
    raise Failure(f"{text}: {name}, {one:.5g}, is off {band(one, two)}", case=text)


@LAB.check(20, "The numbers in the answers are those of the experiment")
def numbers(t: Bench) -> None:
    made, setting = handed_in(t), draw(t.student)
    answers = Answers(made)
    for size in setting.aggregators:
        for system in SYSTEMS:
            at = (f"aggregators_{size}", system)
            same(
                f"the JCT of {system} with {size} aggregators",
                answers.estimate(*at, "jct_us"),
                made.jct_us(system, size),
            )
            if system != BASELINE:
                same(
                    f"the ratio of {system} with {size} aggregators",
                    answers.estimate(*at, "ratio"),
                    made.ratio(system, size),
                )


@LAB.check(10, "Ratios and verdicts hold with other seeds")
def holds(t: Bench) -> None:
    made, setting = handed_in(t), draw(t.student)
    answers = Answers(made)
    size, seed = t.random.choice(setting.aggregators[:2]), t.random.randrange(10**6, 10**9)
    text = setting.experiment(seed, MIN_REPETITIONS, (size,), SYSTEMS)
    hidden = _made(t, text)
    for each in setting.aggregators:
        for system in SYSTEMS:
            if system == BASELINE:
                continue
            at = (f"aggregators_{each}", system)
            said = answers.estimate(*at, "ratio")
            t.case = "the verdict and the interval beside it"
            if answers.word(VERDICTS, *at, "verdict") != said.verdict:
                text = "a verdict is not what its interval says"
                raise Failure(f"{text}: {system} with {each} aggregators", case=text)
            if each != size:
                continue
            t.case = "other seeds"
            other = hidden.ratio(system, size)
            room = 2 * (min(said.half, 0.1) + other.half) + 0.02
            if abs(said.mean - other.mean) > room:
                text = "a ratio does not hold with other seeds"
                far = band(said.mean, other.mean)
                told = f"{system} with {size} aggregators is off {far}"
                raise Failure(f"{text}: {told}", case=text)


@LAB.check(10, "The explanation agrees with the measurements")
def explained(t: Bench) -> None:
    made, setting = handed_in(t), draw(t.student)
    answers = Answers(made)
    t.case = "which measure goes with the JCT"
    said = answers.word(tuple(MEASURES), "explanation", "measure")
    ranks = correlations(made, setting)
    if ranks[said] < max(ranks.values()) - CLOSE:
        text = "another measure goes with the JCT more closely"
        raise Failure(f"{text} than {said}", case=text)
    t.case = "what limits the jobs"
    row = made.samples(BASELINE, setting.aggregators[-1])[0]
    for job, computing in row["computing"].items():
        right = LIMITS[computing > row["sending"][job]]
        if answers.word(LIMITS, "explanation", "limits", job) != right:
            text = "what limits one of the jobs is something else"
            raise Failure(text, case=text)
    t.case = "the puzzle"
    found, judge = answers.number("explanation", "packets"), LAB.judge()
    if judge is None:
        t.note("your teacher's grader has the puzzle's answer, this one has not")
    elif found != judge.packets(setting.puzzle):
        text = "the number of packets at the PS is another one"
        raise Failure(text, case=text)


def correlations(made: Measured, setting: Setting) -> dict[str, float]:
    """Of each measure: how well it puts the points of ESA and ATP into the order of their JCT
    (Spearman; 0 for one that is the same everywhere)."""
    points = [made.samples(s, size) for s in SYSTEMS[:2] for size in setting.aggregators]
    jct = [np.mean([row["jct_ns"] for row in rows]) for rows in points]
    ranks = {}
    for name, measure in MEASURES.items():
        means = [float(np.mean([measure(row) for row in rows])) for rows in points]
        same_everywhere = max(means) - min(means) <= 1e-9 * max(means)
        ranks[name] = 0.0 if same_everywhere else float(stats.spearmanr(means, jct).statistic)
    return ranks
