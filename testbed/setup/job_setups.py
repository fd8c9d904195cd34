"""The records that a run is made from, the platform and the jobs on it, and a system's code, which
reads them.

The records are frozen. Whatever follows from an experiment has been worked out when a record
exists, and a failure of links makes new records (rerouting.py) instead of changing these.

A system has facts and options (testbed/systems), which every command reads, and a scheme: what its
hosts are told, what its switches' tables hold, how its registers are read, and what becomes of its
jobs when links fail. testbed/schemes has one module per system, with a class derived from `Scheme`
and one object of it. A package of its own adds one as an entry point of group `ina.schemes`, beside
the facts in `ina.systems` (testbed/plugins.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from p4fabric.base.transports import LOSSLESS_TIMEOUT_NS

from testbed.number_formats import FORMATS, NumberFormat, format_of
from testbed.protocols.host_spec import (
    REMINDERS_OF_PATIENCE,
    ServerStripes,
    SystemSpec,
    WorkerPart,
)
from testbed.protocols.sizes import frame_bits, frame_bytes
from testbed.routing.forest import Forest
from testbed.setup.communicator import Communicator
from testbed.systems.registry import SYSTEMS

if TYPE_CHECKING:
    from p4fabric.base.flow import Flow
    from p4fabric.base.topology import Topology

    from testbed.costs.profile import Costs
    from testbed.experiment import LinkDirection
    from testbed.experiment.planned_faults import LinkChange
    from testbed.experiment.schema import Timers, VirtualTime
    from testbed.experiment.schema_arrivals import Arrivals
    from testbed.experiment.schema_background import Background
    from testbed.experiment.schema_jobs import Fault, Job
    from testbed.experiment.schema_network import Lossless, Paths, Switches, Transport
    from testbed.protocols.host_spec import HostSpec
    from testbed.systems.options import SystemOptions, WorkerOptions
    from testbed.systems.statistics import Statistics
    from testbed.systems.system import System
    from testbed.traffic.rank_calls import Group
    from testbed.traffic.trace import Trace

T = TypeVar("T", bound="SystemOptions")


@dataclass(frozen=True, eq=False, kw_only=True)
class Platform:
    """The network, its switches and their programs, which all jobs of an experiment share."""

    topology: Topology  # with the links that are up
    directions: tuple[tuple[LinkDirection, LinkDirection], ...]  # by link (a, b): a to b, b to a
    system: System
    scheme: Scheme  # the system's code
    options: SystemOptions  # of the system
    program: Path  # the P4 program
    values: int  # of a packet
    value_bits: int  # of each, 32, 16 or 8
    bitmap_bits: int  # of a packet's bitmap of workers; with `tokens` of both bitmaps
    aggregators: int  # of each switch; 0 for a system without switch memory
    memory_parts: int  # into which a system divides the memory that gives each job its own
    job_count: int  # with numbers from 0, also of jobs that have no hosts yet
    groups: tuple[int, ...]  # numbers after these, for the groups of ranks that each job makes
    switches: Switches
    switch: str  # "embedded" or "bmv2"
    offload: str  # "auto", "on" or "off": packets in trains
    admission: str  # "port" or "off"
    timers: Timers  # those that the experiment sets
    virtual: VirtualTime | None  # None: a real clock
    costs: Costs | None  # the profile of what calls and hosts cost; None: none is named
    arrivals: bool  # jobs come and go
    links_fail: bool  # during a run
    paths: Paths | None  # the choice among equal paths, with its seed; None: the first
    transport: Transport  # of packets between hosts
    omits_zeros: bool  # packets whose values are all 0 are sent without their values
    tokens: bool = False  # packets of tokens name their ranks (p4/tokens.p4)
    packs_sums: bool = False  # two sums of 16 bits in a word of a switch's registers (int8.p4)
    mixes_integers: bool = False  # switches that add floats add int32 of programs, too (adder.p4)
    lossless: Lossless | None = None  # None: full queues drop packets
    algorithms: Mapping[str, Scheme] = field(default_factory=dict)  # of hosts, beside the system
    forest: Forest | None = None  # the trees of jobs, of a system with a manager
    # With `scale_windows`: the same as the file describes it, before it was scaled.
    full_size: Platform | None = None
    scale: float = 1.0  # of this platform to that one
    window_step: int = 256  # by which a window without marks grows per window, in 1/256 fragments

    def link(self, index: int) -> tuple[LinkDirection, LinkDirection]:
        """Both directions of link `index` = (a, b) of the topology: a to b, b to a."""
        return self.directions[index]

    def of_algorithm(self, name: str) -> Platform:
        """The same network with an algorithm of hosts as its system; "": as it is. Hosts pass on
        sums of some workers, which have no room in 16 bits or 8."""
        if not name:
            return self
        system = SYSTEMS[name]
        model = cast("type[WorkerOptions]", system.option_model)
        options = model(name=name, sum=self.sum.name)
        scheme = self.algorithms[name]
        return replace(
            self, system=system, scheme=scheme, options=options, aggregators=0, value_bits=32
        )

    def of_format(self, name: str) -> Platform:
        """The same with sums in another format that the switches add; "": as it is."""
        if not name:
            return self
        options = self.options.model_copy(update={"sum": name})
        return replace(self, options=options, value_bits=FORMATS[name].bits)

    @property
    def sum(self) -> NumberFormat:
        """The format of sums: option `sum`."""
        return format_of(self.options)

    @property
    def least_timeout_ns(self) -> int:
        """A packet that is unanswered for less time cannot be lost; 0: nobody knows."""
        return LOSSLESS_TIMEOUT_NS if self.delivers_all("gradients") else 0

    def delivers_all(self, class_name: str) -> bool:
        """True if no packet of a class can be lost or doubled: `gradients`, or `background`."""
        given = self.lossless
        if given is None or given.classes not in ("all", class_name):
            return False
        return not any(way.loss or way.duplicate for both in self.directions for way in both)

    @property
    def delivers(self) -> bool:
        """True with the option `results_from: switch`: a switch sends a complete sum on as the
        result."""
        return getattr(self.options, "results_from", "server") == "switch"

    @property
    def numbers(self) -> int:
        """Numbers of communicators that packets may have."""
        return self.job_count + sum(self.groups)

    def group_numbers(self, job: int) -> range:
        """Numbers for the groups of a job's ranks. Where memory is divided, they are also those of
        the groups' parts."""
        first = self.job_count + sum(self.groups[:job])
        return range(first, first + self.groups[job])

    @cached_property
    def owners(self) -> np.ndarray:
        """int64[numbers], the job of each communicator."""
        jobs = np.arange(self.job_count)
        return np.concatenate([jobs, jobs.repeat(self.groups)])

    @property
    def frame_bits(self) -> int:
        """Bits of most packets' frames."""
        scales = self.sum.scales(self.values) if self.value_bits < 32 else 0
        return frame_bits(0, self.bitmap_bits) + self.values * self.value_bits + 8 * scales

    @property
    def longest_frame_bits(self) -> int:
        """Bits of a frame whose values have 32 bits each."""
        return frame_bits(self.values, self.bitmap_bits)

    @property
    def longest_frame_bytes(self) -> int:
        """Bytes of such a frame."""
        return frame_bytes(self.values, self.bitmap_bits)

    @property
    def timestamp_unit_ns(self) -> int:
        """Unit of the P4 programs' clock: a microsecond on a real clock, as on BMv2, a nanosecond
        in virtual time."""
        return 1000 if self.virtual is None else 1

    def options_of(self, kind: type[T]) -> T:
        """The options of the system, which must be of this kind."""
        if not isinstance(self.options, kind):
            raise TypeError(f"options of system {self.options.name} are no {kind.__name__}")
        return self.options


