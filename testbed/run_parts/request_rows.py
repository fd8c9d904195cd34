"""Rows of table requests: when the tokens of each request were there, from the times of a serving
job's nodes (traffic/inference.py). The steps of a batch follow each other, whatever the stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from testbed.results.schema import RequestRow
from testbed.traffic import rank_source
from testbed.traffic.inference import Inference
from testbed.traffic.serving import PREFILL
from testbed.traffic.trace import Trace

Spans = dict[tuple[int, int], tuple[int, int]]  # begin and end in ns, by worker and node


def request_rows(
    traces: Mapping[int, Trace], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> list[RequestRow]:
    """The rows of all jobs that serve a model. traces: of jobs, by number; tables:
    result_rows.time_tables."""
    found = _spans(traces, tables)
    return [
        row
        for (job, iteration), (model, known) in found.items()
        for row in _rows(job, iteration, model, known)
    ]


def step_ends(
    traces: Mapping[int, Trace], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[int, list[int]]:
    """The ends of steps in ns from the begin, of jobs whose requests come at given times."""
    found = {}
    for (job, _), (model, known) in _spans(traces, tables).items():
        if model.arrivals:
            begin, *ends = _times(model, known)[0]
            found[job] = [end - begin for end in ends]
    return found


def _spans(
    traces: Mapping[int, Trace], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[tuple[int, int], tuple[Inference, Spans]]:
    """Of each job that serves a model and each iteration."""
    served = {number: model for number, trace in traces.items() if (model := _served(trace))}
    if not served or "steps" not in tables:
        return {}
    columns = tables["steps"]
    spans: defaultdict[tuple[int, int], Spans] = defaultdict(dict)
    names = ("job", "iteration", "worker", "node", "start_ns", "end_ns")
    of_served = np.isin(columns["job"], [*served])
    chosen = (np.asarray(columns[name])[of_served].tolist() for name in names)
    for job, iteration, worker, node, start_ns, end_ns in zip(*chosen, strict=True):
        if worker % served[job].tp == 0:  # the others of its group do the same
            spans[job, iteration][worker, node] = start_ns, end_ns
    return {(job, n): (served[job], known) for (job, n), known in sorted(spans.items())}


def _served(trace: Trace) -> Inference | None:
    source = rank_source.of(trace.ranks) if trace.ranks else None
    return source.inference if isinstance(source, rank_source.InferenceSource) else None


def _times(model: Inference, spans: Spans) -> tuple[list[int], list[int]]:
    """The begin and the ends of steps in ns, and the computation behind each number of them."""
    stages = model.stages()
    ends, computed = [spans[0, 0][0]], [0]  # behind each number of steps
    last = (model.pp - 1) * model.tp
    for step in range(len(stages[0].spans)):
        first, behind = stages[-1].spans[step]
        if any((last, node) not in spans for node in range(first, behind)):
            break
        ends.append(max(spans[last, node][1] for node in range(first, behind)))
        times = (
            spans[stage * model.tp, node]
            for stage, served in enumerate(stages)
            for node in served.computes(step)
        )
        computed.append(sum(end_ns - start_ns for start_ns, end_ns in times))
    return ends, computed


def _rows(job: int, iteration: int, model: Inference, spans: Spans) -> list[RequestRow]:
    """The requests of an iteration that were sent. spans: of the nodes that have ended."""
    if (0, 0) not in spans:
        return []
    answered = model.schedule[1]
    ends, computed = _times(model, spans)
    until = [*accumulate(computed)]
    come = [ends[0] + each for each in model.arrivals]

    def within(sent_ns: int, last: int) -> int:
        """Computation from a moment to the end of a step."""
        return sum(
            min(computed[step + 1], max(0, ends[step + 1] - max(sent_ns, ends[step])))
            for step in range(last + 1)
        )

    def ended(step: int) -> int | None:
        return ends[step + 1] if step + 1 < len(ends) else None

    return [
        {
            "job": job,
            "iteration": iteration,
            "request": number,
            "prompt": request.prompt,
            "output": 1 if model.kind == PREFILL else request.output,
            "sent_ns": come[number] if come else ends[times.sent + 1],
            "waited_ns": max(0, ends[times.sent + 1] - come[number]) if come else None,
            "first_ns": ended(times.first),
            "end_ns": ended(times.last),
            "compute_ns": None
            if ended(times.last) is None
            else within(come[number], times.last)
            if come
            else until[times.last + 1] - until[times.sent + 1],
        }
        for number, (request, times) in enumerate(zip(model.requests, answered, strict=True))
        if ended(times.sent) is not None
    ]
