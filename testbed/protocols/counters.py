"""What a host counts: places in an int64 array, the same for every system.

`NAMES[i]` is the name under which place i appears in the results.
"""

from __future__ import annotations

import numpy as np

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

(
    GRADIENT_PACKETS,
    RETRANSMISSIONS,
    ANSWERED_ASKS,
    RESULTS,
    DUPLICATE_RESULTS,
    VALUES_CHECKED,
    MARKED_RESULTS,
    SATURATED,
    FOREIGN,
    STALE,
    PS_PACKETS,
    PS_AGGREGATES,
    PS_PARTIALS,
    PS_COLLISIONS,
    PS_RESENDS,
    PS_KNOWN,
    PS_OVERLAPS,
    PS_REPLACED,
    REMINDERS,
    REMINDERS_EMPTY,
    ASKS,
    GAP_RESENDS,
    REHASHES,
    FLOAT_RESULTS,
    COLLISIONS_SIGNALLED,
) = range(len(NAMES))


def new_counters() -> np.ndarray:
    return np.zeros(len(NAMES), np.int64)
