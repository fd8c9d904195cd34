"""Further runs that show whether a verdict holds: its settings are varied, but not its question.

    robust: {runs: 32}      # in a file with a sweep; or `ina sweep FILE --robust`

Points of a sweep that differ in nothing but their system are a comparison. When they have finished,
their systems run again with one thing changed at a time (FACTORS), then with several at once, drawn
by a Latin hypercube: each of its runs has every factor, and a factor's values are spread evenly
over them. What was tuned keeps its value. A run is found by its identity, as a point is, and is not
repeated. The systems of a comparison always get the same change.

There are at most `runs` further runs. If they do not suffice for all comparisons of a sweep, some
of them are varied, evenly spread from the first to the last. analysis/data/robust_data.py reads
what this module notes in the sweep's file, and words the verdict.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.units import PACKETS, TIME, FieldError, parse, show
from p4fabric.base.config.yaml_document import Document
from p4fabric.base.errors import UserError

from testbed.experiment.load import load_document
from testbed.experiment.sweep_file import Point, Sweep, shown
from testbed.results import find, read
from testbed.schemes import set_up
from testbed.sweeps.trials import SEEDS, seeds_of
from testbed.systems.tuned_options import Values as Data  # a resolved experiment as a file has it

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.setup import Setup

SYSTEM = "system"
AT_ONCE = 2  # the fewest runs of each system with several changes
TOGETHER = "several at once"
LONGEST_NS = 10**9


class NotHere(Exception):
    """A factor does not apply to an experiment; the message says why."""


@dataclass(frozen=True)
class Level:
    """A change of one factor. text: its value; number: in base units, where it is one; base: the
    comparison's own, as text and number."""

    factor: str
    text: str
    change: Callable[[Data], None]
    number: float | None = None
    base: tuple[str, float] | None = None


@dataclass(frozen=True)
class Varied:
    """A further run. of: the key of the sweep's point that it varies."""

    of: str
    point: Point
    level: Level

    def as_data(self) -> Data:
        level = self.level
        said = {"factor": level.factor, "text": level.text, "number": level.number}
        text, number = level.base or ("", None)
        base = {"base_text": text, "base_number": number}
        return {"of": self.of, "key": self.point.key, **said, **base}


@dataclass(frozen=True)
class Plan:
    """Further runs. left_out: (factor, reason) of what is not varied. compared: the keys of the
    points of each comparison that is, of `comparisons` that the sweep has."""

    runs: tuple[Varied, ...]
    left_out: tuple[tuple[str, str], ...]
    compared: tuple[tuple[str, ...], ...]
    comparisons: int

    def as_data(self) -> Data:
        """For the sweep's file."""
        return {
            "runs": [each.as_data() for each in self.runs],
            "left_out": [list(each) for each in self.left_out],
            "compared": [list(each) for each in self.compared],
            "comparisons": self.comparisons,
        }


