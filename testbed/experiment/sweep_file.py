"""A file that describes several experiments: an experiment file with the key `sweep`.

    sweep:
      system: [esa, switchml]                  # every value of one key with every one of the others
      memory.aggregators: {from: 16, to: 256, times: 2}
      together:                                # values side by side: the first with the first, ...
        - {links.loss: [0 %, 1 %], links.bandwidth: [10 Mbit/s, 20 Mbit/s]}
      skip:                                    # points to leave out: all of these keys must match
        - {system: switchml, memory.aggregators: [16, 32]}

Each combination is a *point*: the file with these values in place of its own, checked like any
experiment. A point whose system does not aggregate in the switch ignores the file's `memory`.
Points that become equal because of this are one point. figure.py has the drawing of a sweep and
smaller versions of it.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p4fabric.base.config.fields import Whole
from p4fabric.base.config.problems import ExperimentError, Problem
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.config.value_lists import values_of
from p4fabric.base.config.yaml_document import Document, read_yaml
from p4fabric.base.errors import UserError

from testbed.experiment.changes import (
    name_with,
    parse_path,
    set_key,
    without_useless_memory,
)
from testbed.experiment.experiment import Experiment
from testbed.experiment.figure import Figure, Size, read_figure, resize
from testbed.experiment.load import load_document, read_document, read_file
from testbed.experiment.printing import as_data
from testbed.experiment.printing import shown as shown_attribute
from testbed.paths import command_line
from testbed.systems import tuned_options
from testbed.systems.system import System

MAX_POINTS = 10_000
LABEL = 400  # characters of a point's label
RESERVED = ("together", "skip")
ROBUST = "robust"
ROBUST_RUNS = 32  # of `ina sweep FILE --robust`
OF_SWEEP = ("sweep", "figure", ROBUST)
Choice = dict[str, Any]  # varied key as written -> its value
AddProblem = Callable[[KeyPath, str], None]


@dataclass(frozen=True)
class Point:
    """One experiment of a sweep. `values`: the values that the sweep set, by key as the file writes
    it."""

    values: Choice
    experiment: Experiment

    @property
    def key(self) -> str:
        """The beginning of the experiment's identity, equal for equal experiments that read equal
        files."""
        return self.experiment.identity[:12]

    @property
    def label(self) -> str:
        """Label of the point, such as `system=esa, memory.aggregators=64`."""
        return _label(self.values)


@dataclass(frozen=True)
class Sweep:
    """All points of a file, in the order of the file: the first key varies slowest. robust: how
    many further runs may show what its verdicts depend on (testbed/sweeps/robustness.py)."""

    name: str
    points: tuple[Point, ...]
    figure: Figure | None = None
    robust: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The varied keys."""
        return tuple(dict.fromkeys(key for point in self.points for key in point.values))


def is_sweep(path: str | Path) -> bool:
    """True if the file has the key `sweep`. Raises UserError if it cannot be read."""
    return has_sweep(read_yaml(read_file(Path(path)), str(path)))


def has_sweep(document: Document) -> bool:
    """True if a document has the key `sweep`."""
    return isinstance(document.data, dict) and "sweep" in document.data


def load_sweep(path: str | Path, size: Size | None = None, changes: Sequence[str] = ()) -> Sweep:
    """Read a file with a sweep and check all of its points, each resized if there is a `size`.
    changes: KEY=VALUE, those of a command line.

    Raises UserError: for the file, or for the first point that is no sound experiment, which it
    names by what was varied."""
    path = Path(path)
    document = read_document(path, changes)
    if not has_sweep(document):
        raise UserError(f"{path}: this file has no key sweep; `{command_line(str(path))}` runs it")
    return sweep_of(document, name_with(path, changes), path.absolute().parent, path.stem, size)


def sweep_of(
    document: Document, file: str, folder: str | Path, stem: str, size: Size | None = None
) -> Sweep:
    """The same of a document with the key `sweep`. `file`, `folder`, `stem`: see `load_text`."""
    choices = _choices(document, file)
    figure = read_figure(document, file, tuple(choices[0]))

    systems: list[System] = []  # of all points, where options are tuned

    def load(choice: Choice, servers_reserved: int = 0) -> Experiment:
        changed = _applied(document, choice, file)
        tuned_options.for_systems(changed.data, systems)
        if size is not None:
            resize(changed.data, size)
        try:
            return load_document(changed, file, folder, stem, servers_reserved)
        except ExperimentError as error:
            raise UserError(f"{error}\n  at the sweep's point {_label(choice)}") from None

    for key in size.ends if size is not None else ():
        choices = _ends(choices, key)
    if tuned_options.KEY in document.data:
        named = (tuned_options.of_system(_applied(document, each, file).data) for each in choices)
        systems += dict.fromkeys(system for system in named if system)
    loaded = [load(choice) for choice in choices]
    servers = [_servers(each) for each in loaded]
    points: dict[str, Point] = {}
    for choice, experiment, count in zip(choices, loaded, servers, strict=True):
        if count < max(servers) and experiment.arrivals is None:
            experiment = load(choice, max(servers))  # the same workers for all systems
        tuned = experiment.tuning.as_data() if experiment.tuning else None
        same = json.dumps([as_data(_nameless(experiment)), tuned], default=str)
        points.setdefault(same, Point(_relevant(choice, experiment), experiment))
    found = tuple(points.values())
    return Sweep(found[0].experiment.name, found, figure, _robust(document, file))


