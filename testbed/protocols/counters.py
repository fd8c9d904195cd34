"""What a host counts: the fields of a record, the same for every system.

`NAMES` are the names under which the fields appear in the results too.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols.records import new_record, record

NAMES = (
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

COUNTERS = record(*NAMES)


def new_counters() -> np.ndarray:
    return new_record(COUNTERS)


def as_dict(counters: np.ndarray) -> dict[str, int]:
    """What a machine has counted, by name."""
    return dict(zip(NAMES, counters.view(np.int64).tolist(), strict=True))
