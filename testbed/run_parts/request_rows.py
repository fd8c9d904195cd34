"""Rows of table requests: when the tokens of each request were there, from the times of a serving
job's nodes (traffic/inference.py). The steps of a batch follow each other, whatever the stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from testbed.results.schema import Row
from testbed.traffic import rank_source
from testbed.traffic.inference import Inference
from testbed.traffic.serving import PREFILL
from testbed.traffic.trace import Trace

Spans = dict[tuple[int, int], tuple[int, int]]  # begin and end in ns, by worker and node


def request_rows(
    traces: Mapping[int, Trace], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> list[Row]:
    """The rows of all jobs that serve a model. traces: of jobs, by number; tables:
    result_rows.time_tables."""
    served = {number: model for number, trace in traces.items() if (model := _served(trace))}
    if not served or "steps" not in tables:
        return []
    columns = tables["steps"]
    spans: defaultdict[tuple[int, int], Spans] = defaultdict(dict)
    names = ("job", "iteration", "worker", "node", "start_ns", "end_ns")
    of_served = np.isin(columns["job"], [*served])
    chosen = (np.asarray(columns[name])[of_served].tolist() for name in names)
    for job, iteration, worker, node, start_ns, end_ns in zip(*chosen, strict=True):
        if worker % served[job].tp == 0:  # the others of its group do the same
            spans[job, iteration][worker, node] = start_ns, end_ns
    return [
        {"job": job, "iteration": iteration} | row
        for (job, iteration), known in sorted(spans.items())
        for row in _rows(served[job], known)
    ]


def _served(trace: Trace) -> Inference | None:
    source = rank_source.of(trace.ranks) if trace.ranks else None
    return source.inference if isinstance(source, rank_source.InferenceSource) else None


def _rows(model: Inference, spans: Spans) -> list[Row]:
    """The requests of an iteration that were sent. spans: of the nodes that have ended."""
    stages, answered = model.stages(), model.schedule[1]
    if (0, 0) not in spans:
        return []
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
    until = [*accumulate(computed)]

    def ended(step: int) -> int | None:
        return ends[step + 1] if step + 1 < len(ends) else None

    return [
        {
            "request": number,
            "prompt": request.prompt,
            "output": 1 if model.kind == PREFILL else request.output,
            "sent_ns": ended(times.sent),
            "first_ns": ended(times.first),
            "end_ns": ended(times.last),
            "compute_ns": until[times.last + 1] - until[times.sent + 1]
            if ended(times.last) is not None
            else None,
        }
        for number, (request, times) in enumerate(zip(model.requests, answered, strict=True))
        if ended(times.sent) is not None
    ]
