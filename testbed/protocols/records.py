"""Records of named 64-bit integers: what a machine's configuration, state and counters are.

A record lies in an array of one element, so that it can be a part of a machine (a named tuple of
arrays) and be written to. Compiled code and plain Python read and write its fields alike:
``state = worker.state[0]``, then ``state.window += 1``. An array of them is a table whose rows are
records. `array.view(np.int64)` has the same numbers in the order of the fields.

A system's record begins with the fields of the common one, so functions for the common one take it.
numba supports that, calls it experimental, and warns of it; the tests compare its results with
those of plain Python, so the warning is switched off.
"""

from __future__ import annotations

import warnings

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


def new_record(kind: np.dtype, **fields: int) -> np.ndarray:
    """A record in an array of one element; fields that are not named are 0."""
    made = np.zeros(1, kind)
    for name, value in fields.items():
        made[name] = value
    return made
