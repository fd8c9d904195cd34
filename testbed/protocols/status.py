"""The status of a machine: whether it has finished, how far it is, what went wrong.

The record is the same for all systems and roles, so a runtime needs to know nothing else of a
machine.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols.records import names_of, new_record, record

STATUS = record(
    "finished",  # 1: nothing more to do but to serve others
    "iterations",  # iterations finished (a server: begun)
    "failed",  # 1: a value was wrong; where:
    "fragment",  # in the iteration
    "position",  # in the fragment
    "found",
    "expected",
    "iteration",
    "news",  # 1: the program that gives the values is to be told something
    "open_calls",  # of that program, which are not done
)


def offset(name: str) -> int:
    """Where a status has a field, in bytes."""
    return 8 * names_of(STATUS).index(name)


def new_status() -> np.ndarray:
    return new_record(STATUS)
