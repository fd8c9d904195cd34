"""The keys of an experiment file for jobs that come and go; see schema.py."""

from __future__ import annotations

from typing import Annotated

from p4fabric.base.config.fields import (
    ANY_TEXT,
    HOUR,
    Choice,
    Number,
    Quantity,
    Reads,
    Section,
    Whole,
    as_pydantic,
)
from p4fabric.base.config.units import PERCENT, TIME, FieldError
from pydantic import Field, model_validator

from testbed.experiment.placement import POLICIES
from testbed.experiment.schema_jobs import JobShape
from testbed.protocols.sizes import MAX_JOBS, MAX_WORKERS
from testbed.traffic.cluster_traces import FORMS

QUEUES = ("fifo", "first_fit")


class Kind(JobShape):
    """A kind of job that a Poisson process submits. Its jobs may differ in length and size."""

    weight: Annotated[int, Whole(1, 10**6)] = Field(
        default=1,
        description="Relative frequency of this kind.",
    )
    longest: Annotated[int | None, Whole(1, 10**6)] = Field(
        default=None,
        json_schema_extra={"default": "`iterations`"},
        description="The largest number of iterations of this kind. A job's number is drawn from"
        " `iterations` to this, with a bounded Pareto distribution (see `tail`).",
    )
    tail: Annotated[float, Number(0, 10)] = Field(
        default=1.0,
        description="Exponent of that distribution: far from the limit, the share of jobs with"
        " more than n iterations falls with n to the power of -tail. Smaller values give a"
        " heavier tail; 0: each doubling of the length is equally likely.",
    )
    most_workers: Annotated[int | None, Whole(1, MAX_WORKERS)] = Field(
        default=None,
        json_schema_extra={"default": "`workers`"},
        description="The largest number of workers of this kind. A job's number is drawn from"
        " `workers`, twice, four times, ... as many, up to this; each is half as likely as the"
        " previous one.",
    )

    @model_validator(mode="after")
    def _at_least_the_smallest(self) -> Kind:
        pairs = (("longest", "iterations"), ("most_workers", "workers"))
        for most, least in pairs:
            found, low = getattr(self, most), getattr(self, least)
            if found is not None and found < low:
                raise as_pydantic(FieldError(f"{most}: {found}", f"at least {least}, {low}"))
        return self

    @property
    def worker_counts(self) -> tuple[int, ...]:
        """The numbers of workers that a job of this kind can have, ascending."""
        most = self.workers if self.most_workers is None else self.most_workers
        doublings = (most // self.workers).bit_length()
        return tuple(self.workers << n for n in range(doublings))


class Submission(JobShape):
    """A job and when it is submitted."""

    submit_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0,
        alias="submit",
        description="Time of the submission, from the start of the run.",
    )


