"""Cost profiles by name or file, and what an experiment has of one: all of its numbers, so that
they are in the experiment's identity and results, whatever becomes of the file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from p4fabric.base.config.data_files import read_text
from p4fabric.base.config.explain import explain
from p4fabric.base.config.fields import user_file
from p4fabric.base.config.problems import ExperimentError, Problem
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.config.yaml_document import MAX_BYTES, read_yaml
from p4fabric.base.errors import did_you_mean
from pydantic import ValidationError

from testbed.costs.profile import Costs, costs_in, merged
from testbed.paths import EXPERIMENTS

FOLDER = EXPERIMENTS / "costs"
WHAT = "cost profile"
MOST_BASES = 8  # profiles that are made from each other


def shipped() -> list[str]:
    """The names of the testbed's own profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def resolved(given: Costs | str, folder: Path) -> Costs:
    """The whole profile that a file in `folder` names or describes. Raises FieldError for one that
    is not there, and UserError for a file that is wrong."""
    if isinstance(given, str):
        return _named(given, folder)
    costs = given
    if given.base:
        costs = merged(_named(given.base, folder), given)
    usual = f"{costs.name}-changed" if given.base else "inline"
    if given.model_fields_set == {"base", "protocol"}:
        usual = f"{costs.name}-{given.protocol}"
    name = given.name or usual[:64]
    return costs.model_copy(update={"name": name, "base": ""})


def _named(name: str, folder: Path) -> Costs:
    if name in shipped():
        return _read(FOLDER / f"{name}.yaml", ())
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _read(user_file(name, folder), ())
    allowed = f"{', '.join(shipped())}, a file such as ./mine.yaml, or a mapping of costs"
    raise FieldError(describe(name), allowed, did_you_mean(name, shipped()))


def _read(path: Path, makers: tuple[Path, ...]) -> Costs:
    state = path.stat()
    return _parsed(path, (state.st_mtime_ns, state.st_size), makers)


@lru_cache(maxsize=32)
def _parsed(path: Path, state: tuple[int, int], makers: tuple[Path, ...]) -> Costs:
    """A profile's file. makers: files that are made from it."""
    text = read_text(path, MAX_BYTES)
    try:
        document = read_yaml(text, str(path))
    except ExperimentError as error:
        raise ExperimentError(str(path), error.problems, WHAT) from None
    problems = list(document.problems)
    costs = Costs()
    try:
        costs = Costs.model_validate(document.data if document.data is not None else {})
    except ValidationError as error:
        problems += explain(error, (), Costs)
    if not problems and costs.base:
        try:
            costs = _from(costs, path, makers)
        except FieldError as error:
            problems.append(Problem.of(("from",), error))
    problems = problems or _without_source(costs)
    if problems:
        lines = [
            Problem(each.path, each.message, each.line or document.line(each.path))
            for each in problems
        ]
        raise ExperimentError(str(path), lines, WHAT)
    return costs.model_copy(update={"name": path.stem[:64], "base": ""})


def _from(costs: Costs, path: Path, makers: tuple[Path, ...]) -> Costs:
    base = FOLDER / f"{costs.base}.yaml"
    if costs.base not in shipped():
        base = user_file(costs.base, path.parent)
    if base in (path, *makers) or len(makers) == MOST_BASES:
        raise FieldError(describe(costs.base), "a profile that is not made from this one")
    return merged(_read(base, (path, *makers)), costs)


def _without_source(costs: Costs) -> list[Problem]:
    """Numbers of which the profile does not say where they come from."""
    found = []
    for cost in costs_in(costs):
        if not cost.source:
            allowed = f"a key of `sources` that says where {cost.key}, {cost.text}, is from"
            found.append(Problem.of(cost.source_path, FieldError("none", allowed)))
        elif cost.source not in costs.sources:
            allowed = f"a key of `sources`: {', '.join(costs.sources) or 'none is there'}"
            error = FieldError(
                describe(cost.source), allowed, did_you_mean(cost.source, costs.sources)
            )
            found.append(Problem.of(cost.source_path, error))
    return list({each.path: each for each in reversed(found)}.values())[::-1]
