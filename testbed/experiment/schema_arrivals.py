"""The keys of an experiment file for jobs that come and go; see schema.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from testbed.config.fields import ANY_TEXT, HOUR, Choice, Quantity, Section, Whole, as_pydantic
from testbed.config.units import TIME, FieldError
from testbed.experiment.placement import POLICIES
from testbed.experiment.schema_jobs import JobShape
from testbed.protocols.sizes import MAX_JOBS


class Kind(JobShape):
    """A kind of job that a Poisson process submits."""

    weight: Annotated[int, Whole(1, 10**6)] = Field(
        default=1,
        description="How often this kind is drawn, relative to the weights of the others.",
    )


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
    interval_ns: Annotated[int, Quantity(TIME, 1, HOUR)] = Field(
        alias="interval",
        description="Average time from one submission to the next; the first is at 0.",
    )
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1, max_length=MAX_JOBS)] = Field(
        description="The kinds of jobs, each with the keys of [jobs](#jobs) except `start` and"
        " `placement`, and a `weight`.",
    )


class Arrivals(Section):
    """Jobs that come and go, instead of `jobs`: one of `csv`, `poisson`, `submissions`."""

    csv: Annotated[str | None, ANY_TEXT] = Field(
        default=None,
        description="A file with one line per job and the columns `submit`, `model`, `workers`,"
        " `iterations`, and any other key of a job.",
    )
    poisson: Poisson | None = Field(
        default=None,
        description="Jobs that are drawn at random.",
    )
    submissions: Annotated[tuple[Submission, ...], Field(max_length=MAX_JOBS)] = Field(
        default=(),
        description="A list of jobs, each with the keys of [jobs](#jobs) except `start` and"
        " `placement`, and `submit`: the time of its submission, from the start of the run"
        " (default `0 ns`).",
    )
    placement: Annotated[str, Choice(POLICIES)] = Field(
        default="packed",
        description="Which of the free hosts a job gets; the words are those of"
        " `jobs[].placement`.",
    )
    at_once: Annotated[int | None, Whole(1, MAX_JOBS, word="all")] = Field(
        default=None,
        description="How many jobs may run at the same time; all: as many as the hosts have room"
        " for. A system that divides its memory among jobs divides it into this number of parts.",
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Arrivals:
        given = [name for name in ("csv", "poisson", "submissions") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise as_pydantic(FieldError(found, "one of csv, poisson, submissions"))
        return self
