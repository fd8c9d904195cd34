"""The records that a run is made from: the platform, the jobs on it, and their communicators.

They are frozen. Whatever follows from an experiment has been worked out when a record exists, and a
failure of links makes new records (rerouting.py) instead of changing these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from testbed.protocols.sizes import Part, frame_bits, frame_bytes
from testbed.systems.options import SystemOptions, WorkerOptions

if TYPE_CHECKING:
    from testbed.experiment import LinkDirection
    from testbed.experiment.background_flows import Flow
    from testbed.experiment.link_faults import LinkChange
    from testbed.experiment.schema import Timers, VirtualTime
    from testbed.experiment.schema_arrivals import Arrivals
    from testbed.experiment.schema_jobs import Fault, Job
    from testbed.experiment.schema_switches import Switches
    from testbed.routing.plan import JobPlan
    from testbed.routing.tree import JobTree
    from testbed.setup.timing import Bounds
    from testbed.systems.system import System
    from testbed.topology import Topology
    from testbed.traffic.trace import Trace

T = TypeVar("T", bound=SystemOptions)
Ports = Mapping[str, frozenset[int]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Platform:
    """What all jobs of an experiment share: the network, its switches and what they run."""

    topology: Topology  # with the links that are up
    directions: tuple[tuple[LinkDirection, LinkDirection], ...]  # by link (a, b): a to b, b to a
    system: System
    options: SystemOptions  # of the system
    program: Path  # the P4 program
    values: int  # of a packet
    value_bits: int  # of each, 32 or 16
    bitmap_bits: int  # of a packet's bitmap of workers
    aggregators: int  # of each switch; 0 for a system without switch memory
    memory_parts: int  # into which a system divides the memory that gives each job its own
    job_count: int  # with numbers from 0, also of jobs that have no hosts yet
    switches: Switches
    switch: str  # "embedded" or "bmv2"
    offload: str  # "auto", "on" or "off": packets in trains
    admission: str  # "port" or "off"
    timers: Timers  # those that the experiment sets
    virtual: VirtualTime | None  # None: a real clock
    arrivals: bool  # jobs come and go
    links_fail: bool  # during a run

    def link(self, index: int) -> tuple[LinkDirection, LinkDirection]:
        """Both directions of link `index` = (a, b) of the topology: a to b, b to a."""
        return self.directions[index]

    @property
    def packet_words(self) -> int:
        """Words of 32 bits that the values of most packets have."""
        return self.values * self.value_bits // 32

    @property
    def frame_bits(self) -> int:
        """Bits of most packets' frames."""
        return frame_bits(self.packet_words, self.bitmap_bits)

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

    @property
    def omits_zeros(self) -> bool:
        """Whether packets whose values are all 0 go without them."""
        return isinstance(self.options, WorkerOptions) and self.options.zeros == "header_only"

    def options_of(self, kind: type[T]) -> T:
        """The options of the system, which must be of this kind."""
        if not isinstance(self.options, kind):
            raise TypeError(f"options of system {self.options.name} are no {kind.__name__}")
        return self.options


@dataclass(frozen=True, eq=False, kw_only=True)
class Communicator:
    """An ordered group of a job's workers whose gradients are added up together, and its way
    through the network. It is the unit of aggregation: `number` is what packets and switches call
    a job."""

    number: int
    topology: Topology  # with the links that are up
    workers: tuple[str, ...]  # hosts by rank
    servers: tuple[str, ...]
    slots: Part | None = None  # its part of every switch's memory, where the system divides it
    tree: JobTree | None = None  # where sums meet; None without switch memory, or with a plan
    plan: JobPlan | None = None  # of a system that plans
    # The switches that a server may have to remind at any time of a run, those of its first routes
    # first.
    reminded: tuple[str, ...] = ()
    former: frozenset[str] = frozenset()  # switches of plans before links failed
    ports_before: Ports = field(default_factory=dict)  # before links failed

    @cached_property
    def ports(self) -> Ports:
        """{switch: the ports through which its packets may come}; without switches that none
        passes."""
        from testbed.setup.routes import ports_of

        return ports_of(self)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Workers, then servers."""
        return (*self.workers, *self.servers)

    @property
    def ps(self) -> str:
        """The only server."""
        (server,) = self.servers
        return server

    @property
    def routed_tree(self) -> JobTree:
        """The tree, which must exist."""
        assert self.tree is not None, self.number
        return self.tree

    @property
    def routed_plan(self) -> JobPlan:
        """The plan, which must exist."""
        assert self.plan is not None, self.number
        return self.plan


@dataclass(frozen=True, eq=False, kw_only=True)
class JobSetup:
    """One job that has hosts. Numbers of fragments, window and iterations are those of one worker;
    times are ns."""

    number: int
    job: Job  # as the experiment describes it, with the hosts that it has
    communicators: tuple[Communicator, ...]  # today one: all workers
    fragments: int  # of one iteration
    iterations: int  # of a program: rounds
    last_fragment: int  # the largest number that a fragment can have
    window: int  # most fragments in flight
    timers: Bounds
    communication_ns: int  # one iteration's gradient on the slowest worker's link
    bound_ns: int | None  # least time of one iteration's communication; None: no link has a limit

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
    arrivals: Arrivals | None  # of jobs that come and go
    faults: tuple[Fault, ...]
    link_changes: tuple[LinkChange, ...]  # by time
    flows: tuple[Flow, ...]  # traffic of no job
    timeout_ns: int  # without progress, after which a run has failed

    @property
    def seed(self) -> int:
        """The seed of the repetition."""
        return self.first_seed + self.repetition
