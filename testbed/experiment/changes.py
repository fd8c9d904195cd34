"""Changes of an experiment's keys, by their paths: those of a sweep's points, of `with_` in Python,
and of a command line.

    ina run a.yaml system=atp memory.aggregators=64 "links.bandwidth=1 Gbit/s" links.loss=

The value is YAML, and takes the place of all that was there; without a value the key is removed. A
changed file is checked as any other, and its errors say that a value is from the command line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from p4fabric.base.config.problems import COMMAND_LINE, ExperimentError, Problem, key_path
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.config.yaml_document import Document, read_yaml
from p4fabric.base.errors import UserError, sentence

from testbed import systems

EVERY = "*"  # in a key path: all members of a list
# A file has one of these keys: a value for it takes the place of the other.
_INSTEAD = {"topology.class": "kind", "topology.kind": "class"}
_PART = re.compile(r"([A-Za-z_][\w-]*)((?:\[(?:\d+|\*)\])*)")


def change_on_command_line(document: Document, texts: Sequence[str], file: str) -> Document:
    """The document with the changes `KEY=VALUE` of a command line. Raises UserError."""
    changes = _read(texts)
    swept = document.data.get("sweep") if isinstance(document.data, dict) else None
    for name in changes:
        if name.partition(".")[0] in ("sweep", "figure"):
            raise UserError(f"{name}=...: a sweep and its figure are changed in the file")
        for varied in _varied(swept):
            if _covers(varied, name):
                raise UserError(
                    f"{name}=...: the sweep of {file} varies {varied}, so the value would have no"
                    " effect at its points; change it in the file"
                )
    return changed(document, changes, file, COMMAND_LINE) if changes else document


def name_with(path: Path, changes: Sequence[str]) -> str:
    """Name in errors of a file with the changes of a command line."""
    return f"{path} with {', '.join(changes)}" if changes else str(path)


def _read(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in found:
            raise UserError(f"{name}=... is given twice; keep one of them")
        if not value.strip():
            found[name] = None
            continue
        try:
            parsed = read_yaml(value, name)
            problems = parsed.problems
        except ExperimentError as error:
            problems = error.problems
        if problems:
            raise ExperimentError(f"{name}=...", problems, "value")
        found[name] = parsed.data
    return found


def _varied(swept: Any) -> list[str]:
    """The keys that a sweep varies, as far as they can be read."""
    if not isinstance(swept, dict):
        return []
    together = swept.get("together")
    groups = [swept, *(together if isinstance(together, list) else [])]
    keys = [key for group in groups if isinstance(group, dict) for key in group]
    return [key for key in keys if key not in ("together", "skip")]


def _covers(outer: str, inner: str) -> bool:
    """True if setting `outer` also sets, or replaces, what is at `inner`."""
    try:
        around, within = parse_path(outer), parse_path(inner)
    except FieldError:
        return False  # an error of its own
    pairs = zip(around, within, strict=False)
    return len(around) <= len(within) and all(a == b or EVERY in (a, b) for a, b in pairs)


def changed(
    document: Document, changes: Mapping[str, Any], file: str, line: int | None = None
) -> Document:
    """The document with other values by key path; None removes a key. line: of the new values.
    Raises UserError."""
    data, lines = copy.deepcopy(document.data), dict(document.lines)
    for name, value in changes.items():
        if value is None:
            paths = _remove(data, name, file, line)
        else:
            paths = set_key(data, name, value, file, line)
            if name in _INSTEAD and not set(changes) >= set(_INSTEAD):
                data["topology"].pop(_INSTEAD[name], None)
        if line is not None:
            lines = {
                path: known
                for path, known in lines.items()
                if not any(path[: len(each)] == each for each in paths)
            }
            lines |= dict.fromkeys(paths, line)
        else:  # nobody knows where the new values are
            first = name.split(".")[0].split("[")[0]
            lines = {path: known for path, known in lines.items() if path[:1] not in ((), (first,))}
    if not isinstance(data.get("sweep"), dict) or "system" not in data["sweep"]:
        without_useless_memory(data)
    return Document(data, lines, document.problems)


def _remove(data: Any, name: str, file: str, line: int | None) -> list[KeyPath]:
    *parents, last = _parts(name, file, line)
    places: list[tuple[KeyPath, Any]] = [((), data)]
    for part in parents:
        places = [
            ((*path, key), child)
            for path, at in places
            for key, child in (at.items() if isinstance(at, dict) else enumerate(at))
            if part in (key, EVERY) and isinstance(child, dict | list)
        ]
    removed = [(*path, last) for path, at in places if isinstance(at, dict) and last in at]
    if not removed:
        raise UserError(f"{name}: it is not there, so it cannot be removed")
    for _, at in places:
        if isinstance(at, dict):
            at.pop(last, None)
    return removed


def parse_path(name: str) -> list[str | int]:
    """`jobs[0].scale` -> ["jobs", 0, "scale"]; [*] becomes EVERY. Raises FieldError."""
    parts: list[str | int] = []
    for piece in name.split("."):
        match = _PART.fullmatch(piece)
        if not match:
            raise FieldError(
                describe(name), "a key's path, such as memory.aggregators or jobs[0].scale"
            )
        parts.append(match[1])
        for index in re.findall(r"\[(\d+|\*)\]", match[2]):
            parts.append(EVERY if index == EVERY else int(index))
    return parts


def set_key(
    data: dict[str, Any], name: str, value: Any, file: str, line: int | None = None
) -> list[KeyPath]:
    """Set a key of an experiment's data in place; `name`: its path, such as memory.aggregators,
    jobs[0].scale or jobs[*].scale. Returns the paths that were set. Raises ExperimentError."""
    if isinstance(data.get("system"), str) and name.startswith("system."):
        data["system"] = {"name": data["system"]}
    return _set(data, _parts(name, file, line), value, (), file, line)


def _parts(name: str, file: str, line: int | None) -> list[str | int]:
    try:
        return parse_path(name)
    except FieldError as error:
        raise ExperimentError(file, [replace(Problem.of((name,), error), line=line)]) from None


def without_useless_memory(data: dict[str, Any]) -> dict[str, Any]:
    """The data without `memory` if its system uses none; changed in place."""
    system = data.get("system")
    system_name: Any = system.get("name") if isinstance(system, dict) else system
    chosen = systems.SYSTEMS.get(system_name) if isinstance(system_name, str) else None
    if chosen is not None and not chosen.memory:
        data.pop("memory", None)
    return data


def _set(
    at: Any, parts: list[str | int], value: Any, done: KeyPath, file: str, line: int | None
) -> list[KeyPath]:
    """Write a value below `at`; returns the paths written. Raises ExperimentError."""
    head, rest = parts[0], parts[1:]
    wanted = dict if isinstance(head, str) and head != EVERY else list
    if not isinstance(at, wanted):
        what = "keys" if wanted is dict else "a list"
        message = sentence(f"{key_path((*done, head))} cannot be set: there are no {what} here")
        raise ExperimentError(file, [Problem(done, message, line)])
    if head == EVERY:
        heads: list[str | int] = list(range(len(at)))
    elif isinstance(head, int) and head >= len(at):
        message = f"member {head} cannot be set: the list has {len(at)} (counted from 0)"
        raise ExperimentError(file, [Problem(done, message, line)])
    else:
        heads = [head]
    written: list[KeyPath] = []
    members: Any = at  # a dict with str, or a list with int
    for each in heads:
        path = (*done, each)
        if not rest:
            members[each] = copy.deepcopy(value)
            written.append(path)
            continue
        if wanted is dict and each not in members:
            members[each] = {}
        written += _set(members[each], rest, value, path, file, line)
    return written
