"""Options that a file leaves to be tuned: those of its system, and the values that are tried.

    system: {name: ps, window: best}                    # the range that suits the network
    tune: {window: [64, 128, 256], servers: [1, 2, 4]}  # each value of one with those of the other

A comparison is fair if each system has its own best settings, so a file may ask for them in place
of naming them. This module takes the two spellings out of a file's data, so that the rest of the
data is an experiment as any other, and checks what they ask for. testbed/sweeps/trials.py tries
the values, and testbed/setup/window_range.py knows the range of `best`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from p4fabric.base.config.fields import Number, Quantity, Whole, kind_of
from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.config.value_lists import number_of, values_of
from p4fabric.base.config.yaml_document import Document
from pydantic.fields import FieldInfo

from testbed.systems.registry import SYSTEMS
from testbed.systems.system import System

KEY = "tune"
BEST = "best"
WINDOW = "window"  # the option that has a range of its own
MAX_TRIED = 256  # combinations of values
Values = dict[str, Any]  # an option's key -> a value, as a file writes it
Several = tuple[Any, ...]  # values, from small to large
Options = dict[str, Several | None]  # None: those of BEST
Tried = dict[str, Several]


@dataclass(frozen=True)
class Tuning:
    """Options to be tuned, in the order of the file, with their values from small to large; None:
    the range of `best`. `document`: the experiment without them; `file`, `folder`, `stem` and
    `servers_reserved` belong to it (load_document in testbed/experiment/load.py)."""

    options: Options
    document: Document = field(repr=False)
    file: str = ""
    folder: str = ""
    stem: str = ""
    servers_reserved: int = 0

    def as_data(self) -> Values:
        """The key `tune` of a file."""
        return {key: BEST if each is None else list(each) for key, each in self.options.items()}

    def ends(self) -> Iterator[Values]:
        """The smallest and the largest values that are named."""
        named = {key: each for key, each in self.options.items() if each}
        for place in (0, -1) if named else ():
            yield {key: each[place] for key, each in named.items()}


@dataclass(frozen=True)
class Trial:
    """A run with some values and a seed that is not reported. jct_ns: its mean JCT; None: it has
    failed, and `error` says why."""

    values: Values
    seed: int
    jct_ns: float | None
    error: str = ""


@dataclass(frozen=True)
class Tuned:
    """The values that are best, and how they were found. `edges`: the options whose best value is
    the first or the last one that was allowed, so that a better one may lie beyond."""

    values: Values
    edges: tuple[str, ...]
    trials: tuple[Trial, ...]

    def as_data(self) -> Values:
        """For environment.json; the table `tuning` has the trials."""
        seeds = list(dict.fromkeys(trial.seed for trial in self.trials))
        return {"values": self.values, "edges": list(self.edges), "seeds": seeds}

    def rows(self) -> Iterator[Values]:
        """Rows of the table `tuning`, one per trial and option."""
        numbers: dict[str, int] = {}
        for trial in self.trials:
            number = numbers.setdefault(said(trial.values), len(numbers))
            for option, value in trial.values.items():
                jct_ns = None if trial.jct_ns is None else round(trial.jct_ns)
                row = {"trial": number, "seed": trial.seed, "option": option, "jct_ns": jct_ns}
                chosen = trial.values == self.values
                yield {**row, "value": number_of(value), "chosen": chosen, "error": trial.error}


def with_values(document: Document, values: Values) -> Document:
    """The document with values of its system's options."""
    data = dict(document.data)
    system = data["system"]
    data["system"] = {**({"name": system} if isinstance(system, str) else system), **values}
    return Document(data, document.lines, document.problems)


def said(values: Values) -> str:
    """`window 512, servers 4`"""
    return ", ".join(f"{key} {value}" for key, value in values.items())


