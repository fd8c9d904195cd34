"""What the importers of other tools' topologies share: fields that must be there or may not be,
files that are named, times."""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from testbed.errors import UserError


def near(name: str, topology: Path) -> Path:
    """A file that the topology names. It is relative to the exercise's folder, which is that of the
    topology or the one above. Raises UserError."""
    folder = topology.absolute().parent
    for base in (folder, folder.parent):
        if os.path.isfile(base / name):  # also where a name is too long to be one
            return base / name
    raise UserError(f"{topology}: there is no file {name} in {folder} or above")


def get(data: Any, key: str, kind: type, where: object) -> Any:
    """The value of a key that must be there. Raises UserError."""
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, kind):
        raise UserError(f"{where}: there is no {key!r} as these topologies have it")
    return found


def only(data: Any, keys: tuple[str, ...], where: object) -> dict[str, Any]:
    """`data`, an object without other keys than these. Raises UserError."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: found {brief(data)}; allowed: an object with {', '.join(keys)}")
    unknown = sorted(set(data) - set(keys))
    if unknown:
        raise UserError(
            f"{where}: {brief(unknown[0])} cannot be imported; what can: {', '.join(keys)}"
        )
    return data


def as_list(data: dict[str, Any], key: str, where: object) -> list[Any]:
    """A list that may be left out."""
    return get(data, key, list, where) if key in data else []


def latency(value: Any) -> str:
    """A link's latency with its unit: a number is milliseconds, text is what Mininet takes. Raises
    ValueError."""
    if isinstance(value, int | float):
        try:
            return f"{value:g} ms"
        except OverflowError:  # an integer of hundreds of digits
            raise ValueError("too large") from None
    text = str(value).strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(number) :].strip() or "us"  # as tc reads it
    if float(number) == 0:
        return "0 ms"
    return f"{number} {unit}"
