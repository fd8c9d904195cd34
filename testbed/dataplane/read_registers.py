"""Counters from a switch's registers, under the names that all systems share.

The P4 program counts events per job and adds up how long aggregators were filling and held, by how
that ended. Occupations that are still open when the registers are read are added here, so that
memory utilisation depends on no sampling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from p4engine.values.numbers import ControlError

from testbed.number_formats import FPISA
from testbed.protocols.sizes import memory_part
from testbed.results.counters import OVERWRITTEN
from testbed.systems.statistics import (
    CAUSES,
    ENDINGS_PER_JOB,
    EVENTS_PER_JOB,
    FILLING,
    HELD,
    Statistics,
)

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, Platform, PortStats


def occupancy(platform: Platform, client: Control) -> list[tuple[int, int, int]]:
    """(filling, held) aggregators of each job now: a list of (job, filling, held); [] without."""
    if not platform.system.memory:
        return []
    if platform.switch == "bmv2":
        return occupancy_of_slots(platform, client)
    answers = client.batch(occupancy_calls(platform))
    counted = occupied(platform, answers)
    return [(job, filling, held) for job, filling, held in counted.tolist()]


def occupancy_calls(platform: Platform) -> list[tuple]:
    """The control calls whose answers `occupied` needs."""
    jobs = platform.numbers
    read = "register_read" if platform.switch == "bmv2" else "register_words"
    return [
        (read, "events", 0, jobs * EVENTS_PER_JOB),
        (read, "endings", 0, jobs * ENDINGS_PER_JOB),
        (read, "releases", 0, jobs),
    ]


def of_jobs(platform: Platform, values: Any, each: int) -> np.ndarray:
    """A register with `each` values per communicator, as sums over the jobs' communicators,
    int64[J, each]."""
    found = np.asarray(values, np.int64).reshape(-1, each)
    if not any(platform.groups):
        return found
    sums = np.zeros((platform.job_count, each), np.int64)
    np.add.at(sums, platform.owners, found)
    return sums


def occupied(
    platform: Platform, answers: Any, running: Collection[int] | None = None
) -> np.ndarray:
    """(job, filling, held) of each job, int64[J, 3], from the answers to `occupancy_calls`; where
    the `running` jobs are given, of these, and of others only if they have left something
    behind."""
    kept = platform.scheme.statistics(platform)
    events = of_jobs(platform, answers[0], EVENTS_PER_JOB)
    endings = of_jobs(platform, answers[1], ENDINGS_PER_JOB)
    found = np.zeros((len(events), 3), np.int64)
    found[:, 0] = np.arange(len(events))
    found[:, 1] = events[:, kept.claim_columns].sum(axis=1) - endings.sum(axis=1)
    if platform.scheme.may_hold(platform):
        released = of_jobs(platform, answers[2], 1)[:, 0]
        found[:, 2] = events[:, kept.place(0, "completions")] - released
    if running is not None:
        told = (found[:, 1] != 0) | (found[:, 2] != 0)
        told[list(running)] = True
        found = found[told]
    return found


def occupancy_of_slots(platform: Platform, client: Control) -> list[tuple[int, int, int]]:
    """The same as `occupancy`, by looking at each aggregator.

    For a switch on which packets pass between two readings, so that counts that were read one after
    the other have no difference that means anything; and quicker there for a pool that is not
    large."""
    names = _slot_registers(platform.scheme.statistics(platform))
    states = [name for name in names if not name.endswith("since")]
    read = dict(
        zip(states, client.batch([("register_read", name) for name in states]), strict=True)
    )
    times = [0] * len(read[states[0]])
    registers = [read.get(name, times) for name in names]
    jobs, owners = platform.job_count, platform.owners
    filling, held = [0] * jobs, [0] * jobs
    for number, state, _ in _slots(platform, registers):
        if number < len(owners):
            filling[owners[number]] += state == FILLING
            held[owners[number]] += state == HELD
    return list(zip(range(jobs), filling, held, strict=True))


def counters(
    platform: Platform, client: Control, whole: Mapping[int, Fraction] | None = None
) -> list[tuple[int, str, int]]:
    """All counters of a switch as (job, name, value); times in ns. [] without switch memory.

    whole: by communicator, the share of the sums completed here that have all its workers; then
    counter `sums` is among them."""
    if not platform.system.memory:
        return []
    jobs, numbers, owners = platform.job_count, platform.numbers, platform.owners
    timestamp_unit_ns = platform.timestamp_unit_ns
    kept = platform.scheme.statistics(platform)
    registers = _slot_registers(kept)
    counted = [("register_read", OVERWRITTEN, 0, numbers)] * (platform.sum.adder == FPISA)
    events, endings, filling, held, *more, stats = client.batch(
        [
            ("register_read", "events", 0, numbers * EVENTS_PER_JOB),
            ("register_read", "endings", 0, numbers * ENDINGS_PER_JOB),
            ("register_read", "filling_time", 0, numbers * ENDINGS_PER_JOB),
            ("register_read", "held_time", 0, numbers),
            *counted,
            *(("register_read", name, 0, None) for name in registers),
            # Last: on BMv2 time goes on within a batch, and none may have been claimed later.
            ("stats",),
        ]
    )
    now = stats["timestamp"]
    overwritten, slot_registers = more[: len(counted)], more[len(counted) :]
    completed = np.asarray(events, np.int64)[kept.place(0, "completions") :: EVENTS_PER_JOB]
    events = of_jobs(platform, events, EVENTS_PER_JOB)
    endings = of_jobs(platform, endings, ENDINGS_PER_JOB)
    filling = of_jobs(platform, filling, ENDINGS_PER_JOB)
    held = of_jobs(platform, held, 1)[:, 0]
    times: dict[int, dict[int, list[int]]] = {job: {FILLING: [], HELD: []} for job in range(jobs)}
    for number, state, since in _slots(platform, slot_registers):
        if number < numbers and state in (FILLING, HELD):
            times[int(owners[number])][state].append(int(now) - since)
    rows: list[tuple[int, str, int]] = []
    for job in range(jobs):
        for name in kept.events:
            rows.append((job, name, int(events[job, kept.place(0, name)])))
        open_times = times[job]
        for ending, name in kept.endings.items():
            rows.append((job, f"ended_{name}", int(endings[job, ending])))
            filled_ns = int(filling[job, ending]) * timestamp_unit_ns
            rows.append((job, f"filling_{name}_ns", filled_ns))
        rows.append((job, "ended_open", len(open_times[FILLING])))
        rows.append((job, "filling_open_ns", sum(open_times[FILLING]) * timestamp_unit_ns))
        rows.append((job, "held_ns", int(held[job]) * timestamp_unit_ns))
        rows.append((job, "held_open_ns", sum(open_times[HELD]) * timestamp_unit_ns))
    for register in overwritten:
        found = of_jobs(platform, register, 1)[:, 0]
        rows += [(job, OVERWRITTEN, int(found[job])) for job in range(jobs)]
    if whole is not None:
        sums = dict.fromkeys(range(jobs), 0)
        for number, share in whole.items():
            sums[int(owners[number])] += round(completed[number] * share)
        rows += [(job, "sums", count) for job, count in sums.items()]
    return rows


def port_counts(
    platform: Platform, client: Control
) -> tuple[list[PortStats], list[tuple[int, bool, str, int]]]:
    """Counts of a switch's ports, and the causes of packets to a PS, both at one moment.

    The first are the rows of `port_stats()`, with the packets that the switch has refused at each
    port (p4/admission.p4) as `refused` of direction ingress; null for egress, and where switches
    admit everything; and those that it has marked (p4/egress.p4) as `marks` of direction egress.
    The second are (communicator, whether they left for the PS itself, cause, packets) with packets
    (p4/departures.p4), [] without a PS.
    """
    departures: list[tuple[int, bool, str, int]] = []
    if platform.system.servers == "none":
        rows = client.port_stats()
    else:
        size = platform.numbers * 2 * EVENTS_PER_JOB
        calls = [("register_read", "departures", 0, size), ("port_stats",)]
        counted, rows = client.batch(calls)
        counts = np.asarray(counted, np.int64).reshape(-1, 2, EVENTS_PER_JOB)
        for number, to_switch in np.argwhere(counts.any(axis=2)).tolist():
            here = counts[number, to_switch]
            causes = ((cause, int(here[[*each]].sum())) for cause, each in CAUSES.items())
            departures += [(number, not to_switch, *each) for each in causes if each[1]]
    refused = refusals(platform, client, [row["port"] for row in rows])
    marked = marks(client, [row["port"] for row in rows if row["direction"] == "egress"])
    for row in rows:
        is_egress = row["direction"] == "egress"
        row["refused"] = None if is_egress else refused.get(row["port"])
        row["marks"] = marked.get(row["port"]) if is_egress else None
    return rows, departures


def marks(client: Control, ports: list[int]) -> dict[int, int]:
    """Number of packets that a switch has marked, by egress port; {} for a program of somebody's
    own that does not count them."""
    try:
        counts = client.batch([("counter_read", "marks", port) for port in ports])
    except ControlError:
        return {}
    return {port: count["packets"] for port, count in zip(ports, counts, strict=True)}


def refusals(platform: Platform, client: Control, ports: Iterable[int]) -> dict[int, int]:
    """Number of packets that a switch has refused, by ingress port; {} where switches admit
    everything."""
    if platform.admission == "off":
        return {}
    ports = list(ports)
    counts = client.batch([("counter_read", "refusals", port) for port in ports])
    return {port: count["packets"] for port, count in zip(ports, counts, strict=True)}


def _slot_registers(kept: Statistics) -> tuple[str, ...]:
    """The registers that say who has the aggregators, for what and since when, for `_slots`."""
    owners = (kept.owners,) if kept.owners else () if kept.sets else kept.registers("job")
    return (*owners, *kept.registers("state"), *kept.registers("since"))


def _slots(platform: Platform, registers: list[Any]) -> Iterator[tuple[int, int, int]]:
    """(job, state, since) of all aggregators, from the registers of the experiment's system."""
    kept = platform.scheme.statistics(platform)
    if kept.owners:
        return _of_owned_slots(len(kept.sets), *registers)
    if sets := len(kept.sets):
        return _of_slots(platform, registers[:sets], registers[sets:])
    return _of_pool(registers)


def _of_pool(registers: list[Any]) -> Iterator[tuple[int, int, int]]:
    """(job, state, since) of the aggregators of a shared pool."""
    for job, state, since in zip(*registers, strict=True):
        yield int(job), int(state), int(since)


def _of_owned_slots(sets: int, owners: Any, *registers: Any) -> Iterator[tuple[int, int, int]]:
    """The same of sets of slots that have owners."""
    for number, *found in zip(owners, *registers, strict=True):
        for state, begun in zip(found[:sets], found[sets:], strict=True):
            yield int(number), int(state), int(begun)


def _of_slots(
    platform: Platform, states: list[Any], since: list[Any]
) -> Iterator[tuple[int, int, int]]:
    """The same of sets of slots, which belong to jobs by the partition."""
    if platform.arrivals:  # a part has another job each time
        return
    for job in range(platform.numbers):  # a group's number is that of its part
        part = memory_part(platform.aggregators, len(states), platform.memory_parts, job)
        for slot in range(part.base, part.base + part.slots):
            for state, begun in zip(states, since, strict=True):
                yield job, int(state[slot]), int(begun[slot])
