"""A small run whose numbers fit together, written through the Writer, worked out by hand.

One switch with 8 aggregators and release on the result, two jobs of two workers, 10 fragments (640
values) per iteration, no loss. Packets, per fragment of two:

    job 0 ("big", 2 iterations, 20 fragments, 40 packets)
        12 fragments complete in the switch:  12 claims, 12 completions      -> 12 packets to the PS
         5 fragments collide with both:       10 downgrades                  -> 10
         3 fragments are evicted:              3 claims, evicted             ->  3
           and their second packets claim:     3 claims, pulled by reminders ->  3
    job 1 ("small", 3 iterations, 30 fragments, 60 packets)
        24 fragments complete:                24 claims, 24 completions      -> 24
         3 complete after evicting job 0:      3 preemptions, 3 completions  ->  3
         3 fragments collide with both:        6 downgrades                  ->  6

A frame is 326 bytes. Times are in ms, times `stretch`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from testbed.experiment import load_text
from testbed.experiment.figure import Figure
from testbed.results import SWEEP_FILE, Results, Writer, read
from testbed.results.fidelity import rows as fidelity_rows

FRAME = 14 + 20 + 8 + 24 + 4 + 256
ENVIRONMENT = {"kernel": "Linux test", "timestamp_unit_ns": 1000}
EXPERIMENT = """
name: real
topology: {kind: star, hosts: 6}
links: {bandwidth: 10 Mbit/s}
system: {name: esa}
memory: {aggregators: 64}
timers: {ack_delay: 3 ms}
jobs:
  - {name: big, model: vgg16, workers: 2, iterations: 2, scale: 0.001}
  - {name: small, model: resnet50, workers: 2, iterations: 3, scale: 0.001}
