"""A key that an experiment file does not know: where it belongs, or whose option it is."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from testbed import systems
from testbed.config.explain import explain as explain_any
from testbed.config.explain import keys_of, section_model
from testbed.config.problems import Path, Problem
from testbed.experiment.schema import ExperimentFile


def explain(error: ValidationError, path: Path, model: Any) -> list[Problem]:
    """pydantic's errors about a section of an experiment file; see testbed.config.explain."""
    return explain_any(error, path, model, unknown)


def unknown(path: Path, known: list[str]) -> Problem:
    """A key that does not exist, with the section that has it if it is one level too high, or the
    systems that have it if it is another's option."""
    key = str(path[-1])
    if path[:1] == ("system",):
        others = [
            each.name for each in systems.SYSTEMS.values() if key in keys_of(each.option_model)
        ]
        remark = f"an option of {', '.join(others)}" if others else ""
    else:
        homes = _homes().get(key, [])
        remark = f"it belongs under {homes[0]}" if homes else ""
    one_too_high = len(path) == 1 and bool(remark)
    return Problem.unknown(path, known, remark, one_too_high)


def _homes() -> dict[str, list[str]]:
    """{key: sections that have it}, for keys written one level too high."""
    homes: dict[str, list[str]] = {}
    for name, info in ExperimentFile.model_fields.items():
        model = section_model(info.annotation)
        for key in keys_of(model) if model else []:
            homes.setdefault(key, []).append(f"{info.alias or name}:")
    for system in systems.SYSTEMS.values():
        for key in keys_of(system.option_model):
            homes.setdefault(key, []).append("system:")
    return homes
