"""Laws of jobs: times, fragments, and what is null because nobody could count it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from p4fabric.netfile.law import Held, law

from testbed.analysis.laws.tables import Tables
from testbed.systems import SYSTEMS

OF_SERVERS = ("ps_packets", "results", "reminders", "asks")
OF_REAL_CLOCKS = ("socket_drops", "cpu_ns", "cpu_peak_share", "wait_share", "pss_bytes")


@law(
    "times of jobs",
    "A job's times follow from each other, and its end is that of its last worker.",
    "jct_ns = end_ns - submitted_ns + layers_ns; waiting_ns = start_ns - submitted_ns; end_ns ="
    " largest iterations.end_ns",
    "no job has times",
)
def times(run: Tables, held: Held) -> None:
    ends: dict[int, Any] = {}
    for job, end in run.rows("iterations", "job end_ns"):
        if end is not None:
            ends[job] = max(end, ends.get(job, 0))
    for job, name, submitted, start, waiting, end, jct, added, outcome in run.rows(
        "jobs", "job name submitted_ns start_ns waiting_ns end_ns jct_ns layers_ns outcome"
    ):
        place = f"job {name}"
        if submitted is not None:
            held.equal(place, "waiting_ns", waiting, "start - submission", start - submitted)
            taken = None if end is None else end - submitted + (added or 0)
            held.equal(place, "jct_ns", jct, "end - submission, with layers", taken)
        held.equal(place, "has an end", end is not None, "has finished", outcome == "finished")
        if end is not None and job in ends:
            held.equal(place, "end_ns", end, "its last iteration's", ends[job])


@law(
    "iterations",
    "A worker of a job that has finished has had all iterations, each of which ends with its last"
    " tensor.",
    "iterations.iteration of a worker = 0 to jobs.iterations - 1; iterations.end_ns = largest"
    " tensors.done_ns",
    "no job has finished",
    to_end=True,
)
def iterations(run: Tables, held: Held) -> None:
    done: dict[tuple, int] = {}
    tensors: Counter[tuple] = Counter()
    for *key, time_ns in run.rows("tensors", "job worker iteration done_ns"):
        tensors[tuple(key)] += 1
        if time_ns is not None:
            done[tuple(key)] = max(time_ns, done.get(tuple(key), 0))
    steps = {job for (job,) in run.rows("steps", "job")}
    numbers: defaultdict[tuple, list[int]] = defaultdict(list)
    for *key, end in run.rows("iterations", "job worker iteration end_ns"):
        numbers[key[0], key[1]].append(key[2])
        if end is not None and tuple(key) in done and key[0] not in steps:
            place = "job {}, worker {}, iteration {}".format(*key)
            held.equal(place, "end_ns", end, "last tensor's", done[tuple(key)])
    told = {job for job, _ in numbers}  # a program whose steps nobody knows has no iterations
    workers: Counter[int] = Counter()
    for job, role in run.rows("hosts", "job role"):
        workers[job] += role == "worker"
    for job, name, outcome, count, each in run.rows("jobs", "job name outcome workers iterations"):
        if outcome != "finished":
            continue
        held.equal(f"job {name}", "workers", count, "hosts that are its workers", workers[job])
        for worker in range(count if job in told else 0):
            had = sorted(numbers[job, worker])
            place = f"job {name}, worker {worker}"
            held.equal(place, "iterations", had, "all of them", list(range(each)))
    sizes: defaultdict[int, set[int]] = defaultdict(set)
    for (job, _, _), count in tensors.items():
        sizes[job].add(count)
    finished = {job for job, outcome in run.rows("jobs", "job outcome") if outcome == "finished"}
    for job in sizes.keys() & finished - steps:
        held.equal(f"job {job}", "tensors per iteration", len(sizes[job]), "kinds", 1)


@law(
    "fragments",
    "Each fragment reaches each worker once, from where it was completed: a switch or the PS.",
    "hosts.packets_received - duplicate_results of workers >= fragments x iterations, and at most"
    " jobs.asks more where nothing was sent again; sums <= fragments x iterations; results alike",
    "no job replays a model through switches or a PS to its end",
    to_end=True,
)
def fragments(run: Tables, held: Held) -> None:
    sums: Counter[int] = Counter()
    told: Counter[int] = Counter()  # that there was no room for a fragment
    for job, name, value in run.rows("switch_counters", "job counter value"):
        sums[job] += value if name == "sums" else 0
        told[job] += value if name == "collisions" else 0
    hosts: Counter[str] = Counter(host for (host,) in run.rows("hosts", "host"))
    got: defaultdict[int, list[int]] = defaultdict(list)
    shared = set()  # jobs with hosts that may get packets of others
    for host, role, job, received, again in run.rows(
        "hosts", "host role job packets_received duplicate_results"
    ):
        if role == "worker":
            got[job].append(received - again)
        if hosts[host] > 1:
            shared.add(job)
    fails = any(down is not None for (down,) in run.rows("links", "down_drops"))
    of_ranks = {job for (job,) in (*run.rows("steps", "job"), *run.rows("collectives", "job"))}
    for job, name, system, outcome, instead, *counts in run.rows(
        "jobs", "job name system outcome fallback fragments iterations retransmissions results asks"
    ):
        if outcome != "finished" or instead is not None or job in of_ranks or fails:
            continue
        count, each, resent, results, asks = counts
        place, whole = f"job {name}", count * each
        # Opening chunks, which carry exponents alone, are sums as well.
        known = SYSTEMS.get(system)
        opening = whole if known and (known.divided or known.managed) else 0
        if resent == 0:
            held.at_most(place, "sums of switches", sums[job], "fragments", whole + opening)
        if results is not None:
            held.at_most(place, "results of its PS", results, "fragments", whole)
            both = results + sums[job]
            held.at_most(place, "fragments", whole, "results and sums of switches", both)
        if (sums[job] or results) and job not in shared:
            for number, new in enumerate(got[job]):
                held.at_most(f"{place}, worker {number}", "fragments", whole, "packets got", new)
            if resent == 0:  # older runs do not count what came again after its iteration
                most = (whole + opening) * len(got[job]) + (asks or 0) + told[job]
                held.at_most(place, "packets at workers", sum(got[job]), "results, asks", most)


@law(
    "bounds",
    "A job communicates no shorter than its links allow.",
    "communication_bound_ns <= sum over iterations of last tensors.done_ns - first first_sent_ns",
    "no job with a bound has finished",
    to_end=True,
)
def bounds(run: Tables, held: Held) -> None:
    spans: dict[tuple, tuple[int, int]] = {}
    for job, number, first, last in run.rows("tensors", "job iteration first_sent_ns done_ns"):
        if first is not None and last is not None:
            low, high = spans.get((job, number), (first, last))
            spans[job, number] = min(low, first), max(high, last)
    spent: Counter[int] = Counter()
    for (job, _), (first, last) in spans.items():
        spent[job] += last - first
    changed = any(kind.startswith("link_") for (kind,) in run.rows("faults", "kind"))
    for job, name, outcome, bound in run.rows("jobs", "job name outcome communication_bound_ns"):
        if bound is not None and outcome == "finished" and spent[job] and not changed:
            held.at_most(f"job {name}", "bound in ns", bound, "communication", spent[job])


@law(
    "nulls",
    "What was not counted is null, and what was counted is not.",
    "jobs.ps_packets, results, ... are null if and only if no host is its PS; links.refused and"
    " marks only of ingress and egress; lags only of workers; what needs a clock not in virtual"
    " time",
    "the run has no hosts",
)
def nulls(run: Tables, held: Held) -> None:
    served = {job for job, role in run.rows("hosts", "job role") if role == "ps"}
    hosted = {job for (job,) in run.rows("hosts", "job")}
    for job, name, *counts in run.rows("jobs", "job name", *OF_SERVERS):
        if job in hosted:
            for column, count in zip(OF_SERVERS, counts, strict=True):
                known = count is not None
                held.equal(f"job {name}", f"{column} is known", known, "has a PS", job in served)
    for node, port, direction, refused, marks in run.rows(
        "links", "node port direction refused marks"
    ):
        egress = direction == "egress"
        unknown = refused if egress else marks
        what = "refused" if egress else "marks"
        held.equal(f"{node} port {port} {direction}", what, unknown, "not counted", None)
    for host, role, lag, *real in run.rows("hosts", "host role lag_p99_ns", *OF_REAL_CLOCKS):
        if role == "ps":
            held.equal(host, "lag of a PS", lag, "not counted", None)
        if run.virtual:
            held.equal(host, "values of a clock", {*real}, "none", {None})
    for number, kind, *values in run.rows("faults", "fault kind factor entries"):
        for name, value, of in zip(("factor", "entries"), values, ("slow", "reroute"), strict=True):
            place = f"fault {number}"
            held.equal(place, f"{name} is known", value is not None, f"is {of}", kind == of)


@law(
    "collectives",
    "All ranks of a group call the same, and what one sends another one gets. Steps have the bytes"
    " and the time of their calls.",
    "collectives.calls of a group are equal; sum of calls of send = of recv; sums of steps.bytes"
    " and end_ns - start_ns = collectives.bytes and time_ns",
    "no job has collectives",
    to_end=True,
)
def collectives(run: Tables, held: Held) -> None:
    calls: defaultdict[tuple, list[int]] = defaultdict(list)
    pairs: defaultdict[tuple, Counter[str]] = defaultdict(Counter)
    took: defaultdict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    killed = {job for job, outcome in run.rows("jobs", "job outcome") if outcome != "finished"}
    for job, group, name, dtype, route, count in run.rows(
        "collectives", "job communicator collective dtype route calls"
    ):
        if job in killed:
            continue
        if name in ("send", "recv"):
            pairs[job, group, dtype][name] += count
        else:
            calls[job, group, name, dtype, route].append(count)
    for (job, group, name, dtype, _), counts in calls.items():
        place = f"job {job}, group {group}, {name} {dtype}"
        held.equal(place, "fewest calls of a rank", min(counts), "most", max(counts))
    for (job, group, dtype), both in pairs.items():
        held.equal(
            f"job {job}, group {group} {dtype}", "sends", both["send"], "recvs", both["recv"]
        )
    steps = run.rows("steps", "job worker communicator kind bytes start_ns end_ns")
    for *call, size, start, end in steps:
        if size is not None:  # older runs do not know it
            took[tuple(call)][0] += size
            took[tuple(call)][1] += end - start
    told: defaultdict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for *call, size, time in run.rows(
        "collectives", "job worker communicator collective bytes time_ns"
    ):
        if tuple(call) in took and call[0] not in killed:
            told[tuple(call)][0] += size
            told[tuple(call)][1] += time
    for key, found in told.items():
        place = "job {}, worker {}, group {}, {}".format(*key)
        held.equal(place, "bytes and time of steps", took[key], "of calls", found)


@law(
    "requests",
    "A request is sent at its time of arrival, or else at the start of an iteration or when another"
    " one of its job has been answered, and is answered within its job; stages compute within its"
    " time.",
    "without waited_ns requests.sent_ns = an end_ns of the job and iteration, or its least sent_ns;"
    " sent_ns + waited_ns <= first_ns; end_ns <= jobs.end_ns; compute_ns <= end_ns - sent_ns",
    "no job serves a model",
)
def requests(run: Tables, held: Held) -> None:
    whole = {job: end for job, end in run.rows("jobs", "job end_ns")}
    groups: defaultdict[tuple, list[tuple]] = defaultdict(list)
    for job, iteration, *row in run.rows(
        "requests", "job iteration request sent_ns end_ns compute_ns waited_ns first_ns"
    ):
        groups[job, iteration].append(tuple(row))
    for (job, iteration), rows in groups.items():
        least = min(row[1] for row in rows)
        moments = {least, *(row[2] for row in rows)}
        for number, sent, end, computed, waited, first in rows:
            place = f"job {job}, iteration {iteration}, request {number}"
            if waited is None:
                held.equal(place, "its sending is at an end", sent in moments, "always", True)
            elif first is not None:
                held.at_most(place, "sent_ns + waited_ns", sent + waited, "first_ns", first)
            if end is not None:
                held.at_most(place, "compute_ns", computed, "its time", end - sent)
                if whole[job] is not None:
                    held.at_most(place, "end_ns", end, "its job's end", whole[job])