"""

COUNTERS = {
    0: {
        "allocations": 18,
        "completions": 12,
        "downgrades": 10,
        "reminders": 3,
        "releases": 12,
        "ended_completed": 12,
        "ended_evicted": 3,
        "ended_pulled": 3,
        "filling_completed_ns": 100,
        "filling_evicted_ns": 40,
        "filling_pulled_ns": 24,
        "held_ns": 48,
    },
    1: {
        "allocations": 24,
        "preemptions": 3,
        "completions": 27,
        "downgrades": 6,
        "releases": 27,
        "ended_completed": 27,
        "filling_completed_ns": 60,
        "held_ns": 32,
    },
}
# per job and worker: (start, compute end, end) of each iteration
ITERATIONS = {
    (0, 0): [(0, 30, 50), (45, 80, 100)],
    (0, 1): [(0, 32, 52), (47, 81, 100)],
    (1, 0): [(20, 30, 40), (40, 50, 60), (60, 70, 80)],
    (1, 1): [(20, 30, 40), (40, 50, 60), (60, 70, 80)],
}


def tables(
    system: str = "esa", stretch: float = 1.0, cpu: float = 0.5
) -> dict[str, list[dict] | dict]:
    """All tables of one repetition, as rows."""
    ms = round(1_000_000 * stretch)
    jobs = []
    for job, name, iterations, start, end, ps_packets, reminders in (
        (0, "big", 2, 0, 100, 28, 3),
        (1, "small", 3, 20, 80, 33, 0),
    ):
        jobs.append(
            {
                "job": job,
                "name": name,
                "model": "vgg16" if job == 0 else "resnet50",
                "gpu": "v100",
                "system": system,
                "workers": 2,
                "iterations": iterations,
                "values": 640,
                "fragments": 10,
                "batch": 32 if job == 0 else None,
                "compute_ns": 30 * iterations * ms,
                "submitted_ns": start * ms,
                "start_ns": start * ms,
                "waiting_ns": 0,
                "end_ns": end * ms,
                "jct_ns": (end - start) * ms,
                "outcome": "finished",
                "exact": True,
                "values_checked": 640 * iterations * 2,
                "gradient_packets": 20 * iterations,
                "retransmissions": 0,
                "ps_packets": ps_packets,
                "ps_link_bytes_in": ps_packets * FRAME,
                "ps_link_bytes_out": 10 * iterations * FRAME + reminders * 70,
                "results": 10 * iterations,
                "reminders": reminders,
                "asks": 0,
                "saturated": 0,
            }
        )
    iterations, tensors = [], []
    for (job, worker), spans in ITERATIONS.items():
        for number, (start, compute_end, end) in enumerate(spans):
            place = {"job": job, "worker": worker, "iteration": number}
            times = {"start_ns": start, "compute_end_ns": compute_end, "end_ns": end}
            iterations.append(place | {name: value * ms for name, value in times.items()})
            half = (start + compute_end) // 2
            quarter = (start + half) // 2
            for tensor, begin, turn, ready in (
                (0, start, quarter, compute_end),
                (1, quarter + 1, half, half),
            ):
                times = {"forward_start_ns": begin, "forward_end_ns": turn, "ready_ns": ready}
                times |= {"first_sent_ns": ready, "done_ns": end - 2 * tensor}
                times = {name: value * ms for name, value in times.items()}
                tensors.append(place | {"tensor": tensor} | times)
    hosts, links = [], []
    names = [("worker", 0, 0), ("worker", 0, 1), ("ps", 0, None)]
    names += [("worker", 1, 0), ("worker", 1, 1), ("ps", 1, None)]
    for number, (role, job, worker) in enumerate(names):
        fragments = 20 if job == 0 else 30
        sent = jobs[job]["results"] + jobs[job]["reminders"] if role == "ps" else fragments
        received = jobs[job]["ps_packets"] if role == "ps" else fragments
        hosts.append(
            {
                "host": f"h{number + 1}",
                "role": role,
                "job": job,
                "worker": worker,
                "packets_sent": sent,
                "packets_received": received,
                "bytes_sent": sent * FRAME,
                "bytes_received": received * FRAME,
                "retransmissions": 0,
                "duplicate_results": 0,
                "socket_drops": 0,
                "lag_p50_ns": 1000,
                "lag_p99_ns": 20_000,
                "lag_max_ns": 90_000,
                "cpu_ns": 40 * ms,
                "cpu_peak_share": cpu,
                "pss_bytes": 30_000_000,
            }
        )
        for direction, packets in (("ingress", sent), ("egress", received)):
            links.append(
                {
                    "node": "s1",
                    "port": number + 1,
                    "neighbour": f"h{number + 1}",
                    "direction": direction,
                    "rate_bps": 10_000_000,
                    "packets": packets,
                    "bytes": packets * FRAME,
                    "queue_drops": 0,
                    "losses": 0,
                    "duplicates": 0,
                    "reordered": 0,
                    "unmodelled_drops": 0,
                    "max_queue": 7,
                }
            )
    counters = [
        {
            "switch": "s1",
            "job": job,
            "counter": name,
            "value": value * ms if name.endswith("_ns") else value,
        }
        for job, values in COUNTERS.items()
        for name, value in values.items()
    ]
    memory = [
        {
            "switch": "s1",
            "time_ns": time * ms,
            "job": job,
            "occupied": occupied,
            "held": held,
            "capacity": 8,
        }
        for time in range(0, 101, 10)
        for job, occupied, held in (
            (0, 2 if time < 100 else 0, time % 20 // 10),
            (1, 3 if 20 <= time < 80 else 0, 0),
            (None, (2 if time < 100 else 0) + (3 if 20 <= time < 80 else 0), time % 20 // 10),
        )
    ]
    events = [
        {"switch": "s1", "time_ns": time * ms, "event": event, "value": value}
        for event, time, value in (
            *(("allocations", 10, 18), ("allocations", 60, 42)),
            *(("preemptions", 40, 2), ("preemptions", 60, 3)),
        )
    ]
    pool = [
        {"switch": "s1", "time_ns": time * ms, "first": first, "seen": 4, "filling": 2, "held": 1}
        for time in range(0, 101, 20)
        for first in (0, 4)
    ]
    return {
        "jobs": jobs,
        "iterations": iterations,
        "tensors": tensors,
        "hosts": hosts,
        "switch_counters": counters,
        "memory": memory,
        "events": events,
        "pool": pool,
        "links": links,
        "fidelity": fidelity_rows(jobs, hosts, links, {"s1": 0.6}),
    }


def write_tables(parent: Path, *repetitions: dict, name: str = "run", text: str = "") -> Results:
    """A finished run of these tables, one mapping for each repetition."""
    with Writer.create(parent, name, text or f"name: {name}\nsystem: esa\n", ENVIRONMENT) as writer:
        for repetition, found in enumerate(repetitions):
            for table, rows in found.items():
                writer.write(table, rows, repetition=repetition)
        writer.finish()
    return read(writer.folder)


def write_run(
    parent: Path,
    name: str = "synthetic",
    system: str = "esa",
    stretches: tuple[float, ...] = (1.0,),
    cpu: float = 0.5,
) -> Path:
    """A finished run with one repetition per stretch; returns its folder."""
    found = [tables(system, stretch, cpu) for stretch in stretches]
    text = f"name: {name}\nsystem: {system}\n"
    return write_tables(parent, *found, name=name, text=text).folder


def _value(text: str, number: float | None = None) -> dict:
    return {"text": text, "number": number}


def write_sweep(folder: Path) -> Path:
    """A sweep's folder: ESA at two sizes, ATP at one and not run at the other, and the ring, which
    has no memory; returns it."""
    points = [
        ("a", "esa", {"system": _value("esa"), "memory.aggregators": _value("16", 16)}),
        ("b", "esa", {"system": _value("esa"), "memory.aggregators": _value("32", 32)}),
        ("c", "atp", {"system": _value("atp (gap 3)"), "memory.aggregators": _value("16", 16)}),
        ("d", "atp", {"system": _value("atp (gap 3)"), "memory.aggregators": _value("32", 32)}),
        ("e", "ring", {"system": _value("ring")}),
    ]
    described = {
        "format": 1,
        "name": "swept",
        "keys": ["system", "memory.aggregators"],
        "points": [
            {"key": key, "system": system, "values": values} for key, system, values in points
        ],
    }
    (folder / SWEEP_FILE).write_text(json.dumps(described))
    for key, system, _ in points:
        if key != "d":
            stretches = (1.0, 1.1, 1.2) if key == "b" else (2.0,)
            write_run(folder / key, system=system, stretches=stretches)
    return folder


# (model, rate, GPU) -> how long ESA, SwitchML, ring and PS take; SwitchML has failed in one place.
MAP_TIMES = {
    ("vgg16", "10 Gbit/s", "v100"): {"esa": 2, "switchml": 1, "ring": 3, "ps": 4},
    ("vgg16", "100 Gbit/s", "v100"): {"esa": 2, "switchml": 2.5, "ring": 1, "ps": 4},
    ("vgg16", "10 Gbit/s", "a100"): {"esa": 2, "ring": 2, "ps": 1.5},
    ("vgg16", "100 Gbit/s", "a100"): {"ring": 2},
    ("gpt2", "10 Gbit/s", "v100"): {"esa": 1, "ring": 8},
}
MAP_SEEDS = (1.0, 1.1, 1.3)  # all series of a seed are as much slower


def write_map(parent: Path, of: Mapping[tuple[str, str, str], dict] = MAP_TIMES) -> Path:
    """A sweep whose figure is a map over rates, models and GPUs, each with three seeds; returns its
    folder."""
    points = []
    for (model, rate, gpu), times in of.items():
        for system, stretch in times.items():
            key = f"p{len(points)}"
            number = float(rate.split()[0]) * 1e9
            values = {
                "jobs[0].model": {"text": model, "number": None},
                "links.bandwidth": {"text": rate, "number": number},
                "gpu": {"text": gpu, "number": None},
                "jobs[0].compute_scale": {"text": "1", "number": 1.0},
                "system": {"text": system, "number": None},
            }
            points.append({"key": key, "system": system, "values": values})
            write_run(parent / key, system=system, stretches=[stretch * part for part in MAP_SEEDS])
    figure = Figure(
        claim="It pays.",
        x="links.bandwidth",
        x_label="rate",
        rows=("gpu", "jobs[0].compute_scale"),
        each="jobs[0].model",
    )
    keys = list(points[0]["values"])
    described = {"format": 1, "name": "pays", "keys": keys, "points": points}
    described["figure"] = figure.model_dump(exclude_unset=True)
    (parent / SWEEP_FILE).write_text(json.dumps(described, default=list))
    return parent


def write_experiment_run(parent, runtime="mininet", stretch=1.0, finish=True):
    """The same numbers as the results of a whole experiment file, which can be run again."""
    environment = {**ENVIRONMENT, "runtime": runtime}
    text = EXPERIMENT.replace("topology:", f"runtime: {runtime}\ntopology:")
    resolved = load_text(text).resolved_yaml()
    with Writer.create(parent, runtime, resolved, environment) as writer:
        for table, rows in tables("esa", stretch, 0.5).items():
            writer.write(table, rows, repetition=0)
        if finish:
            writer.finish()
        else:
            writer.fail("it was tired")
    return read(writer.folder)


def write_cluster(parent: Path, jobs: int) -> Path:
    """A finished run of many jobs that take turns on the same hosts; the later, the longer. Job n
    has a JCT of n + 1 ms, half of which is computation, and completes n + 1 fragments. Returns its
    folder."""
    ms, run = 1_000_000, tables()
    hosts = [row for row in run["hosts"] if row["job"] == 1]
    made: dict[str, list[dict]] = {"jobs": [], "iterations": [], "hosts": [], "switch_counters": []}
    for job in range(jobs):
        own, length = {"job": job}, (job + 1) * ms
        times = {"submitted_ns": 0, "start_ns": 0, "end_ns": length, "jct_ns": length}
        bound = {"communication_bound_ns": length // 2, "iterations": 1, "values_checked": 1280}
        made["jobs"].append(run["jobs"][1] | own | times | bound | {"name": f"small-{job}"})
        spent = {"start_ns": 0, "compute_end_ns": length // 2, "end_ns": length}
        made["iterations"] += [
            own | {"worker": worker, "iteration": 0} | spent for worker in (0, 1)
        ]
        made["hosts"] += [row | own for row in hosts]
        counted = {"switch": "s1", "counter": "completions", "value": job + 1}
        made["switch_counters"].append(own | counted)
    with Writer.create(parent, "cluster", "system: esa", ENVIRONMENT) as writer:
        for table, rows in {**made, "links": run["links"], "memory": run["memory"]}.items():
            writer.write(table, rows, repetition=0)
        writer.finish()
    return writer.folder
