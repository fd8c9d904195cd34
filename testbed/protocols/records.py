"""Records of named 64-bit integers: what a machine's configuration, state, status and counters are.

A record is a part of a machine, a named tuple of arrays and records, and can be written to.
Compiled code and plain Python read and write its fields alike: ``worker.state.window += 1``.
An array of records is a table. `table.view(np.int64)` has the same numbers in the order of the
fields. Status and counters are tables of one record, since runtimes put them elsewhere in memory.

A system's record begins with the fields of the common one, so functions for the common one take it.
numba supports that, calls it experimental, and warns of it; the tests compare its results with
those of plain Python, so the warning is switched off.
"""

from __future__ import annotations

import warnings
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
    return new_table(kind, **fields)[0]


# The status of a machine, the same for all systems and roles: a runtime needs to know nothing else.
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
    """Place of a field in a status, in bytes."""
    return 8 * names_of(STATUS).index(name)


def new_status() -> np.ndarray:
    return new_table(STATUS)


# What a host counts, the same for every system. The results have these names, too.
COUNTER_NAMES = (
    "gradient_packets",  # sent by a worker, of every kind, retransmissions included
    "retransmissions",
    "answered_asks",  # retransmissions that the server asked for
    "results",  # fragments whose result a worker received (a server: sent first)
    "duplicate_results",  # results that a worker had already (a server: served again)
    "values_checked",
    "marked_results",  # results with an ECN echo
    "saturated",  # results with the overflow flag
    "foreign",  # packets that are not for this machine's job, or not of its protocol
    "stale",  # packets of an iteration that is over
    "ps_packets",  # gradient packets that reached the server
    "ps_aggregates",  # of these, sums of all workers
    "ps_partials",  # of these, sums that left a switch early
    "ps_collisions",  # of these, single contributions that found their slot taken
    "ps_resends",  # of these, retransmissions
    "ps_known",  # of these, contributions that the server had already
    "ps_overlaps",  # of these, sums that overlapped what the server had, and were dropped
    "ps_replaced",  # of these, sums that contained what the server had, and replaced it
    "reminders",
    "reminders_empty",
    "asks",
    "gap_resends",  # retransmissions because later fragments' results were here already
    "rehashes",  # window positions to which the server gave another index
    "float_results",  # results summed as floating-point numbers (a worker: received)
    "collisions_signalled",  # fragments that a switch has dropped and told the worker of
)

COUNTERS = record(*COUNTER_NAMES)


def new_counters() -> np.ndarray:
    return new_table(COUNTERS)


def as_dict(counters: np.ndarray) -> dict[str, int]:
    """Counters of a machine, by name."""
    return dict(zip(COUNTER_NAMES, counters.view(np.int64).tolist(), strict=True))


def replaced(part: Any, instead: dict[int, np.ndarray]) -> Any:
    """A machine, or a part of one, with other arrays: a part may be in several places."""
    if isinstance(part, np.ndarray):
        return instead.get(id(part), part)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(replaced(each, instead) for each in part))
    return part
