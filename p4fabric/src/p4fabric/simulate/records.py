"""Records of named 64-bit integers: what a machine's configuration, state, status and counters are.

A record is a part of a machine, a named tuple of arrays and records, and can be written to.
Compiled code and plain Python read and write its fields alike: ``sender.state.window += 1``.
An array of records is a table. `table.view(np.int64)` has the same numbers in the order of the
fields. Status and counters are tables of one record, since runtimes put them elsewhere in memory.

A record may begin with the fields of a common one; then functions for the common one take it.
numba supports that, calls it experimental, and warns of it; the tests compare its results with
those of plain Python, so the warning is switched off.
"""

from __future__ import annotations

import mmap
import warnings
from functools import cache
from typing import Any

import numpy as np

warnings.filterwarnings("ignore", r"Record\(.* has been considered a subtype of Record")


def record(*names: str) -> np.dtype:
    """The type of records with these fields, int64 each.

    A field named as an attribute of numpy's records, `size` for one, could not be read in Python;
    it is a ValueError."""
    for name in names:
        if hasattr(np.record, name):
            raise ValueError(f"a field cannot be named {name}")
    fields = np.dtype([(name, np.int64) for name in names], align=True)
    return np.dtype((np.record, fields))


def names_of(kind: np.dtype) -> tuple[str, ...]:
    """The fields of a type of records."""
    return kind.names or ()


def new_table(kind: np.dtype, **fields: int) -> np.ndarray:
    """A table of one record; fields that are not named are 0."""
    made = np.zeros(1, kind)
    for name, value in fields.items():
        made[name] = value
    return made


def new_record(kind: np.dtype, **fields: int) -> np.record:
    """A record, a view of memory of its own; fields that are not named are 0."""
    numbers = np.zeros(len(names_of(kind)), np.int64)
    if fields:
        places = _places(kind)
        for name, value in fields.items():
            numbers[places[name]] = value
    return numbers.view(kind)[0]


def untouched(rows: int, kind: np.dtype) -> np.ndarray:
    """A table of zeros that takes memory only where it is written to, however short it is. numpy
    clears memory that was in use before."""
    memory = mmap.mmap(-1, rows * kind.itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, kind, rows)


@cache
def _places(kind: np.dtype) -> dict[str, int]:
    """Place of each field."""
    return {name: place for place, name in enumerate(names_of(kind))}


# The status of a machine, or the beginning of it: what a loop that steps machines needs to know.
STATUS = record(
    "finished",  # 1: nothing more to do but to serve others
    "failed",  # 1: the run is to end
)


def offset(name: str) -> int:
    """Place of a field in a status, in bytes."""
    return 8 * names_of(STATUS).index(name)


def new_status() -> np.ndarray:
    return new_table(STATUS)


def replaced(part: Any, instead: dict[int, np.ndarray]) -> Any:
    """A machine, or a part of one, with other arrays: a part may be in several places."""
    if isinstance(part, np.ndarray):
        return instead.get(id(part), part)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(replaced(each, instead) for each in part))
    return part
