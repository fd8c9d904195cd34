"""What an experiment file may say about jobs that come and go; see schema.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from testbed.config.fields import ANY_TEXT, HOUR, Choice, Quantity, Section, Whole, as_pydantic
from testbed.config.units import TIME, FieldError
from testbed.experiment.placement import POLICIES
from testbed.experiment.schema_jobs import JobShape

MAX_JOBS = 256  # that the switch programs keep apart


class Kind(JobShape):
    """A kind of job that a Poisson process submits."""

    weight: Annotated[int, Whole(1, 10**6)] = Field(
        default=1,
        description="How often it is drawn, in proportion to the others' weights.",
    )


class Submission(JobShape):
    """A job and when it is submitted."""

    submit_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0,
        alias="submit",
        description="When, counted from the start of the run.",
    )


class Poisson(Section):
    """Jobs that are submitted independently of each other, drawn anew for each repetition."""

    jobs: Annotated[int, Whole(1, MAX_JOBS)] = Field(
        description="How many.",
    )
    interval_ns: Annotated[int, Quantity(TIME, 1, HOUR)] = Field(
        alias="interval",
        description="Average time from one submission to the next; the first is at 0.",
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1, max_length=MAX_JOBS)] = Field(
        description="What is submitted: jobs with the keys of [jobs](#jobs) but `start` and"
        " `placement`, and a `weight`.",
    )


class Arrivals(Section):
    """Jobs that come and go, in place of `jobs`: one of `csv`, `poisson`, `submissions`."""

    csv: Annotated[str | None, ANY_TEXT] = Field(
        default=None,
        description="A file with one line per job and the columns `submit`, `model`, `workers`,"
        " `iterations` and what else a job may have.",
    )
    poisson: Poisson | None = Field(
        default=None,
        description="Jobs that are drawn.",
    )
    submissions: Annotated[tuple[Submission, ...], Field(max_length=MAX_JOBS)] = Field(
        default=(),
        description="A list of jobs, each with the keys of [jobs](#jobs) but `start` and"
        " `placement`, and `submit`: when, counted from the start of the run (default `0 ns`).",
    )
    placement: Annotated[str, Choice(POLICIES)] = Field(
        default="packed",
        description="Which of the free hosts a job gets; the words mean what they mean for"
        " `jobs[].placement`.",
    )
    at_once: Annotated[int | None, Whole(1, MAX_JOBS, word="all")] = Field(
        default=None,
        description="Most jobs that run at the same time; all: as many as the hosts have room for."
        " A system that divides its memory among jobs makes so many parts.",
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Arrivals:
        given = [name for name in ("csv", "poisson", "submissions") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise as_pydantic(FieldError(found, "one of csv, poisson, submissions"))
        return self
