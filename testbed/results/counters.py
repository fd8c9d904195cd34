"""The counters that a switch's P4 program keeps, by the names that all systems share.

A system fills those that it has; a counter that it has not has no row, which reads as null, not 0.
Event counters are disjoint: a packet that reaches the aggregation logic counts in exactly one, so
their sum is the number of such packets. They belong to the arriving packet's job; endings, times
and releases belong to the job that owned the aggregator.
"""

from __future__ import annotations

from collections.abc import Mapping

EVENTS: Mapping[str, str] = {
    "allocations": "gradient claimed an empty aggregator",
    "additions": "gradient was added to a sum that is not complete yet",
    "completions": "gradient was added and completed the sum",
    "duplicates": "gradient was in the sum already: dropped",
    "re_emissions": "gradient was in a complete, held sum: the sum was sent again",
    "overlaps": "gradient overlapped the sum in part: to the PS unchanged, if there is one",
    "preemptions": "gradient evicted a partial sum and took its aggregator",
    "preemptions_held": "gradient took the aggregator of a sum that had left already",
    "collisions": "gradient found another fragment: to its PS, the owner's priority unchanged",
    "downgrades": "the same, and the owner's priority was halved",
    "ghosts": "gradient claimed an aggregator untouched for max_age, or of a killed job",
    "flushes": "retransmission took along a sum that had its values already",
    "flush_additions": "retransmission took along a sum to which it was added",
    "reminders": "reminder from a PS pulled a partial sum",
    "reminders_empty": "reminder from a PS found nothing",
    "releases": "result from a PS freed its aggregator",
    "results_passed": "result from a PS found no aggregator to free",
    "passes": "gradient that is not to be aggregated here",
    "outside": "gradient's index fell outside its job's part of the pool: to its PS, or dropped",
    "over_rate": "gradient beyond the switch's aggregation capacity: to its PS unchanged",
    "stale_chunks": "gradient of a chunk that is over: dropped",
}

ENDINGS: Mapping[str, str] = {
    "completed": "the sum was complete",
    "evicted": "left as a partial because another fragment preempted it",
    "pulled": "left as a partial because of a reminder or a retransmission",
    "discarded": "freed without leaving: a ghost, a killed job's, or its result came first",
    "open": "still open when the run ended",
}

ENDED: Mapping[str, str] = {
    f"ended_{ending}": f"occupations that ended so: {meaning}"
    for ending, meaning in ENDINGS.items()
}

TIMES: Mapping[str, str] = {
    **{
        f"filling_{ending}_ns": f"aggregator-time from claim to end of filling: {meaning}"
        for ending, meaning in ENDINGS.items()
    },
    "held_ns": "aggregator-time from completion to release",
    "held_open_ns": "the same for sums that were still held when the run ended",
}

COUNTERS: Mapping[str, str] = {**EVENTS, **ENDED, **TIMES}

# A contribution is *absorbed* when its values went into an aggregator instead of travelling to the
# PS in a packet of their own. (A retransmission that flushes a sum travels on: not absorbed.)
ABSORBED = (
    "allocations",
    "additions",
    "completions",
    "preemptions",
    "preemptions_held",
    "ghosts",
)
FILLING = tuple(f"filling_{ending}_ns" for ending in ENDINGS)
HELD = ("held_ns", "held_open_ns")
