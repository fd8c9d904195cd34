"""A run as a trace for Perfetto's viewer (https://ui.perfetto.dev), from its tables.

The format is Chrome's JSON trace format, which the viewer reads: complete events (X) of one thread
nest or follow each other; async events (b, e) may overlap, so tensors in flight and iterations are
such; counters (C) have a row each. A process of the trace is a worker, with a thread for what it
computes and waits for, or a switch, with its memory and queues as counters; faults, flows and a
program's graph are processes of their own. Times are us since the start of the run, with
nanoseconds as decimals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data.run_summary import job_names
from testbed.results import whole
from testbed.results.counters import EVENTS

if TYPE_CHECKING:
    from testbed.results import Results

Event = dict[str, Any]
Span = tuple[str, float, float]  # kind, begin and end in ns

FAULTS, FLOWS, SWITCHES, WORKERS = 1, 2, 100, 10_000  # first process numbers
COMPUTE = 1  # thread of a worker
# Processes are listed in this order.
_ORDER = {FAULTS: 0, FLOWS: 1, WORKERS: 2, SWITCHES: 3}


def write(results: Results) -> list[Path]:
    """Write `perfetto.json` into the run's folder, or, with several repetitions, a file of each;
    returns the paths."""
    repetitions = sorted(results.jobs["repetition"].unique())
    paths = []
    for repetition in repetitions:
        more = f"-{repetition}" if len(repetitions) > 1 else ""
        path = results.folder / f"perfetto{more}.json"
        write_events(path, run_events(results, int(repetition)), {"run": results.name})
        paths.append(path)
    return paths


def write_events(path: Path, events: Iterable[Event], about: Mapping[str, str]) -> None:
    """Write events as a trace. about: facts that the viewer shows with it."""
    with whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "otherData": ')
        file.write(f'{json.dumps(dict(about))}, "traceEvents": [\n')
        for number, event in enumerate(events):
            file.write((",\n" if number else "") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")


def lane_events(
    lanes: Mapping[str, Sequence[Span]], title: str, number: int = 0
) -> Iterator[Event]:
    """The graph of the number-th rank: a process, whose nodes may overlap, by lane."""
    process = WORKERS + number
    yield from _process(process, title, _ORDER[WORKERS], number)
    for row, (lane, spans) in enumerate(lanes.items()):
        for place, (kind, begin, end) in enumerate(spans):
            identity = f"{process}.{row}.{place}"
            yield from _flight(process, identity, lane, kind, begin, end, {})


def run_events(results: Results, repetition: int) -> Iterator[Event]:
    """All events of a repetition."""

    def of(table: pd.DataFrame) -> pd.DataFrame:
        return table[table["repetition"] == repetition]

    names = job_names(results.jobs)
    yield from _fault_events(of(results.faults))
    yield from _flow_events(of(results.flows))
    hosts = of(results.hosts)
    hosts = hosts[hosts["role"] == "worker"].set_index(["job", "worker"])["host"].to_dict()
    tensors = {key: rows for key, rows in of(results.tensors).groupby(["job", "worker"])}
    nodes = {key: rows for key, rows in of(results.steps).groupby(["job", "worker"])}
    measures = {key: rows for key, rows in of(results.measures).groupby(["job", "worker"])}
    for number, (key, rows) in enumerate(of(results.iterations).groupby(["job", "worker"])):
        job, worker = key
        process = WORKERS + number
        title = f"{names.get(job, job)} worker {worker} on {hosts.get(key, '?')}"
        yield from _process(process, title, _ORDER[WORKERS], number)
        yield from _worker_events(process, rows, tensors.get(key), nodes.get(key))
        if key in measures:
            yield from _measure_events(process, measures[key])
    links = of(results.links)
    there = links.drop_duplicates(["node", "port"]).set_index(["node", "port"])["neighbour"]
    queues = of(results.queues)
    keys = zip(queues["switch"], queues["port"], strict=True)
    queues = queues.assign(neighbour=[str(there.get(key, key[1])) for key in keys])
    yield from _switch_events(of(results.memory), of(results.events), queues, names)


def _worker_events(
    process: int,
    iterations: pd.DataFrame,
    tensors: pd.DataFrame | None,
    nodes: pd.DataFrame | None,
) -> Iterator[Event]:
    yield _named("thread_name", process, COMPUTE, {"name": "computing and waiting"})
    for row in iterations.itertuples():
        if not pd.isna(row.end_ns):
            name = f"iteration {row.iteration}"
            identity = f"{process}.i{row.iteration}"
            yield from _flight(process, identity, "iterations", name, row.start_ns, row.end_ns, {})
    computed = _steps(iterations, tensors) if nodes is None else _node_steps(nodes)
    steps = sorted(computed, key=lambda step: step[1])
    for name, begin, end, arguments in steps:
        yield _slice(process, COMPUTE, "compute", name, begin, end, arguments)
    for (_, _, before, _), (name, begin, _, _) in pairwise(steps):
        if begin > before:
            yield _slice(process, COMPUTE, "wait", f"wait before {name}", before, begin, {})
    for row in () if tensors is None else tensors.itertuples():
        if pd.isna(row.first_sent_ns) or pd.isna(row.done_ns):
            continue
        told = {"iteration": int(row.iteration), "ready_us": _us(row.ready_ns)}
        identity = f"{process}.t{row.iteration}.{row.tensor}"
        name = f"tensor {row.tensor}"
        yield from _flight(
            process, identity, "tensors in flight", name, row.first_sent_ns, row.done_ns, told
        )
    moved = () if nodes is None else nodes[nodes["kind"] != "compute"].itertuples()
    for row in moved:
        told = {"iteration": int(row.iteration), "ranks": row.communicator}
        identity = f"{process}.n{row.iteration}.{row.node}"
        yield from _flight(
            process, identity, "collectives and transfers", row.kind, row.start_ns, row.end_ns, told
        )


def _node_steps(nodes: pd.DataFrame) -> Iterator[tuple[str, int, int, dict[str, int]]]:
    """The same of a rank of a program."""
    for row in nodes[nodes["kind"] == "compute"].itertuples():
        told = {"iteration": int(row.iteration)}
        yield f"node {row.node}", int(row.start_ns), int(row.end_ns), told


def _steps(
    iterations: pd.DataFrame, tensors: pd.DataFrame | None
) -> Iterator[tuple[str, int, int, dict[str, int]]]:
    """(name, begin, end, arguments) of what a worker computed: a forward step of each layer, and a
    backward step from one tensor that is ready to the next; whole iterations where steps were not
    recorded."""
    for row in iterations.itertuples():
        iteration = {"iteration": int(row.iteration)}
        steps = None if tensors is None else tensors[tensors["iteration"] == row.iteration]
        if steps is None or steps["forward_end_ns"].isna().all():
            if not pd.isna(row.compute_end_ns):
                yield "compute", int(row.start_ns), int(row.compute_end_ns), iteration
            continue
        forward = steps.dropna(subset=["forward_start_ns", "forward_end_ns"])
        for step in forward.itertuples():
            begin, end = int(step.forward_start_ns), int(step.forward_end_ns)
            yield f"forward {step.tensor}", begin, end, iteration
        turned = int(forward["forward_end_ns"].max())
        for step in steps.sort_values(["ready_ns", "tensor"]).itertuples():
            if step.ready_ns > turned:
                yield f"backward {step.tensor}", turned, int(step.ready_ns), iteration
                turned = int(step.ready_ns)


def _measure_events(process: int, rows: pd.DataFrame) -> Iterator[Event]:
    for row in rows.itertuples():
        if not pd.isna(row.value):
            yield _counter(process, str(row.name), row.time_ns, {str(row.name): float(row.value)})


def _switch_events(
    memory: pd.DataFrame, events: pd.DataFrame, queues: pd.DataFrame, names: pd.Series
) -> Iterator[Event]:
    switches = sorted({*memory["switch"], *events["switch"], *queues["switch"]}, key=units.natural)
    for number, switch in enumerate(switches):
        process = SWITCHES + number
        yield from _process(process, f"switch {switch}", _ORDER[SWITCHES], number)
        for row in memory[memory["switch"] == switch].itertuples():
            owner = "all jobs" if pd.isna(row.job) else str(names.get(row.job, row.job))
            for state, value in (("filling", int(row.occupied)), ("held", int(row.held))):
                yield _counter(process, f"{state}, {owner}", row.time_ns, {"aggregators": value})
        counted = events[events["switch"] == switch]
        for event in EVENTS:
            rows = counted[counted["event"] == event]
            for row in rows.itertuples():
                yield _counter(
                    process, event.replace("_", " "), row.time_ns, {"packets": int(row.value)}
                )
        for row in queues[queues["switch"] == switch].itertuples():
            name = f"queue to {row.neighbour}"
            yield _counter(process, name, row.time_ns, {"packets": int(row.packets)})


def _fault_events(faults: pd.DataFrame) -> Iterator[Event]:
    begun = faults[faults["begun_ns"].notna()]
    if not len(begun):
        return
    yield from _process(FAULTS, "faults", _ORDER[FAULTS])
    for number, row in enumerate(begun.itertuples()):
        name = f"{row.kind} {row.target}"
        if pd.isna(row.ended_ns) or row.ended_ns <= row.begun_ns:
            yield {
                **_event("i", FAULTS, 0, row.begun_ns),
                "name": name,
                "cat": "fault",
                "s": "g",
            }
            continue
        yield from _flight(FAULTS, f"f{number}", "faults", name, row.begun_ns, row.ended_ns, {})


def _flow_events(flows: pd.DataFrame) -> Iterator[Event]:
    begun = flows[flows["begun_ns"].notna()]
    if not len(begun):
        return
    yield from _process(FLOWS, "background traffic", _ORDER[FLOWS])
    for row in begun.itertuples():
        arguments = {"source": row.source, "target": row.target, "bytes": int(row.bytes)}
        ended = row.begun_ns if pd.isna(row.ended_ns) else row.ended_ns
        yield from _flight(
            FLOWS, f"flow{row.flow}", "flows", str(row.name), row.begun_ns, ended, arguments
        )


# -- events of the format


def _us(ns: float) -> float:
    return int(ns) / 1000


def _event(kind: str, process: int, thread: int, time_ns: float) -> Event:
    return {"ph": kind, "pid": process, "tid": thread, "ts": _us(time_ns)}


def _named(what: str, process: int, thread: int, arguments: dict[str, Any]) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": arguments}


def _process(process: int, name: str, group: int, place: int = 0) -> Iterator[Event]:
    yield _named("process_name", process, 0, {"name": name})
    yield _named("process_sort_index", process, 0, {"sort_index": group * 100_000 + place})


def _slice(
    process: int,
    thread: int,
    category: str,
    name: str,
    begin: float,
    end: float,
    arguments: Mapping[str, Any],
) -> Event:
    """Something on a thread, where only one thing happens at a time."""
    made = _event("X", process, thread, begin) | {"name": name, "cat": category}
    return made | {"dur": _us(end - begin), "args": dict(arguments)}


def _flight(
    process: int,
    identity: str,
    category: str,
    name: str,
    begin: float,
    end: float,
    arguments: Mapping[str, Any],
) -> Iterator[Event]:
    """Something that others of its kind may overlap; `identity` is its own."""
    common = {"name": name, "cat": category, "id": identity}
    yield _event("b", process, 0, begin) | common | {"args": dict(arguments)}
    yield _event("e", process, 0, end) | common


def _counter(process: int, name: str, time_ns: float, values: Mapping[str, float]) -> Event:
    return _event("C", process, 0, time_ns) | {"name": name, "args": dict(values)}