def _robust(document: Document, file: str) -> int:
    """The key `robust` of a file; 0: there is none. Raises ExperimentError."""
    given = document.data.get(ROBUST, {"runs": 0})
    runs = given.get("runs") if isinstance(given, dict) and {*given} <= {"runs"} else None
    try:
        if runs is None:
            raise FieldError(describe(given), f"a mapping such as {{runs: {ROBUST_RUNS}}}")
        return Whole(1, MAX_POINTS).parse(runs) or 0 if ROBUST in document.data else 0
    except FieldError as error:
        path = (ROBUST,) if runs is None else (ROBUST, "runs")
        problem = replace(Problem.of(path, error), line=document.line(path))
        raise ExperimentError(file, [problem]) from None


def _servers(experiment: Experiment) -> int:
    """Parameter servers of each job, the most of them where their number is tuned."""
    own = experiment.system_entry.servers_per_job(experiment.system)
    return max(own, experiment.tuning.servers_reserved) if experiment.tuning else own


def other_workers(points: Iterable[Point]) -> list[str]:
    """Warnings: at which points jobs have other workers than the same jobs have at another point of
    the same network."""
    first: dict[Any, list[Point]] = {}
    found = []
    for point in points:
        experiment = point.experiment
        if experiment.arrivals is not None:
            continue
        shapes = tuple((job.name, job.model, job.workers) for job in experiment.jobs)
        network = experiment.topology_object()
        same = [
            other
            for other in first.get(shapes, [])
            if other.experiment.topology_object() == network
        ]
        if not same:
            first.setdefault(shapes, []).append(point)
        elif _workers(same[0]) != _workers(point):
            found.append(
                f"at the point {point.label} jobs have other workers than at {same[0].label}"
            )
    return found


def untuned(points: Iterable[Point]) -> list[str]:
    """A warning about a comparison of systems whose best windows nobody knows: neither are they
    tuned, nor does the sweep vary them."""
    named: dict[str, set[str]] = {}
    for point in points:
        options, to_tune = point.experiment.system, point.experiment.tuning
        known = to_tune is not None and tuned_options.WINDOW in to_tune.options
        varied = any(key.endswith(tuned_options.WINDOW) for key in point.values)
        if "system" in point.values and hasattr(options, tuned_options.WINDOW):
            windows = named.setdefault(options.name, set())
            if not known and not varied:
                windows.add(str(shown_attribute(options, tuned_options.WINDOW)))
    if len(named) < 2 or not any(named.values()):
        return []
    listed = ", ".join(
        f"{name} ({' or '.join(sorted(windows))})" for name, windows in named.items() if windows
    )
    return [
        f"the best window is not known of {listed}; how systems compare may depend on it."
        f" `{tuned_options.WINDOW}: {tuned_options.BEST}`, or the key"
        f" `{tuned_options.KEY}`, finds it (docs/verdicts.md)"
    ]


def _workers(point: Point) -> list[tuple[str, ...]]:
    return [job.fixed_placement.workers for job in point.experiment.jobs]


def _nameless(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"name": ""})


def _label(choice: Choice) -> str:
    """The varied values as text, cut off where there is a long list of jobs."""
    text = ", ".join(f"{name}={shown(value)}" for name, value in choice.items())
    return text if len(text) <= LABEL else f"{text[:LABEL]} ..."


