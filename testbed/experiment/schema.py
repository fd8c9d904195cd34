"""What an experiment file may say: every key with its unit, range, default and meaning.

One model per section of the file. An attribute is called like its key, with the unit added where it
has one (`bandwidth` in the file is `bandwidth_bps` here). Only what one key alone can get wrong is
checked here; what several keys must agree on is in resolve.py. docs/experiment.md is made from this
module.

A new key is one more field. A new section is one more model and one more field of `ExperimentFile`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from testbed.experiment.fields import (
    ANY_TEXT,
    HOUR,
    MS,
    NAME,
    NODE,
    SECOND,
    Choice,
    Nodes,
    Number,
    Quantity,
    Shorthand,
    Text,
    Whole,
    as_pydantic,
)
from testbed.experiment.units import PACKETS, PERCENT, RATE, SIZE, TIME, FieldError, describe
from testbed.experiment.units import show as show_quantity

if TYPE_CHECKING:
    from traffic.trace import Trace

MAX_RATE = 100 * 10**12
MAX_WORKERS = 256  # the widest bitmap
MAX_AGGREGATORS = 2**22


class Section(BaseModel):
    """A part of the file: unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Bandwidth = Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))]
Delay = Annotated[int, Quantity(TIME, 0, 100 * SECOND)]
Share = Annotated[float, Quantity(PERCENT, 0, 99)]
Queue = Annotated[int, Quantity(PACKETS, 1, 10**6)]
Threshold = Annotated[int | None, Quantity(PACKETS, 1, 10**6, (("none", None), ("default", 0)))]


class LinkSettings(Section):
    """One direction of a link."""

    bandwidth_bps: Bandwidth = Field(
        default=None,
        alias="bandwidth",
        description="Rate. Counts bytes from the Ethernet header to the end of the payload.",
    )
    delay_ns: Delay = Field(
        default=0,
        alias="delay",
        description="Propagation delay.",
    )
    jitter_ns: Delay = Field(
        default=0,
        alias="jitter",
        description="The delay of each packet is drawn from delay - jitter to delay + jitter;"
        " packets keep their order (for another, `reorder`). Not more than the delay.",
    )
    loss: Share = Field(
        default=0.0,
        description="Share of packets lost, each independently.",
    )
    duplicate: Share = Field(
        default=0.0,
        description="Share of packets that arrive twice, one right behind the other.",
    )
    reorder: Share = Field(
        default=0.0,
        description="Share of packets that take `reorder_delay` longer, so that later ones overtake"
        " them.",
    )
    reorder_delay_ns: Delay = Field(
        default=1_000_000,
        alias="reorder_delay",
        description="How much longer a reordered packet takes. With a bandwidth, more than a"
        " packet's time on the link, or nothing could overtake it.",
    )
    queue_packets: Queue = Field(
        default=1000,
        alias="queue",
        description="Packets that can wait for the link; more are dropped.",
    )
    ecn_threshold_packets: Threshold = Field(
        default=0,
        alias="ecn_threshold",
        description="Packets that leave a queue longer than this carry a congestion mark. Not more"
        " than the queue. By default 100 packets, at most half of the queue, where there is a"
        " bandwidth.",
    )

    def given(self) -> dict[str, Any]:
        """The settings that are written down here, by attribute name."""
        names = LinkSettings.model_fields
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


class LinkOptions(LinkSettings):
    """What a topology may say about a link: settings of both directions, then of each."""

    forward: LinkSettings | None = Field(default=None)
    backward: LinkSettings | None = Field(default=None)


class LinkException(LinkOptions):
    """Settings for particular links. Takes the keys of `links:` (bandwidth, delay, jitter, loss,
    duplicate, reorder, reorder_delay, queue, ecn_threshold) for both directions; what is not given
    stays as it is."""

    between: Annotated[tuple[Annotated[str, NODE], ...], Field(min_length=2, max_length=2)] = Field(
        description="The two nodes; all links between them are meant.",
    )
    forward: LinkSettings | None = Field(
        default=None,
        description="The same keys for the direction from the first to the second node only.",
    )
    backward: LinkSettings | None = Field(
        default=None,
        description="The same keys for the direction from the second to the first node only.",
    )


class Links(LinkSettings):
    """What all links have in common, and the exceptions."""

    each: tuple[LinkException, ...] = Field(
        default=(),
        description="Links that differ, and in what. Where several places set a key, the"
        " last of these counts: `links:`, the topology's class, `each`, its `forward` and"
        " `backward`.",
    )