@dataclass(frozen=True)
class Bounds:
    """Bounds of a job's timers, all in ns; docs/experiment.md, section timers, says what each is
    for."""

    min_timeout_ns: int
    max_timeout_ns: int
    min_reminder_delay_ns: int
    max_reminder_delay_ns: int
    ack_delay_ns: int
    burst_ns: int


@dataclass(frozen=True)
class RankGroup:
    """Ranks of job `job` in a communicator, and their calls: `calls.calls` of each
    iteration, the first one as the last tensor (testbed/workload/rank_program.py)."""

    job: int
    calls: Group


@dataclass(frozen=True, eq=False, kw_only=True)
class JobSetup:
    """One job that has hosts. Numbers of fragments, window and iterations are those of one worker;
    times are ns."""

    number: int
    platform: Platform  # with the system that adds up for it
    job: Job  # as the experiment describes it, with the hosts that it has
    communicators: tuple[Communicator, ...]  # today one: all workers
    fragments: int  # of one iteration
    iterations: int  # of a program: rounds
    last_fragment: int  # the largest number that a fragment can have
    window: int  # most fragments in flight
    timers: Bounds
    communication_ns: int  # one iteration's gradient on the slowest worker's link
    bound_ns: int | None  # least time of one iteration's communication; None: no link has a limit
    ranks: RankGroup | None = None  # of a communicator of a program's ranks
    refused: str = ""  # why the system has no memory for it, so that hosts add up

    @property
    def of_tokens(self) -> bool:
        """True for the tokens of one rank, its first worker, whose packets name their ranks."""
        return self.ranks is not None and self.ranks.calls.of_tokens

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def trace(self) -> Trace:
        """The job's computation and gradients per iteration."""
        return self.job.trace()

    @property
    def group(self) -> Communicator:
        """The communicator of all workers."""
        return self.communicators[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """Everything that a repetition of an experiment is made from."""

    name: str  # of the experiment
    repetition: int
    repetitions: int
    first_seed: int  # of repetition 0, with which plans of all repetitions are made
    platform: Platform
    listed: tuple[Job, ...]  # all jobs by number, also those that have no hosts yet
    jobs: Mapping[int, JobSetup]  # those that have hosts, by number
    groups: Mapping[int, JobSetup]  # communicators of groups of ranks, by number
    arrivals: Arrivals | None  # of jobs that come and go
    faults: tuple[Fault, ...]
    link_changes: tuple[LinkChange, ...]  # by time
    flows: tuple[Flow[Background], ...]  # traffic of no job
    timeout_ns: int  # without progress, after which a run has failed
    # The same with fewer layers of jobs whose layers are sampled, in order.
    smaller: tuple[Setup, ...] = ()

    @property
    def seed(self) -> int:
        """The seed of the repetition."""
        return self.first_seed + self.repetition

    def with_groups(self, groups: Mapping[int, Communicator]) -> Setup:
        """The same with other communicators of some jobs, by the jobs' numbers."""
        jobs = dict(self.jobs)
        for number, group in groups.items():
            jobs[number] = replace(jobs[number], communicators=(group,))
        return replace(self, jobs=jobs)


@dataclass(frozen=True)
class NewPart:
    """New path or trees of worker or server `number` of a job, sent to its host while it runs."""

    job: int
    number: int
    part: WorkerPart | ServerStripes


# Counts of a port in a direction, from a switch's `port_stats()`: "port", "direction", "packets",
# "bytes", and counters with the names of columns of table links, as far as the switch has them.
PortStats: TypeAlias = dict[str, Any]


class Control(Protocol):
    """The control interface of a switch, as far as the control plane and systems use it: a client
    of the embedded switch (p4engine.control.client), that switch itself in this process, or BMv2
    (testbed/bmv2/control_client.py). Every call raises CallError if the switch refuses it."""

    def batch(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Carry out calls (name, *arguments), in order; returns their results."""

    def register_write(self, name: str, index: int, values: int) -> None: ...

    def port_stats(self) -> list[PortStats]: ...

    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Scheme:
    """The code of a system. The defaults are those of a system that uses no switch memory and has
    no parameter server. `calls` collects control calls (p4engine.control.client)."""

    # ---- hosts ----

    def host_options(self, setup: Setup, job: JobSetup) -> SystemSpec:
        """The system's own part of the specification of all hosts of a job."""
        return self.common_options(setup, job)

    def worker_part(self, setup: Setup, job: JobSetup, worker: int) -> WorkerPart | None:
        """The system's own part of one worker's specification; None: nothing."""
        return None

    def peers(self, group: Communicator, worker: int) -> tuple[str, ...]:
        """The nodes that a worker sends to: by default the parameter servers."""
        return group.servers

    def machine(self, spec: HostSpec) -> tuple:
        """The state machine of a host (p4fabric/src/p4fabric/simulate/machine.py)."""
        raise NotImplementedError

    def common_options(self, setup: Setup, job: JobSetup) -> SystemSpec:
        """The part of a job's specification that the workers of every system need."""
        options, timers = cast("WorkerOptions", job.platform.options), job.timers
        return SystemSpec(
            order=options.order,
            window=job.window,
            window_step=setup.platform.window_step,
            timeout_ns=options.timeout_ns or 0,
            min_timeout_ns=timers.min_timeout_ns,
            max_timeout_ns=timers.max_timeout_ns,
            min_patience_ns=max(
                REMINDERS_OF_PATIENCE * timers.min_reminder_delay_ns,
                job.platform.least_timeout_ns,
            ),
        )

    # ---- switches ----

    def definitions(self, platform: Platform) -> dict[str, int]:
        """Preprocessor symbols of the P4 program beside those of all systems."""
        return {}

    def tables(self, setup: Setup, switch: str, calls: list[tuple]) -> None:
        """Fill what names no job in a switch's tables, except routes and marks."""
        raise NotImplementedError

    def job_tables(
        self, platform: Platform, switch: str, job: JobSetup, calls: list[tuple]
    ) -> None:
        """Fill a job's entries in a switch's tables."""

    def statistics(self, platform: Platform) -> Statistics:
        """Events that the P4 program counts, for a system that uses switch memory."""
        raise NotImplementedError

    def may_hold(self, platform: Platform) -> bool:
        """True if a complete sum keeps its aggregator for a while."""
        return False

    def release(self, platform: Platform, job: JobSetup, switch: str, client: Control) -> None:
        """Free what an ended or killed job holds of a switch's memory, through the switch's control
        interface. The job's processes are dead; with `arrivals` it has no entry left in the
        switch's tables."""

    def renew(self, platform: Platform, job: JobSetup, switch: str, client: Control) -> bool:
        """After `release`, when no packet of the job is on its way any more: True if another
        communicator can have its number, as nothing of it is left in the switch's memory."""
        return True

    # ---- links that fail ----

    def reroute(self, setup: Setup, going_on: Sequence[int]) -> tuple[Setup, list[NewPart]]:
        """The Setup with new trees or plans after links have failed or come up again, and the new
        paths of hosts. `setup` has the new topology, and the trees and plans from before.
        `going_on`: the jobs whose hosts reach each other. By default new routes suffice, since
        switches hold nothing. Called for systems whose facts say `reroutes`."""
        return setup, []

    def forget(self, before: JobSetup, after: JobSetup, switch: str, client: Control) -> None:
        """Clear what a switch must not keep of a job whose way is another one now. Its entries are
        there already, and its hosts do not know of them yet."""
