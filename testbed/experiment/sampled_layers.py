"""Jobs of which some layers are simulated (traffic/layer_sample.py): what may be asked beside them,
and the same experiment with fewer of their layers.

Whatever happens at a time of its own, and not in each layer, would meet another part of the whole
job than of its sample. So faults are refused, and so are jobs of which one is sampled and the other
is not, or that leave out different numbers of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from p4fabric.base.config.problems import Path, Problem

from testbed.experiment.rules import Found
from testbed.experiment.schema_jobs import SAMPLED, Job, RankModel

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment
    from testbed.experiment.schema_jobs import Fault
    from testbed.traffic.rank_source import TransformerSource


def is_sampled(job: Job) -> bool:
    """True if some layers of its model stand for all."""
    return isinstance(job.model, RankModel) and job.model.layers == SAMPLED


def source_of(job: Job) -> TransformerSource:
    """Source of the program of such a job, once loaded."""
    from testbed.traffic import rank_source  # it needs numpy

    source = rank_source.of(job.trace().ranks)
    assert isinstance(source, rank_source.TransformerSource)
    return source


def check(jobs: Sequence[Job], runtime: str, faults: Sequence[Fault] = ()) -> Found:
    """Problems of an experiment with such jobs."""
    sampled = [each for each in jobs if is_sampled(each)]
    for number, job in enumerate(jobs):
        if is_sampled(job):
            place = ("jobs", number, "model", "layers")
            yield from (Problem(place, text) for text in _problems(job, runtime, faults))
    if not sampled or any(job._trace is None for job in jobs):
        return
    samples = {job.name: source_of(job).transformer.sample for job in sampled}
    yield from _unlike(jobs, {name: (each.count, each.steps) for name, each in samples.items()})


def _problems(job: Job, runtime: str, faults: Sequence[Fault]) -> Iterator[str]:
    if runtime != "virtual":
        yield (
            f"found {SAMPLED} with runtime {runtime}, whose times differ from run to run; allowed"
            " with runtime virtual. Write a number of layers"
        )
    if faults:
        yield (
            f"found {SAMPLED} with faults, which would meet other layers of the whole job than of"
            " its sample. Take one of the two out"
        )


def _unlike(jobs: Sequence[Job], steps: dict[str, tuple[int, int]]) -> Iterator[Problem]:
    place: Path = ("jobs",)
    if len(steps) < len(jobs):
        others = ", ".join(job.name for job in jobs if job.name not in steps)
        yield Problem(
            place,
            f"layers of {', '.join(steps)} are sampled and those of {others} are not, so they would"
            " meet for a part of their time only. Sample all jobs, or none",
        )
    elif len({*steps.values()}) > 1:
        shown = ", ".join(f"{name} {of} and {more}" for name, (of, more) in steps.items())
        yield Problem(
            place,
            "sampled jobs that share a network need as many sizes, and as many steps of layers"
            f" beside them; found {shown}. Change sample.of, least or sizes of some",
        )


def smaller(experiment: Experiment) -> tuple[Experiment, ...]:
    """The same experiment with the smaller sizes of its sampled jobs, the smallest first; () if it
    has none."""
    if not any(map(is_sampled, experiment.jobs)):
        return ()
    count = source_of(experiment.jobs[0]).transformer.sizes
    return tuple(
        experiment.model_copy(
            update={"jobs": tuple(_of_size(job, number) for job in experiment.jobs)}
        )
        for number in range(count - 1)
    )


def _of_size(job: Job, number: int) -> Job:
    """The job with size number `number` of its sample."""
    from testbed.experiment.rank_jobs import rank_trace  # it needs numpy

    source = source_of(job)
    transformer = source.transformer
    source = source.of_layers(transformer.sample.sizes[number])
    made = job.model_copy()
    made._trace = rank_trace(source, job.compute_scale or 0)
    return made
