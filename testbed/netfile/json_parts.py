"""Reading topologies in JSON: files that they name, and the keys that may be there."""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as brief
from typing import Any

from testbed.errors import UserError


def near(name: str, topology: Path) -> Path:
    """A file that the topology names. It is relative to the folder of the topology,
    or to the one above. Raises UserError."""
    folder = topology.absolute().parent
    for base in (folder, folder.parent):
        if os.path.isfile(base / name):  # also where a name is too long to be one
            return base / name
    raise UserError(f"{topology}: there is no file {name} in {folder} or above")


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