class Poisson(Section):
    """Jobs that are submitted independently of each other. Each repetition draws its own."""

    jobs: Annotated[int, Whole(1, MAX_JOBS)] = Field(
        description="Number of jobs.",
    )
    interval_ns: Annotated[int | None, Quantity(TIME, 1, HOUR)] = Field(
        default=None,
        alias="interval",
        json_schema_extra={"default": "required, unless there is `load`"},
        description="Average time from one submission to the next; the first is at 0.",
    )
    load: Annotated[float | None, Quantity(PERCENT, 1, 1000)] = Field(
        default=None,
        json_schema_extra={"default": "required, unless there is `interval`"},
        description="Instead of `interval`: the work of the drawn jobs as a share of the hosts'"
        " capacity during the submissions. A job's work is its time alone (computation and"
        " communication of all iterations, not overlapped) times its hosts.",
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1, max_length=MAX_JOBS)] = Field(
        description="The kinds of jobs, each with the keys of [jobs](#jobs) except `start` and"
        " `placement`, and a `weight`.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Poisson:
        if (self.interval_ns is None) == (self.load is None):
            found = "neither" if self.load is None else "both"
            raise as_pydantic(FieldError(found, "one of interval, load"))
        return self


class TracedModel(JobShape):
    """A model that jobs of a cluster trace train."""

    weight: Annotated[int, Whole(1, 10**6)] = Field(
        default=1,
        description="How often a job gets this model, relative to the weights of the others.",
    )
    # The trace has them.
    workers: Annotated[int, Whole(1, MAX_WORKERS)] = 1
    iterations: Annotated[int, Whole(1, 10**6)] = 1

    @model_validator(mode="after")
    def _without_what_the_trace_says(self) -> TracedModel:
        for name in ("workers", "iterations"):
            if name in self.model_fields_set:
                raise as_pydantic(FieldError(name, "other keys of a job; the trace says this one"))
        return self


class ClusterTrace(Section):
    """Jobs of a public trace of a GPU cluster. Each repetition draws its own."""

    file: Annotated[str, ANY_TEXT, Reads("cluster trace")] = Field(
        description="The trace's file.",
    )
    format: Annotated[str, Choice(tuple(FORMS))] = Field(
        description="The trace: `philly` (the file `cluster_job_log`), `helios` (a file"
        " `cluster_log.csv`), `alibaba` (`pai_task_table.csv` of cluster-trace-gpu-v2020).",
    )
    jobs: Annotated[int, Whole(1, MAX_JOBS)] = Field(
        description="Number of jobs, drawn from those of the trace with enough GPUs.",
    )
    time_scale: Annotated[float, Number(0, 1, with_low=False)] = Field(
        description="Factor on the trace's durations and submission times.",
    )
    load: Annotated[float | None, Quantity(PERCENT, 1, 1000)] = Field(
        default=None,
        json_schema_extra={"default": "none: as `time_scale` makes them"},
        description="Scales the submission times so that the work of the drawn jobs is this"
        " share of the hosts' time; as [below](#arrivalspoisson).",
    )
    gpus_per_worker: Annotated[int, Whole(1, 1024)] = Field(
        default=1,
        description="Number of GPUs per worker; a job's number of workers is rounded up.",
    )
    fewest_workers: Annotated[int, Whole(1, MAX_WORKERS)] = Field(
        default=2,
        description="Jobs with fewer workers than this are skipped: a single worker exchanges no"
        " gradients.",
    )
    most_workers: Annotated[int | None, Whole(1, MAX_WORKERS)] = Field(
        default=None,
        json_schema_extra={"default": "none: a job that is too large is an error"},
        description="Jobs with more workers get this many.",
    )
    models: Annotated[tuple[TracedModel, ...], Field(min_length=1, max_length=MAX_JOBS)] = Field(
        description="The models, each with the keys of [jobs](#jobs) except `workers`,"
        " `iterations`, `start` and `placement`, and a `weight`. A job's model is drawn by weight.",
    )


class Arrivals(Section):
    """Jobs that come and go, instead of `jobs`: one of `csv`, `poisson`, `cluster_trace`,
    `submissions`."""

    csv: Annotated[str | None, ANY_TEXT, Reads("arrivals")] = Field(
        default=None,
        description="A file with one line per job and the columns `submit`, `model`, `workers`,"
        " `iterations`, and any other key of a job.",
    )
    poisson: Poisson | None = Field(
        default=None,
        description="Randomly drawn jobs.",
    )
    cluster_trace: ClusterTrace | None = Field(
        default=None,
        description="Jobs of a public trace of a GPU cluster.",
    )
    submissions: Annotated[tuple[Submission, ...], Field(max_length=MAX_JOBS)] = Field(
        default=(),
        description="A list of jobs, each with the keys of [jobs](#jobs) except `start` and"
        " `placement`, and `submit`: the time of its submission, from the start of the run"
        " (default `0 ns`).",
    )
    placement: Annotated[str, Choice(POLICIES)] = Field(
        default="packed",
        description="The free hosts that a job gets, with the values of `jobs[].placement`.",
    )
    queue: Annotated[str, Choice(QUEUES)] = Field(
        default="fifo",
        description="The next waiting job: `fifo`: the one that was submitted first, without"
        " overtaking; `first_fit`: the first in the queue that fits on the free hosts.",
    )
    at_once: Annotated[int | None, Whole(1, MAX_JOBS, word="all")] = Field(
        default=None,
        description="Largest number of concurrent jobs; all: as many as fit on the hosts. A"
        " system that divides its memory among jobs divides it into this number of parts.",
    )

    @model_validator(mode="after")
    def _one_of_four(self) -> Arrivals:
        sources = "csv", "poisson", "cluster_trace", "submissions"
        given = [name for name in sources if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise as_pydantic(FieldError(found, f"one of {', '.join(sources)}"))
        return self