def shown(value: Any) -> str:
    """A varied value in one line: `esa`, `64`, `atp (release on_completion)`; equal members of a
    list that follow each other are counted, `[2 x vgg16 (workers 4), ...]`, and so is what a list
    repeats throughout: `4 x [vgg16, resnet50]`."""
    if isinstance(value, dict):
        title = next((key for key in ("name", "kind", "model") if key in value), "")
        name = value.get(title, "")
        rest = [f"{key} {shown(part)}" for key, part in value.items() if key != title]
        inner = ", ".join(rest)
        return f"{name} ({inner})" if name and rest else str(name or inner)
    if isinstance(value, list):
        return _counted([shown(each) for each in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counted(texts: list[str]) -> str:
    lengths = (n for n in range(2, len(texts) // 2 + 1) if len(texts) % n == 0)
    period = next((n for n in lengths if texts[n:] == texts[:-n]), len(texts))
    times = len(texts) // period if len(set(texts)) > 1 else 1
    once = itertools.groupby(texts[: len(texts) // times])
    same = ((text, len(list(group))) for text, group in once)
    inner = ", ".join(f"{n} x {text}" if n > 1 else text for text, n in same)
    return f"{times} x [{inner}]" if times > 1 else f"[{inner}]"


def system_titles(points: Iterable[Point]) -> dict[str, str]:
    """The name of each varied value of the key `system` in a legend, by what `shown` gives for it:
    without the options that all values of the same system have in common; and without those of the
    first one that some of them share, if the others name another value."""
    variants: dict[str, dict[str, dict]] = {}
    for point in points:
        value = point.values.get("system")
        if value is not None:
            options = value if isinstance(value, dict) else {"name": value}
            variants.setdefault(options["name"], {})[shown(value)] = options
    titles = {}
    for same in variants.values():
        kept = {
            key
            for options in same.values()
            for key, part in options.items()
            if key == "name" or any(each.get(key) != part for each in same.values())
        }
        first, *others = same.values()
        usual = {
            key: part
            for key, part in first.items()
            if key != "name"
            and all(key in each for each in others)
            and any(each[key] == part for each in others)
        }
        for text, options in same.items():
            said = {
                key: part for key, part in options.items() if key in kept and usual.get(key) != part
            }
            titles[text] = shown(said)
    return titles


def _relevant(choice: Choice, experiment: Experiment) -> Choice:
    if experiment.system_entry.memory:
        return choice
    return {name: value for name, value in choice.items() if name.split(".")[0] != "memory"}


# -- reading the key `sweep`


def _choices(document: Document, file: str) -> list[Choice]:
    """All combinations that are asked for. Raises ExperimentError."""
    data, problems = document.data["sweep"], list(document.problems)

    def add_problem(path: KeyPath, message: str) -> None:
        problems.append(Problem(path, message, document.line(path)))

    groups: list[list[Choice]] = []
    if not isinstance(data, dict) or not data:
        allowed = "keys of the experiment with lists of values, such as `links.loss: [0 %, 1 %]`"
        add_problem(("sweep",), f"found {describe(data)}; allowed: {allowed}")
        data = {}
    for name, values in data.items():
        if name not in RESERVED:
            found = _values(values, ("sweep", name), add_problem)
            different = {repr(value): value for value in found}
            groups.append([{name: value} for value in different.values()])
    for number, group in enumerate(_listed(data, "together", add_problem)):
        place = ("sweep", "together", number)
        columns = {
            name: _values(values, (*place, name), add_problem) for name, values in group.items()
        }
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            counts = ", ".join(f"{name} has {len(values)}" for name, values in columns.items())
            add_problem(place, f"values that go together must be equally many: {counts}")
            continue
        groups.append(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        )
    skipped = _listed(data, "skip", add_problem)
    names = [name for group in groups for name in (group[0] if group else ())]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            add_problem(("sweep",), f"{name} is varied twice; keep one of them")
        try:
            parse_path(name)
        except FieldError as error:
            problems.append(
                replace(Problem.of(("sweep", name), error), line=document.line(("sweep", name)))
            )
    for number, conditions in enumerate(skipped):
        for name in conditions:
            if name not in names:
                add_problem(("sweep", "skip", number, name), f"{name} is not varied in this sweep")
    if problems:
        raise ExperimentError(file, problems)
    count = 1
    for choices in groups:
        count *= len(choices)
    if count > MAX_POINTS:
        add_problem(("sweep",), f"{count} points; allowed: at most {MAX_POINTS}")
        raise ExperimentError(file, problems)
    merged = (
        {name: value for part in row for name, value in part.items()}
        for row in itertools.product(*groups)
    )
    kept = [choice for choice in merged if not any(_matches(choice, each) for each in skipped)]
    if not kept:
        add_problem(("sweep", "skip"), "every point is skipped; keep some")
        raise ExperimentError(file, problems)
    return kept


def _ends(choices: list[Choice], key: str) -> list[Choice]:
    """Those with the first or the last value of a varied key, and those without it."""
    values = [choice[key] for choice in choices if key in choice]
    return [each for each in choices if key not in each or each[key] in (values[0], values[-1])]


def _listed(data: dict, key: str, add_problem: AddProblem) -> list[dict]:
    value = data.get(key, [])
    if isinstance(value, list) and all(isinstance(each, dict) and each for each in value):
        return value
    add_problem(
        ("sweep", key), f"found {describe(value)}; allowed: a list of mappings from key to values"
    )
    return []


def _matches(choice: Choice, conditions: Choice) -> bool:
    return all(
        choice[name] in (values if isinstance(values, list) else [values])
        for name, values in conditions.items()
    )


def _values(given: object, path: KeyPath, add_problem: AddProblem) -> list[Any]:
    try:
        return values_of(given, MAX_POINTS)
    except FieldError as error:
        add_problem(path, f"found {error.found}; allowed: {error.allowed}")
        return []


# -- writing a point's values into the file


def _applied(document: Document, choice: Choice, file: str) -> Document:
    """The document of one point, without the keys that belong to the sweep."""
    data = {key: part for key, part in document.data.items() if key not in OF_SWEEP}
    data = copy.deepcopy(data)
    lines = dict(document.lines)
    for name, value in choice.items():
        line = document.line(("sweep", name))
        for path in set_key(data, name, value, file, line):
            if line is not None:
                lines[path] = line
    return Document(without_useless_memory(data), lines, [])