def plan_of(sweep: Sweep, folder: Path, most: int) -> Plan:
    """The further runs of a sweep in `folder`, whose points have finished. Raises UserError if
    there is nothing to compare, or `most` runs do not suffice for one change."""
    groups: dict[str, list[Point]] = {}
    for point in sweep.points:
        rest = {key: shown(value) for key, value in point.values.items() if key != SYSTEM}
        if any(read(run).finished for run in find(folder / point.key)):
            groups.setdefault(json.dumps(rest), []).append(point)
    compared = [group for group in groups.values() if len(group) > 1]
    if not compared:
        raise UserError(
            f"robust: the sweep {sweep.name} has no finished points that differ in nothing but"
            f" their {SYSTEM}; vary {SYSTEM}, or take robust out"
        )
    size = max(map(len, compared))
    if most < size:
        raise UserError(f"robust: {most} runs; allowed: at least {size}, one for each system")
    count = max(1, min(len(compared), most // (size * (len(FACTORS) + AT_ONCE))))
    places = {round(n * (len(compared) - 1) / max(1, count - 1)) for n in range(count)}
    chosen = [compared[place] for place in sorted(places)]
    runs: list[Varied] = []
    left_out: dict[tuple[str, str], None] = {}
    for group in chosen:
        made, without = _of_comparison(group, folder, most // len(chosen) // len(group))
        runs += made
        left_out |= dict.fromkeys(without)
    keys = tuple(tuple(point.key for point in group) for group in chosen)
    return Plan(tuple(runs), tuple(left_out), keys, len(compared))


def _of_comparison(
    group: Sequence[Point], folder: Path, most: int
) -> tuple[list[Varied], list[tuple[str, str]]]:
    """Runs with at most `most` changes of these points."""
    from testbed.analysis.data.robust_data import TOO_FEW  # it needs pandas

    last = [[run for run in map(read, find(folder / p.key)) if run.finished][-1] for p in group]
    described = [run.experiment for run in last]
    first = _loaded(described[0], last[0].folder)
    setup, levels, left_out = set_up(first), [], []
    for name, factor in FACTORS.items():
        try:
            found = [*factor(described[0], setup)]
            for level in found:  # each system must allow it
                for data in described:
                    _changed(data, [level])
            levels.append(found)
        except NotHere as reason:
            left_out.append((name, str(reason)))
        except UserError as error:
            left_out.append((name, str(error).splitlines()[-1].strip()))
    rounds = max(map(len, levels), default=0)
    ordered = [found[n] for n in range(rounds) for found in levels if n < len(found)]
    alone = ordered[: max(0, most - AT_ONCE) if most > len(levels) + AT_ONCE else most]
    for level in (level for found in levels for level in found if level not in alone):
        others = any(each.factor == level.factor for each in alone)
        name = f"{level.factor} {level.text}" if others else level.factor
        left_out.append((name, TOO_FEW))
    left_out = [*dict.fromkeys(left_out)]
    several = _hypercube(levels, most - len(alone), first.seed) if len(levels) > 1 else []
    made = []
    for level in [*alone, *several]:
        for point, data in zip(group, described, strict=True):
            experiment = _changed(data, [level])
            values = {**point.values, level.factor: level.text}
            made.append(Varied(point.key, Point(values, experiment), level))
    return made, left_out


def _hypercube(levels: Sequence[Sequence[Level]], count: int, seed: int) -> Iterator[Level]:
    """Changes of all factors at once: the places of a factor's values, with that of the comparison
    itself among them, are spread evenly over `count` runs, in a drawn order."""
    drawn = random.Random(f"robust {seed}")
    columns = []
    for found in levels:
        values = [None, *found]
        spread = [values[(2 * n + 1) * len(values) // (2 * count)] for n in range(count)]
        drawn.shuffle(spread)
        columns.append(spread)
    for row in zip(*columns, strict=True):
        changes = [level for level in row if level is not None]
        text = ", ".join(f"{level.factor} {level.text}" for level in changes) or "as it is"

        def change(data: Data, changes: Sequence[Level] = tuple(changes)) -> None:
            for level in changes:
                level.change(data)

        yield Level(TOGETHER, text, change)


def _changed(data: Data, levels: Sequence[Level]) -> Experiment:
    """The experiment with changes. Raises UserError if there is no such one."""
    made = json.loads(json.dumps(data))
    made["repetitions"] = 1  # compared with the same seed of another system
    for level in levels:
        level.change(made)
    return _loaded(made, Path("/"))


def _loaded(data: Data, folder: Path) -> Experiment:
    return load_document(Document(data), "robust", folder, "robust")


# -- factors: the levels of each, from an experiment's data and set-up


def _time(section: Data, key: str) -> int:
    return int(parse(section[key], TIME, 0, LONGEST_NS))


def _of_hosts(data: Data, key: str) -> Data:
    if data["runtime"] != "virtual":
        raise NotHere("on Mininet hosts take the time that they take")
    return {role: _time(data["virtual"], f"{role}_{key}") for role in ("worker", "server")}


def _delay(data: Data, setup: Setup) -> Iterator[Level]:
    delays, jitters = _of_hosts(data, "delay"), _of_hosts(data, "jitter")
    if not delays["worker"]:
        raise NotHere("hosts have no delay (virtual.worker_delay)")
    for times in (Fraction(1, 4), Fraction(2)):

        def change(data: Data, times: Fraction = times) -> None:
            for role, delay_ns in delays.items():
                data["virtual"][f"{role}_delay"] = f"{int(delay_ns * times)} ns"
                data["virtual"][f"{role}_jitter"] = f"{int(jitters[role] * times)} ns"

        delay_ns, base_ns = int(delays["worker"] * times), delays["worker"]
        base = (show(base_ns, TIME), base_ns)
        yield Level("host delay", show(delay_ns, TIME), change, delay_ns, base)


def _jitter(data: Data, setup: Setup) -> Iterator[Level]:
    delays, jitters = _of_hosts(data, "delay"), _of_hosts(data, "jitter")
    for share in (0, 1):
        if any(jitters[role] != share * delay_ns for role, delay_ns in delays.items()):

            def change(data: Data, share: int = share) -> None:
                for role in delays:
                    data["virtual"][f"{role}_jitter"] = (
                        data["virtual"][f"{role}_delay"] if share else 0
                    )

            text = "as long as the delay" if share else "none"
            yield Level("host jitter", text, change)


def _several_jobs(data: Data) -> int:
    if "arrivals" in data:
        raise NotHere("jobs come and go as the seed draws them")
    if len(data["jobs"]) < 2:
        raise NotHere("there is one job")
    return len(data["jobs"])


def _phase(data: Data, setup: Setup) -> Iterator[Level]:
    count = _several_jobs(data)
    length_ns = max(job.bound_ns or job.communication_ns for job in setup.jobs.values())
    drawn = random.Random(f"phase {data['seed']}")
    shares = [drawn.random() for _ in range(count)]

    def change(data: Data) -> None:
        for job, share in zip(data["jobs"], shares, strict=True):
            job["start"] = f"{_time(job, 'start') + int(share * length_ns)} ns"

    yield Level("phase of jobs", "drawn", change)


def _order(data: Data, setup: Setup) -> Iterator[Level]:
    _several_jobs(data)
    if data["faults"]:
        raise NotHere("faults name jobs")

    def change(data: Data) -> None:
        data["jobs"].reverse()
        for number, job in enumerate(data["jobs"]):
            job["name"] = f"job-{number}"

    yield Level("names and order of jobs", "reversed", change)


def _scale(data: Data, setup: Setup) -> Iterator[Level]:
    if "arrivals" in data:
        raise NotHere("jobs come and go, and their times would change their meetings")
    if any("command" in job for job in data["jobs"]):
        raise NotHere("programs have sizes of their own")
    base = data["jobs"][0]["scale"]
    for times in (0.5, 2.0):

        def change(data: Data, times: float = times) -> None:
            for job in data["jobs"]:
                for key in ("scale", "compute_scale"):
                    if key in job:
                        job[key] *= times

        yield Level("scale", f"{times * base:g}", change, times * base, (f"{base:g}", base))


def _queue(data: Data, setup: Setup) -> Iterator[Level]:
    links = data["links"]
    if links["bandwidth"] == "unlimited":
        raise NotHere("links have no bandwidth, so they have no queues")
    base = int(parse(links["queue"], PACKETS, 1, 10**9))
    for packets in (max(1, base // 2), 2 * base):

        def change(data: Data, usual: int = packets) -> None:
            for section in _sections(data["links"]):
                own = usual
                if "queue" in section:
                    own = int(parse(section["queue"], PACKETS, 1, 10**9) * usual / base) or 1
                    section["queue"] = f"{own} packets"
                with contextlib.suppress(FieldError, KeyError):  # a word
                    mark = int(parse(section["ecn_threshold"], PACKETS, 0, 10**9))
                    section["ecn_threshold"] = f"{min(mark, own)} packets"

        own = (f"{base} packets", base)
        yield Level("queue length", f"{packets} packets", change, packets, own)


def _sections(part: Data | list) -> Iterator[Data]:
    """All mappings in some data."""
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part:
        if isinstance(each, dict | list):
            yield from _sections(each)


def _window(data: Data, setup: Setup) -> Iterator[Level]:
    if "window" not in data[SYSTEM]:
        raise NotHere(f"{data[SYSTEM]['name']} has no window")
    if not setup.jobs:
        raise NotHere("jobs come and go, and their windows are not known before")
    for text, times in (("twice", Fraction(2)), ("half", Fraction(1, 2))):

        def change(data: Data, times: Fraction = times) -> None:
            windows = [job.window for job in set_up(_loaded(data, Path("/"))).jobs.values()]
            window = data[SYSTEM]["window"]
            if not isinstance(window, int):
                window = max(windows, default=0)
            if window:
                data[SYSTEM]["window"] = min(65_536, max(1, int(window * times)))

        yield Level("window", text, change)


def _seed(data: Data, setup: Setup) -> Iterator[Level]:
    for seed in seeds_of(data["seed"], data["repetitions"], SEEDS + 2)[SEEDS:]:  # not tuned on

        def change(data: Data, seed: int = seed) -> None:
            data["seed"] = seed

        yield Level("seed", str(seed), change)


def _salt(data: Data, setup: Setup) -> Iterator[Level]:
    raise NotHere("the seed draws it, so it varies with the seed")
    yield


# What comes first is varied first: chance, and what has turned most verdicts.
FACTORS: dict[str, Callable[[Data, Setup], Iterator[Level]]] = {
    "seed": _seed,
    "host delay": _delay,
    "host jitter": _jitter,
    "window": _window,
    "scale": _scale,
    "phase of jobs": _phase,
    "queue length": _queue,
    "names and order of jobs": _order,
    "hash salt": _salt,
}
