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
    from testbed.experiment.schema_background import Background
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


def check(
    jobs: Sequence[Job],
    runtime: str,
    faults: Sequence[Fault] = (),
    background: Sequence[Background] = (),
) -> Found:
    """Problems of an experiment with such jobs."""
    sampled = [each for each in jobs if is_sampled(each)]
    for number, job in enumerate(jobs):
        if is_sampled(job):
            place = ("jobs", number, "model", "layers")
            yield from (Problem(place, text) for text in _problems(job, runtime, faults))
            if _of_parts(job) and (background or any(each.start_ns for each in jobs)):
                yield Problem(
                    ("jobs", number, "model", "sample", "messages"),
                    "found beside other traffic, or jobs that begin later, whose times do not"
                    " shrink along with messages. Take this key out, or background and start",
                )
    if not sampled or any(job._trace is None for job in jobs):
        return
    models = {job.name: source_of(job).transformer for job in sampled}
    if len({each.messages for each in models.values()}) > 1:
        yield Problem(
            ("jobs",),
            f"jobs {', '.join(models)} share a network, so they need the same sample.messages",
        )
    samples = {name: each.sample for name, each in models.items()}
    yield from _unlike(jobs, {name: (each.count, each.steps) for name, each in samples.items()})


def _of_parts(job: Job) -> bool:
    assert isinstance(job.model, RankModel)
    return job.model.sample is not None and job.model.sample.messages < 1


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
    """The same experiment with the smaller sizes of its sampled jobs: all layers' sizes with the
    smallest part of messages, then with the next; () if it has none."""
    if not any(map(is_sampled, experiment.jobs)):
        return ()
    first = source_of(experiment.jobs[0]).transformer
    sizes = [(number, part) for part in first.parts for number in range(first.sizes)]
    return tuple(
        experiment.model_copy(
            update={"jobs": tuple(_of_size(job, *size) for job in experiment.jobs)}
        )
        for size in sizes[:-1]
    )


def _of_size(job: Job, number: int, part: float) -> Job:
    """The job with size number `number` of its sample, and such a part of its messages."""
    from testbed.experiment.rank_jobs import rank_trace  # it needs numpy

    source = source_of(job)
    transformer = source.transformer
    source = source.of_size(transformer.sample.sizes[number], part)
    made = job.model_copy()
    made._trace = rank_trace(source, job.compute_scale or 0)
    return made
