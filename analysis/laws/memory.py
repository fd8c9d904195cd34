"""Laws of switch memory: of occupations, and of samples beside the totals."""

from __future__ import annotations

from collections import Counter, defaultdict

from p4fabric.netfile.law import Held, law

from testbed.analysis.laws.tables import Tables
from testbed.analysis.laws.traffic import is_event
from testbed.results.counters import ENDINGS

CLAIMS = ("allocations", "preemptions", "preemptions_held", "ghosts")


@law(
    "occupations",
    "Each occupation of an aggregator begins once and ends once, if only with the run.",
    "sum of switch_counters.value of claims = sum of ended_*; ended_completed <= completions",
    "no switch has memory",
)
def occupations(run: Tables, held: Held) -> None:
    counts: Counter[tuple] = Counter()
    owners: Counter[str] = Counter()
    begun: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for switch, job, name, value in run.rows("switch_counters", "switch job counter value"):
        counts[switch, job, name] = value
        owners[switch] += 1
        if name in CLAIMS:
            begun[switch] += value
        elif name.startswith("ended_"):
            ended[switch] += value
    for switch in owners:
        held.equal(switch, "ended occupations", ended[switch], "begun", begun[switch])
    for (switch, job, name), value in counts.items():
        if name == "ended_completed":
            whole = counts[switch, job, "completions"]
            # The gradient of a single worker, or a sum of all below, is complete without one.
            held.at_most(f"{switch}, job {job}", name, value, "completions", whole)
        elif name == "sums":
            whole = counts[switch, job, "completions"]
            held.at_most(f"{switch}, job {job}", name, value, "completions", whole)


@law(
    "times of occupations",
    "Aggregators are in use no longer than the run lasts, and only where occupations were.",
    "sum of filling_*_ns + held_*_ns <= memory.capacity x time; filling_X_ns = 0 without ended_X",
    "no switch has memory",
)
def times(run: Tables, held: Held) -> None:
    size: dict[str, tuple[int, int]] = {}
    for switch, time_ns, capacity in run.rows("memory", "switch time_ns capacity"):
        before = size.get(switch, (0, 0))
        size[switch] = max(time_ns, before[0]), max(capacity, before[1])
    used: Counter[str] = Counter()
    counts: dict[tuple, int] = {}
    for switch, job, name, value in run.rows("switch_counters", "switch job counter value"):
        counts[switch, job, name] = value
        used[switch] += value if name.endswith("_ns") else 0
    for (switch, job, name), value in counts.items():
        ending = name.removeprefix("ended_")
        if ending in ENDINGS and ending != name and value == 0:
            spent = counts.get((switch, job, f"filling_{ending}_ns"), 0)
            held.equal(f"{switch}, job {job}", f"filling_{ending}_ns", spent, name, 0)
    for switch, (last_ns, capacity) in size.items():
        if run.virtual and run.finished:
            whole = capacity * last_ns
            held.at_most(switch, "aggregator-time", used[switch], "pool x time", whole)


@law(
    "samples of memory",
    "The aggregators in use are at most the pool; those of all jobs are the sum of each job's.",
    "memory.occupied + held <= capacity; row without job = sum of the rows with one",
    "no memory was sampled",
)
def samples(run: Tables, held: Held) -> None:
    whole: dict[tuple, tuple[int, int, int]] = {}
    parts: defaultdict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for switch, time_ns, job, filling, kept, capacity in run.rows(
        "memory", "switch time_ns job occupied held capacity"
    ):
        if job is None:
            whole[switch, time_ns] = filling, kept, capacity
        else:
            each = parts[switch, time_ns]
            each[0] += filling
            each[1] += kept
    for key, (filling, kept, capacity) in whole.items():
        place = key[0], "at", key[1], "ns"
        held.at_most(place, "aggregators in use", filling + kept, "capacity", capacity)
        if key in parts:
            held.equal(place, "of all jobs", (filling, kept), "their sum", tuple(parts[key]))


@law(
    "samples of events",
    "Samples of a counter end at its total, and never fall while its switch runs.",
    "last events.value = sum of switch_counters.value",
    "no events were sampled",
)
def events(run: Tables, held: Held) -> None:
    kinds = {kind for (kind,) in run.rows("faults", "kind")}
    if "restart" in kinds or not run.has("events"):
        return
    last: dict[tuple, int] = {}
    for switch, name, value in run.rows("events", "switch event value"):
        before = last.get((switch, name), 0)
        held.at_most((switch, name), "sample before", before, "now", value)
        last[switch, name] = value
    totals: Counter[tuple] = Counter()
    sampled = {switch for (switch,) in run.rows("memory", "switch")}
    for switch, name, value in run.rows("switch_counters", "switch counter value"):
        if is_event(name) and switch in sampled:
            totals[switch, name] += value
    if not run.virtual or not run.finished:
        return
    for switch, name in totals.keys() | last.keys():
        total = totals[switch, name]
        held.equal(f"{switch}, {name}", "last sample", last.get((switch, name), 0), "total", total)


@law(
    "samples of queues",
    "No sample of a queue is longer than its longest length.",
    "queues.packets <= links.max_queue",
    "no queues were sampled",
)
def queues(run: Tables, held: Held) -> None:
    longest = {
        (node, port): length
        for node, port, direction, length in run.rows("links", "node port direction max_queue")
        if direction == "egress" and length is not None
    }
    for switch, port, packets in run.rows("queues", "switch port packets"):
        if (switch, port) in longest:
            most = longest[switch, port]
            held.at_most((switch, "port", port), "queue", packets, "max_queue", most)


@law(
    "places in pools",
    "The places of a pool in use at a moment are among those that all samples of it count.",
    "pool.filling + held <= seen; their sums <= memory.occupied and held of that moment",
    "no places were sampled",
)
def places(run: Tables, held: Held) -> None:
    whole = {
        (switch, time_ns): filling + kept
        for switch, time_ns, job, filling, kept in run.rows(
            "memory", "switch time_ns job occupied held"
        )
        if job is None
    }
    used: Counter[tuple] = Counter()
    looked: Counter[tuple] = Counter()
    for switch, time_ns, seen, filling, kept in run.rows(
        "pool", "switch time_ns seen filling held"
    ):
        used[switch, time_ns] += filling + kept
        looked[switch, time_ns] += seen
    for key, count in used.items():
        place = key[0], "at", key[1], "ns"
        held.at_most(place, "places in use", count, "looked at", looked[key])
        if run.virtual and key in whole:
            held.at_most(place, "places in use", count, "aggregators in use", whole[key])
