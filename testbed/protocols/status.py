"""Status and counters of hosts' machines: what a runtime and the results know of any of them."""

from __future__ import annotations

import numpy as np
from p4fabric.simulate import records
from p4fabric.simulate.records import new_table, record

# The same for all systems and roles: a runtime needs to know nothing else. It begins with what
# every machine has.
STATUS = record(
    *records.names_of(records.STATUS),
    "iterations",  # iterations finished (a server: begun)
    "fragment",  # where a value was wrong: in the iteration
    "position",  # in the fragment
    "found",
    "expected",
    "iteration",
    "news",  # 1: the program that gives the values is to be told something
    "open_calls",  # of that program, which are not done
)


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
