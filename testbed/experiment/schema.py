"""The schema of an experiment file: every key with its unit, range, default and meaning.

There is one model per section of the file; links and jobs have modules of their own. An attribute
has the name of its key, with the unit if it has one (`bandwidth` in the file is `bandwidth_bps`
here). These models check single keys. resolve.py checks how several keys fit together.
docs/experiment.md is made from these models.

A new key is one more field. A new section is one more model and one more field of `ExperimentFile`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from p4fabric.base.config.explain import explain as explain_any
from p4fabric.base.config.explain import keys_of, section_model
from p4fabric.base.config.fields import (
    HOUR,
    NAME,
    SECOND,
    Choice,
    Flag,
    Quantity,
    Section,
    Whole,
    WordOr,
    as_pydantic,
)
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import SIZE, TIME, FieldError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from testbed import systems
from testbed.costs.fabrics import FABRICS
from testbed.costs.profile import Costs
from testbed.experiment.schema_arrivals import Arrivals
from testbed.experiment.schema_background import MAX_FLOWS, Background
from testbed.experiment.schema_collectives import Collectives
from testbed.experiment.schema_jobs import Fault, Job
from testbed.experiment.schema_network import Links, Paths, Switches, Transport
from testbed.protocols.sizes import MAX_JOBS, MAX_VALUES, MAX_WORKERS
from testbed.systems.options import SystemOptions
from testbed.traffic.trace import GPUS

MAX_AGGREGATORS = 2**22


class Memory(Section):
    """Memory of each switch for aggregation: one of the two keys."""

    aggregators: Annotated[int | None, Whole(1, MAX_AGGREGATORS)] = Field(
        default=None,
        description="Number of aggregators.",
    )
    size_bytes: Annotated[int | None, Quantity(SIZE, 1, 2**40)] = Field(
        default=None,
        alias="size",
        description="Memory for aggregators. The number of aggregators is how many fit with all"
        " their state.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Memory:
        if (self.aggregators is None) == (self.size_bytes is None):
            found = "neither" if self.aggregators is None else "both"
            raise as_pydantic(FieldError(found, "one of aggregators, size"))
        return self


Timer = Annotated[int | None, Quantity(TIME, 1, 100 * SECOND, (("auto", None),))]


class Timers(Section):
    """Bounds of the hosts' adaptive timers, and other times of hosts."""

    min_timeout_ns: Timer = Field(
        default=None,
        alias="min_timeout",
        description="The shortest adaptive retransmission timeout; where losses are proven, a"
        " program's may be as short as five of `min_reminder_delay`.",
    )
    max_timeout_ns: Timer = Field(
        default=None,
        alias="max_timeout",
        description="The longest adaptive retransmission timeout, without backoff.",
    )
    min_reminder_delay_ns: Timer = Field(
        default=None,
        alias="min_reminder_delay",
        description="The shortest adaptive delay of a parameter server's reminders and of its"
        " requests to workers.",
    )
    max_reminder_delay_ns: Timer = Field(
        default=None,
        alias="max_reminder_delay",
        description="The longest adaptive delay of reminders, with backoff.",
    )
    ack_delay_ns: Timer = Field(
        default=None,
        alias="ack_delay",
        description="The longest time that a host collects acknowledgements for another one before"
        " it sends them (algorithms of hosts, and flows between ranks).",
    )
    burst_ns: Timer = Field(
        default=None,
        alias="burst",
        description="The delay for which a sender's pacing compensates.",
    )


HostTime = Annotated[int, Quantity(TIME, 0, SECOND)]
JitterTime = Annotated[int | None, Quantity(TIME, 0, SECOND, (("auto", None),))]
JITTERS = 8  # a delay lasts four times as long as the longest and the shortest one differ


