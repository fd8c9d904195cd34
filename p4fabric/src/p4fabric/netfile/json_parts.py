"""Reading topologies in JSON: files that they name, the keys that may be there, and their kinds of
value. Whatever an importer takes apart goes through these functions, because a file may hold
anything."""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as brief
from typing import Any, TypeAlias, TypeVar

from p4fabric.base.errors import UserError

# An object of a JSON file. Its values may be anything, and are checked where they are read.
JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")

LARGEST = 1e15  # of a number of a link: no link has more of anything
WORDS: dict[type, str] = {str: "text", dict: "an object", list: "a list"}


def near(name: str, topology: Path) -> Path:
    """A file that the topology names. It is relative to the folder of the topology,
    or to the one above. Raises UserError."""
    folder = topology.absolute().parent
    for base in (folder, folder.parent):
        if os.path.isfile(base / name):  # also where a name is too long to be one
            return base / name
    raise UserError(f"{topology}: there is no file {name} in {folder} or above")


def only(data: object, keys: tuple[str, ...], where: object) -> JsonObject:
    """`data`, an object without other keys than these. Raises UserError."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: found {brief(data)}; allowed: an object with {', '.join(keys)}")
    unknown = sorted(set(data) - set(keys))
    if unknown:
        raise UserError(
            f"{where}: {brief(unknown[0])} cannot be imported; what can: {', '.join(keys)}"
        )
    return data


def of_kind(value: object, kind: type[T], where: object) -> T:
    """`value`, which is of this kind. Raises UserError."""
    if not isinstance(value, kind):
        raise UserError(f"{where}: found {brief(value)}; allowed: {WORDS[kind]}")
    return value


def text_of(data: JsonObject, key: str, where: object) -> str | None:
    """Text that may be left out. Raises UserError."""
    return None if data.get(key) is None else of_kind(data[key], str, f"{where}: {key}")


def list_of(data: JsonObject, key: str, kind: type[T], where: object) -> list[T]:
    """A list that may be left out, of values of this kind. Raises UserError."""
    found = [] if data.get(key) is None else of_kind(data[key], list, f"{where}: {key}")
    return [of_kind(each, kind, f"{where}: {key}") for each in found]
