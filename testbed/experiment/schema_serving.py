"""The keys of a job that serves requests; see schema_jobs.py."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from p4fabric.base.config.conditions import Bound, Condition
from p4fabric.base.config.fields import (
    ANY_TEXT,
    JsonSchema,
    Kind,
    Number,
    Reads,
    Section,
    Whole,
    as_pydantic,
)
from p4fabric.base.config.units import PERCENT, TIME, FieldError
from pydantic import Field, model_validator

from testbed.traffic.serving import MAX_REQUESTS, MAX_TOKENS, Lengths

TOKENS, TAIL = Whole(1, MAX_TOKENS), Number(0, 10)


@dataclass(frozen=True)
class DrawnLengths(Kind):
    """Numbers of tokens: one, or a distribution."""

    allowed = (
        f"a number of tokens from 1 to {MAX_TOKENS}, or a range, such as {{from: 64, to: 512}},"
        " with or without `tail`"
    )

    def parse(self, value: object) -> Lengths:
        if isinstance(value, Lengths):
            return value
        if not isinstance(value, dict):
            return Lengths(low := self._tokens(value), low)
        if not {"from", "to"} <= set(value) <= {"from", "to", "tail"}:
            raise FieldError(f"the keys {', '.join(map(str, value)) or 'none'}", self.allowed)
        low, high = self._tokens(value["from"]), self._tokens(value["to"])
        if low > high:
            raise FieldError(f"from: {low}, to: {high}", "`from` up to `to`")
        return Lengths(low, high, TAIL.parse(value["tail"]) if "tail" in value else None)

    def _tokens(self, value: object) -> int:
        try:
            return TOKENS.parse(value) or 1
        except FieldError as error:
            raise FieldError(error.found, self.allowed, error.hint) from None

    def show(self, value: Lengths | None) -> int | dict[str, float] | None:
        if value is None or value.low == value.high:
            return value and value.low
        tail = {} if value.tail is None else {"tail": value.tail}
        return {"from": value.low, "to": value.high, **tail}


@dataclass(frozen=True)
class Moments(Kind):
    """Times in ns, in their order."""

    allowed = "a list of whole numbers, each larger than the one before"

    def parse(self, value: object) -> tuple[int, ...]:
        if not isinstance(value, list | tuple) or not all(type(each) is int for each in value):
            raise FieldError("something else", self.allowed)
        found = tuple(value)
        if any(b <= a for a, b in pairwise((0, *found))):
            raise FieldError("another order", self.allowed)
        return found

    def json_schema(self) -> JsonSchema:
        return {"type": "array", "items": {"type": "integer", "minimum": 1}}


class Requests(Section):
    """Requests to a served model ([inference.md](inference.md)): a file, or drawn ones."""

    file: Annotated[str | None, ANY_TEXT, Reads("requests")] = Field(
        default=None,
        json_schema_extra={"default": "this or `count` is required"},
        description="A CSV file with columns `prompt` and `output`: tokens of each request's prompt"
        " and of its answer.",
    )
    count: Annotated[int | None, Whole(1, MAX_REQUESTS)] = Field(
        default=None,
        json_schema_extra={"default": "this or `file` is required"},
        description="How many requests are drawn.",
    )
    prompt: Annotated[Lengths | None, DrawnLengths()] = Field(
        default=None,
        json_schema_extra={"default": "required with `count`"},
        description="Tokens of a prompt: a number; or `{from: 64, to: 512}`, each of these equally"
        " likely; with `tail`, drawn from a bounded Pareto distribution with this exponent.",
    )
    output: Annotated[Lengths | None, DrawnLengths()] = Field(
        default=None,
        json_schema_extra={"default": "required with `count`; 1 with `kind: prefill`"},
        description="Tokens of an answer, in the same forms.",
    )
    seed: Annotated[int | None, Whole(0, 2 * 10**9)] = Field(
        default=None,
        json_schema_extra={"default": "0 with `count`"},
        description="Other seeds draw other requests.",
    )

    rate: Annotated[float | None, Number(0, 10**9, with_low=False)] = Field(
        default=None,
        json_schema_extra={"default": "none: each when an earlier one has been answered"},
        description="With `count`: requests in a second, of a Poisson process (open loop). Only in"
        " virtual time.",
    )
    steps: Annotated[tuple[int, ...] | None, Moments()] = Field(
        default=None,
        json_schema_extra={"default": "found before the run"},
        description="With times of arrival: the end of each step in ns, by which the scheduler"
        " knows who has come. `ina` writes them.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Requests:
        if (self.file is None) == (self.count is None):
            found = "neither" if self.file is None else "both"
            raise as_pydantic(FieldError(found, "one of file, count"))
        for name in ("prompt", "output", "seed", "rate") if self.file is not None else ():
            if getattr(self, name) is not None:
                raise as_pydantic(FieldError(name, "keys that belong to file"))
        if self.count is not None and self.prompt is None:
            raise as_pydantic(FieldError("no prompt", "count with prompt"))
        return self


Latency = Annotated[Condition | None, Bound(TIME)]


class ServingChecks(Section):
    """Conditions on what a served model's requests measured, such as `p99 tpot: "<= 20 ms"`. The
    run fails at its end if one does not hold. `ttft`: the time from when a request is sent to its
    first token; `tpot`: the time of each further token of a request, its mean."""

    mean_ttft: Latency = Field(default=None, alias="mean ttft", description="Mean over requests.")
    p50_ttft: Latency = Field(default=None, alias="p50 ttft", description="Median over requests.")
    p99_ttft: Latency = Field(default=None, alias="p99 ttft", description="99th percentile.")
    mean_tpot: Latency = Field(default=None, alias="mean tpot", description="Mean over requests.")
    p50_tpot: Latency = Field(default=None, alias="p50 tpot", description="Median over requests.")
    p99_tpot: Latency = Field(default=None, alias="p99 tpot", description="99th percentile.")
    tokens_per_s: Annotated[Condition | None, Bound()] = Field(
        default=None,
        alias="tokens/s",
        description="Tokens of all answers in a second, a whole number.",
    )
    network_share: Annotated[Condition | None, Bound(PERCENT)] = Field(
        default=None,
        alias="network share",
        description="Share of the time of all requests in which no stage computed for their batch.",
    )
