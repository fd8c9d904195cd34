"""What an experiment file may say about jobs and what goes wrong with them; see schema.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PrivateAttr

from testbed.experiment.fields import (
    ANY_TEXT,
    HOUR,
    MS,
    NAME,
    NODE,
    Choice,
    Nodes,
    Number,
    Quantity,
    Shorthand,
    Whole,
)
from testbed.experiment.units import PERCENT, TIME, FieldError, describe

if TYPE_CHECKING:
    from traffic.trace import Trace

from testbed.experiment.section import Section

MAX_WORKERS = 256  # the widest bitmap


class Placement(Section):
    """Which hosts a job runs on. A host has one role."""

    workers: tuple[Annotated[str, NODE], ...] = Field(
        description="The workers' hosts, as many as the job has workers.",
    )
    servers: Annotated[tuple[str, ...], Nodes()] = Field(
        default=(),
        alias="ps",
        json_schema_extra={"default": "required where the system has parameter servers"},
        description="The parameter server's host; a list where the job has several.",
    )

    @property
    def ps(self) -> str:
        """The parameter server of a system that has one per job."""
        (server,) = self.servers
        return server


def _packed(value: Any) -> Any:
    if isinstance(value, str) and value == "packed" or isinstance(value, dict):
        return None if isinstance(value, str) else value
    raise FieldError(describe(value), "packed, or a mapping {workers: [h1, h2], ps: h3}")


class Job(Section):
    """One training job. Jobs are numbered from 0 in the order of the file."""

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "model and number, such as `resnet50-0`"},
        description="What tables and figures call it.",
    )
    model: Annotated[str, ANY_TEXT] = Field(
        description="A trace: the name of a shipped one, or the path of a file of your own.",
    )
    workers: Annotated[int, Whole(1, MAX_WORKERS)] = Field(
        description="Number of workers, each on a host of its own.",
    )
    iterations: Annotated[int, Whole(1, 10**6)] = Field(
        description="Training iterations to replay.",
    )
    scale: Annotated[float, Number(0, 100, with_low=False)] = Field(
        default=1.0,
        description="Factor on the number of values of the model (every layer keeps at least one).",
    )
    compute_scale: Annotated[float | None, Number(0, 10_000)] = Field(
        default=None,
        json_schema_extra={"default": "the same as `scale`"},
        description="Factor on the model's compute times; 0: workers only communicate.",
    )
    compute_jitter: Annotated[float, Quantity(PERCENT, 0, 99)] = Field(
        default=0.0,
        description="By how much the compute time of an iteration differs: a worker's steps of one"
        " iteration take 1 - jitter to 1 + jitter times as long, drawn for each worker and"
        " iteration (uniform; its standard deviation is jitter / sqrt 3).",
    )
    speed_spread: Annotated[float, Quantity(PERCENT, 0, 99)] = Field(
        default=0.0,
        description="By how much the workers differ for good: all compute steps of a worker take"
        " 1 - spread to 1 + spread times as long, drawn once for each worker.",
    )
    start_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0,
        alias="start",
        description="When the job starts, counted from the start of the run.",
    )
    placement: Annotated[Placement | None, Shorthand(_packed)] = Field(
        default=None,
        json_schema_extra={"default": "`packed`"},
        description="`packed`: the next free hosts in the topology's order, workers first, then the"
        " parameter servers, if any. Hosts named by any job are not free.",
    )

    _trace: Trace | None = PrivateAttr(default=None)

    def trace(self) -> Trace:
        """What the job computes and sends per iteration, scaled (of a loaded experiment only)."""
        if self._trace is None:
            raise ValueError(f"job {self.name}: the model is not resolved")
        return self._trace

    @property
    def fixed_placement(self) -> Placement:
        """The placement of a loaded experiment, which is always decided."""
        if self.placement is None:
            raise ValueError(f"job {self.name}: the placement is not resolved")
        return self.placement


class Fault(Section):
    """Something that goes wrong on purpose, once.

    What it befalls is a job (`job`: all its processes), one of its workers (`job` and `worker`),
    one of its parameter servers (`job` and `ps`), or a switch (`switch`)."""

    at_ns: Annotated[int, Quantity(TIME, 0, 24 * HOUR)] = Field(
        alias="at",
        description="When, counted from the start of the run; for a job not before its start.",
    )
    kind: Annotated[str, Choice(("pause", "slow", "kill", "restart"))] = Field(
        alias="fault",
        description="`pause`: the process stands still (SIGSTOP), then goes on. `slow`: a worker's"
        " compute steps that begin in that time take `factor` times as long; the process of a"
        " server or switch runs 1/`factor` of the time, in turns of 20 ms. `kill`: the process"
        " ends (SIGKILL). `restart`: a switch's process ends and a new one gets tables, multicast"
        " groups and link settings again, its registers empty.",
    )
    job: Annotated[str | None, NAME] = Field(
        default=None,
        description="The name of the job.",
    )
    worker: Annotated[int | None, Whole(0, MAX_WORKERS - 1)] = Field(
        default=None,
        description="Number of the worker in its job, from 0.",
    )
    server: Annotated[int | None, Whole(0, 63)] = Field(
        default=None,
        alias="ps",
        description="Number of the parameter server in its job, from 0.",
    )
    switch: Annotated[str | None, NODE] = Field(
        default=None,
        description="The switch.",
    )
    duration_ns: Annotated[int | None, Quantity(TIME, 10 * MS, 24 * HOUR)] = Field(
        default=None,
        alias="for",
        json_schema_extra={"default": "`pause`: required; `slow`: to the end of the run"},
        description="How long; only of `pause` and `slow`.",
    )
    factor: Annotated[float | None, Number(1, 1000, with_low=False)] = Field(
        default=None,
        json_schema_extra={"default": "required with `slow`"},
        description="How many times as slow; only of `slow`.",
    )

    @property
    def end_ns(self) -> int | None:
        """When what has befallen is over; None: never."""
        if self.kind == "restart":
            return self.at_ns
        return None if self.duration_ns is None else self.at_ns + self.duration_ns

    @property
    def only_computes_slowly(self) -> bool:
        """Whether it changes compute steps of workers and nothing else."""
        return self.kind == "slow" and self.switch is None and self.server is None

    @property
    def needs_processes(self) -> bool:
        """Whether it befalls a process as such, which virtual time has none of."""
        pauses_hosts = self.kind == "pause" and self.switch is None
        return not (pauses_hosts or self.only_computes_slowly)
