"""What a switch's registers have counted, under the names that all systems share.

The P4 program counts events per job and adds up how long aggregators were filling and held, by how
that ended. Occupations that are still open when the registers are read are added here, so that
memory utilisation depends on no sampling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.experiment import Experiment

# p4/esa.p4: the events in order of their numbers, from 1; the endings from 0.
EVENTS = (
    "allocations",
    "additions",
    "completions",
    "duplicates",
    "re_emissions",
    "overlaps",
    "preemptions",
    "preemptions_held",
    "collisions",
    "downgrades",
    "ghosts",
    "flushes",
    "flush_additions",
    "reminders",
    "reminders_empty",
    "releases",
    "results_passed",
    "passes",
    "outside",
)
ENDINGS = ("completed", "evicted", "pulled", "discarded")
EVENTS_PER_JOB = 32
CLAIMS = tuple(
    1 + EVENTS.index(name) for name in ("allocations", "preemptions", "preemptions_held", "ghosts")
)
FILLING = 1
HELD = 2


def occupancy(experiment: Experiment, client: Any) -> list[tuple[int, int, int]]:
    """(filling, held) aggregators of each job now: a list of (job, filling, held); [] without."""
    if not experiment.system_entry.memory:
        return []
    jobs = len(experiment.jobs)
    events, endings, releases = client.batch(
        [
            ("register_read", "events", 0, jobs * EVENTS_PER_JOB),
            ("register_read", "endings", 0, jobs * len(ENDINGS)),
            ("register_read", "releases", 0, jobs),
        ]
    )
    held_after_completion = experiment.system.release == "on_result"
    result = []
    for job in range(jobs):
        ended = endings[job * len(ENDINGS) : (job + 1) * len(ENDINGS)]
        claimed = sum(events[job * EVENTS_PER_JOB + event] for event in CLAIMS)
        held = ended[0] - releases[job] if held_after_completion else 0
        result.append((job, int(claimed - sum(ended)), int(held)))
    return result


def counters(
    experiment: Experiment, client: Any, timestamp_unit_ns: int = 1000
) -> list[tuple[int, str, int]]:
    """All counters of a switch as (job, name, value); times in ns. [] without switch memory.

    `timestamp_unit_ns` is the unit of the P4 program's clock."""
    if not experiment.system_entry.memory:
        return []
    jobs = len(experiment.jobs)
    pool = experiment.aggregators
    stats, events, endings, filling, releases, held, state, owner, since = client.batch(
        [
            ("stats",),
            ("register_read", "events", 0, jobs * EVENTS_PER_JOB),
            ("register_read", "endings", 0, jobs * len(ENDINGS)),
            ("register_read", "filling_time", 0, jobs * len(ENDINGS)),
            ("register_read", "releases", 0, jobs),
            ("register_read", "held_time", 0, jobs),
            ("register_read", "slot_state", 0, pool),
            ("register_read", "slot_job", 0, pool),
            ("register_read", "slot_since", 0, pool),
        ]
    )
    now = stats["timestamp"]
    rows: list[tuple[int, str, int]] = []
    for job in range(jobs):
        for event, name in enumerate(EVENTS, 1):
            rows.append((job, name, int(events[job * EVENTS_PER_JOB + event])))
        open_times = {FILLING: [], HELD: []}
        for slot in range(pool):
            if state[slot] and owner[slot] == job:
                open_times[int(state[slot])].append(int(now) - int(since[slot]))
        for ending, name in enumerate(ENDINGS):
            place = job * len(ENDINGS) + ending
            rows.append((job, f"ended_{name}", int(endings[place])))
            rows.append((job, f"filling_{name}_ns", int(filling[place]) * timestamp_unit_ns))
        rows.append((job, "ended_open", len(open_times[FILLING])))
        rows.append((job, "filling_open_ns", sum(open_times[FILLING]) * timestamp_unit_ns))
        rows.append((job, "held_ns", int(held[job]) * timestamp_unit_ns))
        rows.append((job, "held_open_ns", sum(open_times[HELD]) * timestamp_unit_ns))
    return rows
