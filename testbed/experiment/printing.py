"""A loaded experiment as data for a file, every quantity with its unit."""

from __future__ import annotations

from typing import Any

from p4fabric.base.config.fields import kind_of
from p4fabric.base.config.link_settings import LinkSettings
from p4fabric.base.config.yaml_document import Inline
from pydantic import BaseModel

from testbed.costs.profile import CostSection
from testbed.experiment.schema import ExperimentFile, Memory, TopologyChoice
from testbed.experiment.schema_arrivals import Arrivals, ClusterTrace, Kind, Poisson, TracedModel
from testbed.experiment.schema_background import Background
from testbed.experiment.schema_collectives import Route
from testbed.experiment.schema_jobs import OF_PROGRAM, OF_REPLAY, Experts, Fault, Job, RankModel
from testbed.experiment.schema_network import LinkOptions, SwitchException
from testbed.experiment.schema_serving import Requests, ServingChecks

# Sections that leave out what has no value.
_WITHOUT_NONE = Memory | Fault | Poisson | Kind | ClusterTrace | Background | RankModel | Route
_WITHOUT_NONE |= Requests | ServingChecks | Experts


def shown(part: Any, name: str) -> Any:
    """One attribute of a section (or the same of a direction of a link), as written in a file."""
    model = type(part) if isinstance(part, BaseModel) else LinkSettings
    kind = kind_of(model.model_fields[name])
    value = getattr(part, name)
    return kind.show(value) if kind else value


_OPTIONAL = (
    "memory",
    "virtual",
    "costs",
    "paths",
    "fabric",
    "lossless",
    "arrivals",
    "sums",
    "sum_parts",
    "gpu",
    "backend",
    "parallel",
    "env",
    "priorities",
)


def as_data(part: Any, given_only: bool = False) -> Any:
    """A resolved part of an experiment as plain data, as in a file."""
    if isinstance(part, TopologyChoice):
        head = {"kind": part.kind} if part.kind else {"class": f"{part.file}:{part.class_name}"}
        return {**head, **part.options}
    if isinstance(part, tuple):
        return (Inline if all(isinstance(each, str) for each in part) else list)(
            as_data(each, given_only=isinstance(each, LinkOptions | SwitchException))
            for each in part
        )
    if isinstance(part, dict):
        return {key: as_data(value) for key, value in part.items()}
    if not isinstance(part, BaseModel):
        return part
    data: dict[str, Any] = {}
    for name, info in type(part).model_fields.items():
        value = getattr(part, name)
        if given_only and name not in part.model_fields_set:
            continue
        if isinstance(part, CostSection) and value == info.default:
            continue
        if isinstance(part, _WITHOUT_NONE) and value is None or name == "servers" and not value:
            continue
        if name in _OPTIONAL and value is None:  # of one without
            continue
        if isinstance(part, Job) and name in (OF_REPLAY if part.is_program else OF_PROGRAM):
            continue
        if name == "background" and not value:
            continue
        if isinstance(part, Background) and not value:  # a name that follows from its place
            continue
        if isinstance(part, Arrivals) and not value:
            continue
        if isinstance(part, TracedModel) and name in ("workers", "iterations"):
            continue  # the trace says them
        if name == "jobs" and isinstance(part, ExperimentFile) and part.arrivals is not None:
            continue  # they follow from it
        inner = given_only and isinstance(value, BaseModel)
        kind = kind_of(info)
        plain = kind.show(value) if kind else value
        data[info.alias or name] = as_data(plain, inner)
    for name in ("between", "switch"):  # the target of an exception comes first, for readers
        if isinstance(part, LinkOptions | SwitchException) and name in data:
            data = {name: data.pop(name), **data}
    return data
