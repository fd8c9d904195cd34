"""`ina schema`: JSON schemas of experiment files and network files, for editors.

They come from the pydantic models that check the files. A schema cannot say all that the checks
know (units, ranges of quantities, how keys fit together), so a file that an editor accepts may
still be refused; a file that is sound, an editor accepts. A sweep may leave out what it varies, so
a file with the key `sweep` needs no other key.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from p4fabric.base.topology import Topology
from p4fabric.netfile.network_schema import NetworkFile

from testbed import systems
from testbed.experiment.figure import Figure
from testbed.experiment.resolve_topology import parameters
from testbed.experiment.schema import ExperimentFile
from testbed.systems import tuned_options
from testbed.topos import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", list: "array"}
_VALUES: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "minItems": 1},
        {
            "type": "object",
            "properties": {name: {"type": "number"} for name in ("from", "to", "step", "times")},
            "required": ["from", "to"],
            "additionalProperties": False,
        },
    ]
}


def experiment_schema(
    known: Mapping[str, systems.System] | None = None,
    kinds: Mapping[str, type[Topology]] | None = None,
) -> dict[str, object]:
    """The schema of an experiment file. known, kinds: the systems and topologies that it allows
    (None: all that are installed)."""
    known = systems.SYSTEMS if known is None else known
    schema = _plain(ExperimentFile.model_json_schema(by_alias=True))
    definitions = schema["$defs"]
    for name in ("SystemOptions", "TopologyChoice"):
        definitions.pop(name, None)
    properties = schema["properties"]
    properties["system"] = _with(properties["system"], _system(known, definitions))
    properties["topology"] = _with(properties["topology"], _topology(kinds or KINDS))
    properties["sweep"] = {
        "description": "Several experiments: lists of values, or ranges, by the path of a key.",
        "type": "object",
        "properties": {
            name: {"type": "array", "items": {"type": "object"}} for name in ("together", "skip")
        },
        "additionalProperties": _VALUES,
    }
    properties[tuned_options.KEY] = {
        "description": "Options of the system that are tuned before a run: values, by their keys.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"anyOf": [*_VALUES["anyOf"], {"const": tuned_options.BEST}]},
    }
    properties["robust"] = {
        "description": "Further runs that show what the verdicts of a sweep depend on.",
        "type": "object",
        "properties": {"runs": {"type": "integer", "minimum": 1}},
        "required": ["runs"],
        "additionalProperties": False,
    }
    figure = _plain(Figure.model_json_schema(by_alias=True))
    definitions |= figure.pop("$defs", {})
    properties["figure"] = figure
    required = schema.pop("required")
    alone = {"required": required, "anyOf": [{"required": [key]} for key in ("jobs", "arrivals")]}
    return {
        "$schema": DIALECT,
        **schema,
        "title": "Experiment file",
        "anyOf": [{"required": ["sweep"]}, alone],
    }


def network_schema() -> dict[str, object]:
    """The schema of a network file."""
    schema = _plain(NetworkFile.model_json_schema(by_alias=True))
    return {"$schema": DIALECT, **schema, "title": "Network file"}


def _system(known: Mapping[str, systems.System], definitions: dict[str, Any]) -> dict[str, object]:
    options = []
    for name, system in known.items():
        own = _plain(system.option_model.model_json_schema(by_alias=True))
        definitions |= own.pop("$defs", {})
        own["properties"]["name"] = {"const": name}
        own["required"] = ["name"]
        if window := own["properties"].get(tuned_options.WINDOW):
            window.setdefault("anyOf", []).append({"const": tuned_options.BEST})
        options.append({**own, "title": system.title})
    return {"anyOf": [{"enum": list(known)}, *options]}


def _topology(kinds: Mapping[str, type[Topology]]) -> dict[str, object]:
    found: list[dict[str, object]] = []
    for kind, cls in kinds.items():
        properties: dict[str, object] = {"kind": {"const": kind}}
        required = ["kind"]
        for name, (annotation, default) in parameters(cls).items():
            word = _TYPES.get(annotation)
            properties[name] = {"type": word} if word else {}
            if default is inspect.Parameter.empty:
                required.append(name)
        found.append(
            {
                "description": (inspect.getdoc(cls) or "").split("\n")[0],
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        )
    own = {
        "description": "A class of a file of your own.",
        "type": "object",
        "properties": {"class": {"type": "string", "pattern": ":"}},
        "required": ["class"],
    }
    return {"anyOf": [*found, own]}


def _with(old: dict[str, Any], new: dict[str, Any]) -> dict[str, object]:
    """A property's schema with its old description."""
    return {"description": old["description"], **new} if "description" in old else new


def _plain(part: Any) -> Any:
    """A schema of pydantic without parts that are of no use to editors: titles that repeat the key,
    defaults in the testbed's own units, and null, which no file can say."""
    if isinstance(part, list):
        return [_plain(each) for each in part if each != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    found = {}
    for key, value in part.items():
        if key in ("properties", "$defs"):
            found[key] = {name: _plain(each) for name, each in value.items()}
        elif key not in ("default", "title"):
            found[key] = _plain(value)
    return found


SCHEMAS = {"experiment": experiment_schema, "network": network_schema}
"""Makers of a schema by the kind of file; with the installed plug-ins."""


def schema_text(kind: str) -> str:
    """The JSON text of a schema of SCHEMAS."""
    return json.dumps(SCHEMAS[kind](), indent=1, ensure_ascii=False) + "\n"
