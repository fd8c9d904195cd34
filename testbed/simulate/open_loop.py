"""The steps of served models whose requests come at given times, before a run in virtual time.

A step takes the requests that have come by its begin, so the steps follow from their times, and a
program has to be known before it runs. So the same is simulated again and again: each time the ends
that steps had say who had come to the next ones, up to the first step that should have taken other
requests than it did; the ends of later ones are predicted by their computation. When no step should
have, the run that follows is what its own times say. Its experiment has them, as
`requests.steps`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from p4fabric.base.errors import RunError
from p4fabric.base.steps import step

from testbed.run_parts.request_rows import step_ends
from testbed.schemes import set_up
from testbed.traffic import rank_source
from testbed.traffic.rank_source import InferenceSource

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.experiment.schema_jobs import Job
    from testbed.run_parts.run import Run
    from testbed.traffic.inference import Inference

MOST = 100  # simulations


def settled(run: Run) -> Run:
    """The run with the steps of all such jobs; itself, if there are none. Raises RunError."""
    from testbed.simulate.virtual_run import run_repetition

    if not any(map(_source_of, run.experiment.jobs)):
        return run
    for number in range(1, MOST + 1):
        with step(run.console, f"finding which steps take which requests, simulation {number}"):
            tables = run_repetition(run.setup, run.program.compiled, sampled=False)
        traces = {number: job.trace() for number, job in enumerate(run.experiment.jobs)}
        found = step_ends(traces, tables)
        models = {job: following(_inference_of(run, job), ends) for job, ends in found.items()}
        over = all(len(each.ends) == len(found[job]) for job, each in models.items())
        run = _with_models(run, models)
        if over:
            return run
    raise RunError(
        f"after {MOST} simulations it is not known which steps of a served model take which"
        " requests; take fewer requests, or a lower rate"
    )


def following(model: Inference, ends: list[int]) -> Inference:
    """The model with the ends that are right: all of them, or those before the first step that
    takes other requests. ends: of its steps, in ns from the begin."""
    steps = model.schedule[0]
    paces = []
    for prefill in (True, False):
        spent = computed = 0
        for number, (each, end_ns) in enumerate(zip(steps, ends, strict=True)):
            if each.prefill == prefill and number:
                spent += end_ns - ends[number - 1]
                computed += model.computed_ns(each)
        paces.append(spent / computed if computed else 1.0)
    whole = replace(model, ends=tuple(ends), paces=(paces[0], paces[1]))
    for number, (each, other) in enumerate(zip(steps, whole.schedule[0], strict=False)):
        if each != other:
            return replace(whole, ends=tuple(ends[:number]))
    return whole


def _source_of(job: Job) -> InferenceSource | None:
    source = rank_source.of(job.trace().ranks) if job.has_ranks else None
    open_loop = isinstance(source, InferenceSource) and source.inference.arrivals
    return source if open_loop and isinstance(source, InferenceSource) else None


def _inference_of(run: Run, number: int) -> Inference:
    source = _source_of(run.experiment.jobs[number])
    assert source is not None
    return source.inference


def _with_models(run: Run, models: dict[int, Inference]) -> Run:
    jobs = [*run.experiment.jobs]
    for number, model in models.items():
        jobs[number] = _of_model(jobs[number], model)
    experiment: Experiment = run.experiment.model_copy(update={"jobs": tuple(jobs)})
    return replace(run, experiment=experiment, setup=set_up(experiment))


def _of_model(job: Job, model: Inference) -> Job:
    from testbed.experiment.rank_jobs import rank_trace  # it needs numpy

    source = _source_of(job)
    assert source is not None and not isinstance(job.model, str) and job.model.requests is not None
    requests = job.model.requests.model_copy(update={"steps": model.ends})
    made = job.model_copy(update={"model": job.model.model_copy(update={"requests": requests})})
    made._trace = rank_trace(replace(source, inference=model), job.compute_scale or 0)
    return made