def of_system(data: object) -> System | None:
    """The system that a file's data name, if there is such a one."""
    named = data.get("system") if isinstance(data, dict) else None
    name = named.get("name") if isinstance(named, dict) else named
    return SYSTEMS.get(name) if isinstance(name, str) else None


def options_of(system: System) -> dict[str, FieldInfo]:
    """A system's options by their keys."""
    return {info.alias or name: info for name, info in system.option_model.model_fields.items()}


def asks(data: object) -> bool:
    """True if a file's data leave something to be tuned."""
    if not isinstance(data, dict):
        return False
    system = data.get("system")
    return KEY in data or isinstance(system, dict) and BEST in system.values()


def taken_out(document: Document) -> tuple[Document, Options]:
    """The document without what it leaves to be tuned, which comes beside it: each option's values,
    None: those of `best`. What is wrong with it is among the document's problems."""
    data, system = dict(document.data), of_system(document.data)
    problems = list(document.problems)
    asked: dict[str, tuple[Path, object]] = {}
    options = data.get("system")
    if isinstance(options, dict) and BEST in options.values():
        asked = {key: (("system", key), BEST) for key, each in options.items() if each == BEST}
        data["system"] = {key: each for key, each in options.items() if each != BEST}
    listed = data.pop(KEY, {})
    if not isinstance(listed, dict) or KEY in document.data and not listed:
        allowed = "options of the system with values, such as {window: [64, 128, 256]}"
        problems.append(Problem.of((KEY,), FieldError(describe(listed), allowed)))
        listed = {}
    found: Options = {}
    for key, given in listed.items():
        if isinstance(options, dict) and key in options:
            how = f"is {options[key]!r} in system, too; keep one of the two"
            problems.append(Problem((KEY, key), f"{key} {how}"))
        else:
            asked[key] = ((KEY, key), given)
    for key, (place, given) in asked.items():
        try:
            if system is not None:  # else that is the error
                found[key] = _values(system, key, given)
        except FieldError as error:
            problems.append(Problem.of(place, error))
    count = math.prod(len(each) for each in found.values() if each)
    if count > MAX_TRIED:
        problems.append(Problem((KEY,), f"found {count} combinations; allowed: {MAX_TRIED}"))
    return Document(data, document.lines, problems), found


def _values(system: System, key: str, given: object) -> Several | None:
    """Values of an option, from small to large; None: those of `best`. Raises FieldError."""
    options = options_of(system)
    tunable = [name for name, info in options.items() if isinstance(kind_of(info), _NUMERIC)]
    if key not in options:
        raise FieldError(describe(key), f"options of {system.name}: {', '.join(tunable)}")
    kind = kind_of(options[key])
    if not isinstance(kind, _NUMERIC):
        why = f"{key} is no number; a sweep compares its values"
        raise FieldError(describe(key), f"options that are numbers: {', '.join(tunable)}", why)
    if given == BEST:
        if key != WINDOW:
            why = f"write tune: {{{key}: [...]}}"
            raise FieldError(f"{BEST} for {key}", f"{BEST} for {WINDOW} alone", why)
        return None
    values = {}
    for each in values_of(given, MAX_TRIED):
        number = number_of(each)
        if number is None or isinstance(each, list):
            raise FieldError(describe(each), f"numbers: {kind.allowed}")
        if kind.parse(each) is not None:
            values[number] = int(each) if isinstance(kind, Whole) else each
    return tuple(values[number] for number in sorted(values))


_NUMERIC = (Whole, Quantity, Number)


def for_systems(data: Values, systems: Sequence[System]) -> None:
    """Leave out of the key `tune` of a sweep's point, in place, what its system does not have, but
    another one of the sweep."""
    listed, own = data.get(KEY), of_system(data)
    if not isinstance(listed, dict) or own is None:
        return
    others = {key for system in systems for key in options_of(system)}
    mine = options_of(own)
    data[KEY] = {key: each for key, each in listed.items() if key in mine or key not in others}
    if listed and not data[KEY]:
        del data[KEY]
