"""The counters of the switches' P4 programs, with the same names for all systems.

A counter that a system does not have has no row, which reads as null, not 0. Event counters are
disjoint: a packet that reaches the aggregation logic counts in exactly one of them, so their sum is
the number of such packets. An event counts for the arriving packet's job. Endings, times and
releases count for the job that owned the aggregator.
"""

from __future__ import annotations

from collections.abc import Mapping

EVENTS: Mapping[str, str] = {
    "allocations": "gradient claimed an empty aggregator",
    "additions": "gradient was added to an incomplete sum",
    "completions": "gradient was added and completed the sum",
    "duplicates": "gradient was already in the sum, or in one that has left: dropped",
    "re_emissions": "gradient was in a complete, held sum: the sum was resent",
    "overlaps": "gradient overlapped the sum partially: to the PS unchanged, if there is one",
    "preemptions": "gradient evicted a partial sum and took its aggregator",
    "preemptions_held": "gradient took the aggregator of a held sum",
    "collisions": "gradient found its aggregator taken: to its PS, the owner's priority unchanged",
    "downgrades": "gradient found its aggregator taken: to its PS, and the owner's priority was"
    " halved",
    "ghosts": "gradient claimed an aggregator untouched for max_age, or of a killed job",
    "flushes": "retransmission carried away a sum that already had its values",
    "flush_additions": "retransmission was added to a sum and carried it away",
    "reminders": "reminder from a PS pulled a partial sum",
    "reminders_empty": "reminder from a PS found nothing",
    "releases": "result from a PS freed its aggregator",
    "results_passed": "result from a PS found no aggregator to free",
    "passes": "gradient that this switch must not aggregate",
    "outside": "gradient with a worker, index or fragment that its job does not have: to its PS, or"
    " dropped",
    "over_rate": "gradient beyond the switch's aggregation capacity: to its PS unchanged",
    "stale_chunks": "gradient of a finished chunk: dropped",
}

# Why a packet left a switch for a PS (p4/departures.p4): each has exactly one cause.
DEPARTURES: Mapping[str, str] = {
    "completed": "sum that was completed here",
    "completed_elsewhere": "sum that another switch completed",
    "sent_again": "complete sum that was held here, sent again for a gradient that came twice",
    "evicted": "partial sum that a fragment of higher priority evicted here",
    "evicted_elsewhere": "partial sum that was evicted at another switch",
    "pulled": "sum that a reminder pulled here",
    "pulled_elsewhere": "sum that a reminder pulled at another switch",
    "flushed": "sum that a retransmission took along from here",
    "retransmitted": "retransmission, perhaps with a sum that it took along at another switch",
    "collided": "gradient that found its aggregator taken here",
    "collided_elsewhere": "gradient that found its aggregator taken at another switch",
    "over_rate": "gradient beyond the aggregation capacity of this switch",
    "over_rate_elsewhere": "gradient beyond the aggregation capacity of another switch",
    "overlapping": "gradient that overlapped the sum here partially",
    "outside": "gradient with a worker, index or fragment that its job does not have",
    "floats": "gradient as floating-point numbers, which switches do not add",
    "not_aggregated": "gradient of one worker that no switch on its way was to add",
    "nothing_held": "answer to a reminder for a fragment that a switch does not hold",
}

# Why a link lost a packet, and the columns of table links that count it.
LOSSES: Mapping[str, str] = {
    "queue_full": "dropped because the modelled queue was full",
    "lost": "dropped by the experiment's loss rate",
    "link_down": "lost because the link was down",
}
LOSS_COLUMNS = {"queue_drops": "queue_full", "losses": "lost", "down_drops": "link_down"}

# What a retransmission follows from.
RESENT: Mapping[str, str] = {
    **LOSSES,
    "collision": "no loss: a switch without room for the fragment had told the worker",
    "no_loss": "no loss of a packet of the fragment on a link: a timer that was too short, waiting"
    " for others, or a switch that was restarted",
    "unknown": "not known: BMv2, more than a million losses and retransmissions at a switch, or"
    " packets that hosts and kernels lost",
}

ENDINGS: Mapping[str, str] = {
    "completed": "the sum was complete",
    "evicted": "the sum left as a partial because another fragment preempted it",
    "pulled": "the sum left as a partial because of a reminder or a retransmission",
    "discarded": "the aggregator was freed without the sum: a ghost, of a killed job, or after"
    " its result",
    "open": "the sum was still open when the run ended",
}

ENDED: Mapping[str, str] = {
    f"ended_{ending}": f"occupations: {meaning}" for ending, meaning in ENDINGS.items()
}

TIMES: Mapping[str, str] = {
    **{
        f"filling_{ending}_ns": f"aggregator-time from claim to end of filling: {meaning}"
        for ending, meaning in ENDINGS.items()
    },
    "held_ns": "aggregator-time from completion to release",
    "held_open_ns": "held_ns for sums that were still held when the run ended",
}

# Of all completions, those that were not a part of a sum that is completed elsewhere.
SUMS = "sums"
OVERWRITTEN = "overwritten"  # with the format fpisa

COUNTERS: Mapping[str, str] = {
    **EVENTS,
    **ENDED,
    **TIMES,
    OVERWRITTEN: "values whose sum an addition has made wrong, with `sum: fpisa`"
    " ([numbers.md](numbers.md#fpisa))",
    SUMS: "completions of sums over all workers of a group or job; not with link failures",
}

# A contribution is *absorbed* if its values went into an aggregator and not to the PS in a packet
# of their own. (A retransmission that flushes a sum goes on to the PS, so it is not absorbed.)
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