class VirtualTime(Section):
    """Delays of hosts and switches in virtual time."""

    worker_delay_ns: HostTime = Field(
        default=1750,
        alias="worker_delay",
        description="From a frame's arrival at a worker's host to its handling.",
    )
    worker_jitter_ns: HostTime = Field(
        default=1250,
        alias="worker_jitter",
        description="A delay is drawn from delay - jitter to delay + jitter (uniform); frames keep"
        " their order. At most the delay.",
    )
    worker_jitter_time_ns: JitterTime = Field(
        default=None,
        alias="worker_jitter_time",
        description="The time for which a drawn delay applies to all arriving frames; auto:"
        " eight times the jitter; 0: every frame has its own delay.",
    )
    worker_packet_time_ns: HostTime = Field(
        default=0,
        alias="worker_packet_time",
        description="Processor time per frame at a worker; the next frame waits.",
    )
    server_delay_ns: HostTime = Field(
        default=1750,
        alias="server_delay",
        description="`worker_delay` for a parameter server.",
    )
    server_jitter_ns: HostTime = Field(
        default=1250,
        alias="server_jitter",
        description="`worker_jitter` for a parameter server.",
    )
    server_jitter_time_ns: JitterTime = Field(
        default=None,
        alias="server_jitter_time",
        description="`worker_jitter_time` for a parameter server.",
    )
    server_packet_time_ns: HostTime = Field(
        default=0,
        alias="server_packet_time",
        description="`worker_packet_time` for a parameter server.",
    )
    switch_latency_ns: HostTime = Field(
        default=400,
        alias="switch_latency",
        description="The time of a packet through a switch, without queueing.",
    )

    steps: Annotated[str, Choice(("drawn", "exact"))] = Field(
        default="drawn",
        description="`drawn`: each flow of `background` has a phase and a jitter of its own, from"
        " the seed. `exact`: it sends exactly at its rate, in step with others.",
    )
    keep_sums: Annotated[bool, Flag()] = Field(
        default=False,
        description="Whether each worker's sums are stored (table sums), so that `ina diff` tells"
        " how many bits differ between two runs and between workers ([numbers.md](numbers.md)).",
    )
    sum_parts: Annotated[int | None, Whole(1, 4 * MAX_WORKERS)] = Field(
        default=None,
        json_schema_extra={"default": "none: each worker has values of its own"},
        description="Parts of each sum. A worker, or a rank of a group, sends the sum of its share"
        " of them, 1, 2 or 4, so that other numbers of workers add the same parts"
        " ([numbers.md](numbers.md#other-numbers-of-ranks)).",
    )

    @property
    def is_exact(self) -> bool:
        """True if flows may be in step with each other."""
        return self.steps == "exact"

    def jitter_time_ns(self, role: str) -> int:
        """The duration of a delay of a "worker" or "server"; 0: one frame."""
        jitter_ns, given = (
            getattr(self, f"{role}_{name}_ns") for name in ("jitter", "jitter_time")
        )
        return JITTERS * jitter_ns if given is None else given


@dataclass(frozen=True)
class TopologyChoice:
    """The topology: `kind` names one of topos/, else `file` and `class_name` one of the user's.
    `options` are its constructor's arguments."""

    kind: str | None
    file: Path | None = None
    class_name: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def title(self) -> str:
        return self.kind or self.class_name