class Memory(Section):
    """Memory of each switch for aggregation: one of the two keys."""

    aggregators: Annotated[int | None, Whole(1, MAX_AGGREGATORS)] = Field(
        default=None,
        description="Number of aggregators.",
    )
    size_bytes: Annotated[int | None, Quantity(SIZE, 1, 2**40)] = Field(
        default=None,
        alias="size",
        description="Memory for aggregators; it holds as many as fit with all their state.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Memory:
        if (self.aggregators is None) == (self.size_bytes is None):
            found = "neither" if self.aggregators is None else "both"
            raise as_pydantic(FieldError(found, "one of aggregators, size"))
        return self


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


Timer = Annotated[int | None, Quantity(TIME, 1, 100 * SECOND, (("auto", None),))]


class Timers(Section):
    """Bounds of the hosts' adaptive timers, and what else goes by the clock of a host."""

    least_timeout_ns: Timer = Field(
        default=None,
        alias="least_timeout",
        description="The shortest adaptive retransmission timeout.",
    )
    most_timeout_ns: Timer = Field(
        default=None,
        alias="most_timeout",
        description="The longest adaptive retransmission timeout, without backoff.",
    )
    least_reminder_delay_ns: Timer = Field(
        default=None,
        alias="least_reminder_delay",
        description="The shortest adaptive delay of a parameter server's reminders and asks.",
    )
    most_reminder_delay_ns: Timer = Field(
        default=None,
        alias="most_reminder_delay",
        description="The longest one, with backoff.",
    )
    ack_delay_ns: Timer = Field(
        default=None,
        alias="ack_delay",
        description="How long a member of a ring collects what it acknowledges.",
    )
    burst_ns: Timer = Field(
        default=None,
        alias="burst",
        description="Lateness that a sender's pacing makes up for.",
    )


HostTime = Annotated[int, Quantity(TIME, 0, SECOND)]


class VirtualTime(Section):
    """What hosts and switches take in virtual time, where no machine decides it."""

    worker_delay_ns: HostTime = Field(
        default=1750,
        alias="worker_delay",
        description="From a frame's arrival at a worker's host to its handling.",
    )
    worker_jitter_ns: HostTime = Field(
        default=1250,
        alias="worker_jitter",
        description="The delay of each frame is drawn from delay - jitter to delay + jitter;"
        " frames keep their order. Not more than the delay.",
    )
    worker_packet_time_ns: HostTime = Field(
        default=0,
        alias="worker_packet_time",
        description="Processor time that a frame takes at a worker; the next one waits for it.",
    )
    server_delay_ns: HostTime = Field(
        default=1750,
        alias="server_delay",
        description="The same of a parameter server.",
    )
    server_jitter_ns: HostTime = Field(
        default=1250,
        alias="server_jitter",
        description="The same of a parameter server.",
    )
    server_packet_time_ns: HostTime = Field(
        default=0,
        alias="server_packet_time",
        description="The same of a parameter server.",
    )
    switch_latency_ns: HostTime = Field(
        default=400,
        alias="switch_latency",
        description="What the way through a switch takes a packet, besides waiting.",
    )

    @model_validator(mode="after")
    def _jitter_within_delay(self) -> VirtualTime:
        for role in ("worker", "server"):
            delay, jitter = (getattr(self, f"{role}_{name}_ns") for name in ("delay", "jitter"))
            if jitter > delay:
                found, most = (show_quantity(each, TIME) for each in (jitter, delay))
                allowed = f"at most {role}_delay, {most}"
                raise as_pydantic(FieldError(f"{role}_jitter: {found}", allowed))
        return self


class SystemOptions(Section):
    """What every system has; each system adds the options of its own (testbed/systems.py)."""

    name: Annotated[str, NAME] = Field(
        description="Which system.",
    )
    program: Annotated[str, Text(ANY_TEXT.pattern, "the path of a P4 file, or default")] = Field(
        default="default",
        description="A P4 program to load instead of the system's own.",
    )


@dataclass(frozen=True)
class TopologyChoice:
    """Which topology: `kind` names one of topos/, else `file` and `class_name` one of the user's.
    `options` are its constructor's arguments."""

    kind: str | None
    file: Path | None = None
    class_name: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def title(self) -> str:
        return self.kind or self.class_name


BMV2_LATER = (("bmv2", "BMv2 is not available yet"),)


class ExperimentFile(BaseModel):
    """The whole file. Quantities carry units (`100 Mbit/s`, `10 us`, `1 %`); 0 needs none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "the file's name without its ending"},
        description="What the results folder and figures call the experiment.",
    )
    seed: Annotated[int, Whole(0, 2 * 10**9)] = Field(
        default=1,
        description="Where all random numbers come from. Repetition r (from 0) uses seed + r.",
    )
    runtime: Annotated[str, Choice(("mininet", "virtual"))] = Field(
        default="mininet",
        description="What moves packets and what a clock is: processes on a Mininet network and the"
        " machine's clock, or the same programs in virtual time (docs/virtual.md).",
    )
    switch: Annotated[str, Choice(("embedded",), BMV2_LATER)] = Field(
        default="embedded",
        description="Which switch runs the P4 program.",
    )
    repetitions: Annotated[int, Whole(1, 10_000)] = Field(
        default=1,
        description="How often the run is repeated.",
    )
    timeout_ns: Annotated[int, Quantity(TIME, SECOND, 24 * HOUR)] = Field(
        default=20 * SECOND,
        alias="timeout",
        description="A run without any progress for this long is stopped and counts as failed.",
    )
    topology: TopologyChoice = Field(description="The network.")
    links: Links = Field(
        default=Links(),
        description="What the links can carry.",
    )
    system: SystemOptions = Field(
        description="Who aggregates, and how: a name, or a mapping of `name` and options.",
    )
    memory: Memory | None = Field(
        default=None,
        json_schema_extra={"default": "required where the system aggregates in the switch"},
        description="Memory of each switch for aggregation; not for systems that use none.",
    )
    values_per_packet: Annotated[int, Whole(1, 256, power_of_two=True)] = Field(
        default=64,
        description="Values (int32) in a packet, which are one fragment.",
    )
    timers: Timers = Field(
        default=Timers(),
        description="Bounds of the hosts' timers.",
    )
    virtual: VirtualTime | None = Field(
        default=None,
        json_schema_extra={"default": "all defaults; only with runtime virtual"},
        description="What hosts and switches take in virtual time.",
    )
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=256)] = Field(
        description="The training jobs that share the network.",
    )
    faults: tuple[Fault, ...] = Field(
        default=(),
        description="What goes wrong on purpose, and when.",
    )
