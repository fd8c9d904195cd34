"""Rows of table requests: when the tokens of each request were there, from the times of a serving
job's nodes (traffic/inference.py). The steps of a batch follow each other, whatever the stages.
Each ep rank has a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from testbed.results.schema import RequestRow
from testbed.traffic import rank_source
from testbed.traffic.inference import Inference
from testbed.traffic.rank_calls import load_program
from testbed.traffic.rank_graph import COMPUTE, Program
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
        for row in _rows((job, iteration), model, load_program(traces[job].ranks), known)
    ]


def step_ends(
    traces: Mapping[int, Trace], tables: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[int, list[int]]:
    """The ends of steps in ns from the begin, of jobs whose requests come at given times."""
    found = {}
    for (job, _), (model, known) in _spans(traces, tables).items():
        if model.arrivals:
            begin, *ends = _times(model, load_program(traces[job].ranks), known, 0)[0]
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


def _times(
    model: Inference, program: Program, spans: Spans, place: int
) -> tuple[list[int], list[int]]:
    """The begin and the ends of an ep rank's steps in ns, and the computation in each, of all
    stages. The first number is 0."""
    ranks = range(place * model.tp, model.tp * model.ep * model.pp, model.tp * model.ep)
    firsts = ((each * model.tp, 0) for each in range(model.ep))
    ends, computed = [min(spans[each][0] for each in firsts if each in spans)], [0]
    for together in zip(*(model.steps_of(rank, program) for rank in ranks), strict=True):
        nodes = [(rank, node) for rank, of in zip(ranks, together, strict=True) for node in of]
        last = [each for each in nodes if each[0] == ranks[-1]]
        if any(each not in spans for each in last):
            break
        ends.append(max(spans[each][1] for each in last))
        times = (spans[r, n] for r, n in nodes if program.ranks[r][n].kind == COMPUTE)
        computed.append(sum(end_ns - start_ns for start_ns, end_ns in times))
    return ends, computed


def _rows(
    which: tuple[int, int], model: Inference, program: Program, spans: Spans
) -> list[RequestRow]:
    """The requests of an iteration that were sent. spans: of the nodes that have ended."""
    rows: list[RequestRow] = []
    for place in range(model.ep):
        if (place * model.tp, 0) in spans:
            rows += _rows_of(which, model, program, spans, place)
    return sorted(rows, key=lambda row: row["request"])


def _rows_of(
    which: tuple[int, int], model: Inference, program: Program, spans: Spans, place: int
) -> list[RequestRow]:
    """The same of an ep rank."""
    answered = model.schedules[place][1]
    ends, computed = _times(model, program, spans, place)
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
            "job": which[0],
            "iteration": which[1],
            "request": place + number * model.ep,
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
        for number, (request, times) in enumerate(zip(model.dealt(place), answered, strict=True))
        if ended(times.sent) is not None
    ]