class ExperimentFile(BaseModel):
    """The whole file. Quantities carry units (`100 Mbit/s`, `10 us`, `1 %`); 0 needs none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "the file's name without its ending"},
        description="The name of the experiment in figures and of its results folder.",
    )
    seed: Annotated[int, Whole(0, 2 * 10**9)] = Field(
        default=1,
        description="The seed of all random numbers. Repetition r (from 0) uses seed + r.",
    )
    runtime: Annotated[str, Choice(("mininet", "virtual"))] = Field(
        default="mininet",
        description="The environment of the run: processes on a Mininet network with the"
        " machine's clock, or the same programs in virtual time (docs/virtual.md).",
    )
    switch: Annotated[str, Choice(("embedded", "bmv2"))] = Field(
        default="embedded",
        description="The switch that runs the P4 program: the embedded one, or BMv2's simple_switch"
        " (docs/bmv2.md).",
    )
    offload: Annotated[str, Choice(("auto", "on", "off"))] = Field(
        default="auto",
        description="Hosts and switches pass UDP packets to the kernel in trains of up to 64"
        " (segmentation offload), for a fraction of the processor time. The P4 program and"
        " the links always see single packets. `auto`: if the kernel supports it (Linux 6.2)"
        " and the switch is embedded.",
    )
    admission: Annotated[str, Choice(("port", "off"))] = Field(
        default="port",
        description="The packets that a switch accepts for a job. `port`: only packets from"
        " ports that lead to the job's hosts or are on its packets' paths; other packets that"
        " claim the job are dropped and counted (docs/reliability.md). `off`: all packets that"
        " claim the job. Traffic of other protocols is never refused.",
    )
    repetitions: Annotated[int, Whole(1, 10_000)] = Field(
        default=1,
        description="Number of repetitions of the run.",
    )
    timeout_ns: Annotated[int, Quantity(TIME, SECOND, 24 * HOUR)] = Field(
        default=20 * SECOND,
        alias="timeout",
        description="A run without any progress for this long is stopped and counts as failed. In"
        " virtual time computation is progress.",
    )
    topology: TopologyChoice = Field(description="The network.")
    fabric: Annotated[str | None, Choice(FABRICS)] = Field(
        default=None,
        json_schema_extra={"default": "none"},
        description="A preset: the settings of a kind of network, with sources"
        " ([paths.md](paths.md#presets-of-fabrics)). Keys that the file has itself count more.",
    )
    links: Links = Field(
        default=Links(),
        description="Bandwidth, delay, loss and queues of the links.",
    )
    paths: Paths | None = Field(
        default=None,
        json_schema_extra={"default": "the first of equal paths"},
        description="The choice among equal paths, of packets and of sums; see"
        " [paths.md](paths.md).",
    )
    switches: Switches = Field(
        default=Switches(),
        description="Aggregation capacities of the switches; only for systems with a plan (grid).",
    )
    system: SystemOptions = Field(
        description="The system that aggregates: its name, or a mapping of `name` and options.",
    )
    collectives: Collectives = Field(
        default=Collectives(),
        description="What carries a program's collectives, by kind and size.",
    )
    memory: Memory | None = Field(
        default=None,
        json_schema_extra={"default": "required if the system aggregates in the switch"},
        description="Memory of each switch for aggregation; not for systems without switch memory.",
    )
    values_per_packet: Annotated[int, Whole(1, MAX_VALUES, power_of_two=True)] = Field(
        default=64,
        description="Values (int32) per packet; they form one fragment.",
    )
    value_bits: Annotated[int, Whole(16, 32, power_of_two=True)] = Field(
        default=32,
        description="Bits of a value in a packet. 16: float32 travel as 16-bit block floating"
        " point, switches add them as int32, and sums are rounded to 16 bits; other values that"
        " do not fit have 32 bits ([wire.md](wire.md#values-of-16-bits)).",
    )
    timers: Timers = Field(
        default=Timers(),
        description="Bounds of the hosts' timers.",
    )
    virtual: VirtualTime | None = Field(
        default=None,
        json_schema_extra={"default": "all defaults; only with runtime virtual"},
        description="Delays of hosts and switches in virtual time.",
    )
    costs: Annotated[Costs | str | None, WordOr(Costs, (), "{from: h100-nvlink, protocol: LL}")] = (
        Field(
            default=None,
            json_schema_extra={"default": "the defaults of `virtual`, and nothing else"},
            description="What calls, steps, hosts, network cards and switches cost beside packets"
            " on links: a profile's name, a file, or a mapping; see [costs.md](costs.md).",
        )
    )
    scale_windows: Annotated[bool, Flag()] = Field(
        default=False,
        description="Scale the network along with the jobs' `scale`, which all of them then have"
        " alike: windows, switch memory, queues, congestion marks, delays and timers. A scaled"
        " run is then a full-size run in fewer packets (docs/models.md). Only with runtime"
        " virtual.",
    )
    gpu: Annotated[str, Choice(tuple(GPUS))] = Field(
        default="v100",
        description="The GPU of the models' compute times: a V100, an A100, or an A100 at the"
        " V100's batch sizes (docs/models.md). Custom models have the times of their files.",
    )
    jobs: Annotated[tuple[Job, ...], Field(min_length=1, max_length=MAX_JOBS)] = Field(
        default=(),
        json_schema_extra={"default": "required, unless there are `arrivals`"},
        description="The training jobs that share the network.",
    )
    arrivals: Arrivals | None = Field(
        default=None,
        description="Instead of `jobs`: jobs that arrive over time, and wait for free hosts"
        " (only with runtime virtual).",
    )
    background: Annotated[tuple[Background, ...], Field(max_length=MAX_FLOWS)] = Field(
        default=(),
        description="Traffic outside all jobs.",
    )
    transport: Transport = Field(
        default=Transport(),
        json_schema_extra={"default": "all defaults"},
        description="Congestion control of packets between hosts.",
    )
    faults: tuple[Fault, ...] = Field(
        default=(),
        description="Planned faults of processes and links.",
    )


# -- keys that do not exist


def explain(error: ValidationError, path: KeyPath, model: Any) -> list[Problem]:
    """pydantic's errors about a section of an experiment file; see p4fabric.base.config.explain."""
    return explain_any(error, path, model, unknown)


def unknown(path: KeyPath, known: list[str]) -> Problem:
    """A key that does not exist, with the section that has it if it is one level too high, or the
    systems that have it if it is another's option."""
    key = str(path[-1])
    if path[:1] == ("system",):
        others = [
            each.name for each in systems.SYSTEMS.values() if key in keys_of(each.option_model)
        ]
        remark = f"an option of {', '.join(others)}" if others else ""
    else:
        homes = sorted(_homes().get(key, []), key=lambda home: home != "system:")
        remark = f"it belongs under {homes[0]}" if homes else ""
    one_too_high = len(path) == 1 and bool(remark)
    return Problem.unknown(path, known, remark, one_too_high)


def _homes() -> dict[str, list[str]]:
    """{key: sections that have it}, for keys written one level too high."""
    homes: dict[str, list[str]] = {}
    for name, info in ExperimentFile.model_fields.items():
        model = section_model(info.annotation)
        for key in keys_of(model) if model else []:
            homes.setdefault(key, []).append(f"{info.alias or name}:")
    for system in systems.SYSTEMS.values():
        for key in keys_of(system.option_model):
            homes.setdefault(key, []).append("system:")
    return homes
