"""The specification of a host: its role, its computation, its peers, and its system's options.

`testbed.setup.host_specs` makes one `HostSpec` for each host of an experiment. All hosts of a job
share one `JobSpec` and one system part, so they get the same numbers where they must agree (pool,
index, quantisation, priorities). A specification crosses to a host process as JSON (`to_json`,
`from_json`).

A field that is missing, unknown, of the wrong type or out of range is an error when the object is
made. Unless a field says otherwise, an int is 0 or more; times are ns since the run's start.

A system with fields of its own (one of another package, too) takes the part that fits it and puts
them into `extra`, or derives a part with its fields from it. The JSON names the part's class, which
is imported where the JSON is read.

This module imports no numba.
"""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np
from p4fabric.base.transports import AIMD, OWN_WINDOW, PRODUCT

from testbed.collective import memory_map
from testbed.number_formats import DEFAULT, FORMATS
from testbed.protocols.sizes import fragments_of

KIND = "kind"  # key of a JSON object that names the class of a part: "module:class"

T = TypeVar("T", bound="Part")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a specification: its fields are checked against their types when it is made."""

    def __post_init__(self) -> None:
        for name, fits, least in _checks(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if not fits(value):
                raise TypeError(f"{type(self).__name__}.{name}: found {value!r}")
            if type(value) is int and value < least:
                raise ValueError(f"{type(self).__name__}.{name}: found {value}")

    def to_json(self) -> dict[str, object]:
        """This part as what `json.dumps` takes."""
        return {
            KIND: f"{type(self).__module__}:{type(self).__qualname__}",
            **{each.name: _plain(getattr(self, each.name)) for each in fields(self)},
        }

    @classmethod
    def of(cls: type[T], base: Part, **more: object) -> T:
        """A part with the fields of `base`, of which it has all, and `more`, which go before."""
        return cls(**{each.name: getattr(base, each.name) for each in fields(base)} | more)

    @classmethod
    def from_json(cls: type[T], data: Mapping[str, Any]) -> T:
        """The part that `to_json` has made `data` of: a `cls`, or a class derived from it."""
        made = _part(data)
        if not isinstance(made, cls):
            raise TypeError(f"found a {type(made).__name__}; expected a {cls.__name__}")
        return made


def positive() -> Any:
    """A field whose int is 1 or more."""
    return field(metadata={"at_least": 1})


def signed() -> Any:
    """A field whose int may be negative."""
    return field(metadata={"at_least": -(1 << 63)})


@dataclass(frozen=True, slots=True)
class Tensor(Part):
    """A layer's gradient, and how long the layer computes on an undisturbed worker."""

    name: str
    values: int
    forward_ns: int
    backward_ns: int
    update_ns: int = 0  # of its weights, with the aggregate


@dataclass(frozen=True, slots=True)
class RecordedGradients(Part):
    """Place of a trace's recorded values: its file, the job's scale of tensor sizes, and the kind
    of its tensors (testbed.traffic.buckets.BUCKETS)."""

    trace: str
    scale: float
    buckets: str = "layers"
    steps: int = 0  # of a recording, those that are replayed; 0: all that there are
    block: int = 0  # values that share an exponent, as in a program; 0: all have one scale


@dataclass(frozen=True, slots=True)
class AggregatingSwitch(Part):
    """A switch that aggregates for a job: its number in the topology and its IPv4 address.
    `later`: not before links have failed."""

    number: int
    address: str
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSpec(Part):
    """The congestion control of packets between hosts (host_links.py). `line_bps`, of hosts without
    a rate, `trip_ns` and `product`, in packets, are of the job's path in the empty network;
    `window`: see
    p4fabric/src/p4fabric/base/transports.py."""

    control: str = AIMD
    line_bps: int = field(default=1, metadata={"at_least": 1})
    trip_ns: int = 0
    product: int = field(default=1, metadata={"at_least": 1})
    window: int | None = field(default=OWN_WINDOW, metadata={"at_least": PRODUCT})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec(Part):
    """The part of a specification that all hosts of a job share."""

    number: int
    name: str
    system: str  # name of its system
    seed: int = signed()  # of the repetition
    workers: int = positive()
    iterations: int = positive()
    submitted_ns: int
    start_ns: int  # time at which its workers begin their first forward step
    tensors: tuple[Tensor, ...]  # in forward order
    fragments: int  # packets of one iteration's gradient
    values: int = positive()  # 32-bit values per fragment
    bitmap_width: int = positive()  # bits of a packet's bitmap of workers, a multiple of 32
    gradients: RecordedGradients | None  # None: gradients are generated
    communication_ns: int  # one iteration's gradient on the slowest worker's link
    bound_ns: int | None  # least time that the links allow an iteration's exchange; None: no limit
    computation_ns: int  # all compute steps of one iteration
    burst_ns: int  # lateness for which a host's pacing makes up
    program: bool = False  # a program on each worker's host gives the values, in rounds
    fixed_scale: int = 0  # steps per 1.0 of its float32; 0: exponents that the ranks agree on
    omit_zeros: bool = False  # packets whose values are all 0 go without them
    sum: str = DEFAULT  # format in which values are added (testbed/number_formats.py)
    keep_sums: bool = False  # each worker keeps the sums that it receives (formats/kept_sums.py)
    parts: int = 0  # of each sum, of which each worker's generated values are a few; 0: its own
    wide: tuple[str, ...] = ()  # types of a program's values that are not rounded to fewer bits
    value_bits: int = 32  # fewer: values that fit have so many in a packet, and sums are rounded
    short: tuple[int, int] = (32, 0)  # of short values that packets may have (wire.short_of)
    # Of a program of ranks, for each tensor: values that belong to each rank, the first one among
    # those of all ranks, and who gives values (given.ONE, OTHERS, or 0: all)
    shares: tuple[tuple[int, int, int], ...] = ()
    # Of an owner's tokens, which is worker 0: of each tensor the other workers that take part
    wanted: tuple[tuple[int, ...], ...] = ()
    levels: tuple[int, ...] = ()  # priority of each tensor; 0, and without: by the policy
    transport: TransportSpec = field(default_factory=TransportSpec)

    def __post_init__(self) -> None:
        Part.__post_init__(self)
        if self.bitmap_width % 32 or self.bitmap_width < self.workers:
            raise ValueError(
                f"JobSpec.bitmap_width: found {self.bitmap_width} for {self.workers} workers"
            )

    @property
    def rounds_bytes(self) -> bool:
        """True if sums of integers of 8 bits are rounded to as many."""
        return self.value_bits == 8 and FORMATS[self.sum].is_bytes

    @property
    def formats(self) -> list[str]:
        """The format of sums, and the wider one of the same switch program, if there is one."""
        return FORMATS[self.sum].together

    @property
    def form_of_floats(self) -> int:
        """In which form a program's float32 travel, `form` of memory_map.CALL."""
        if FORMATS[self.sum].is_float:
            return memory_map.UNSCALED
        return memory_map.FIXED_SCALE if self.fixed_scale else memory_map.FLOATS

    @property
    def first_fragments(self) -> np.ndarray:
        """First fragment of each tensor and, last, their number; int64[T + 1]."""
        return fragments_of([tensor.values for tensor in self.tensors], self.values)


# A fragment whose remainder has to be pulled out of a switch comes later than the fragments sent
# after it, by a reminder's delay. A worker waits for this many of the shortest such delays before
# it takes a fragment for lost.
REMINDERS_OF_PATIENCE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSpec(Part):
    """Options of a system's workers. Systems add theirs by deriving from it; all hosts of a job,
    its servers too, have the same ones."""

    order: str  # "front" or "fifo", in which tensors are sent (send_scoreboard)
    window: int = positive()  # most fragments in flight
    # What counts against it: "in_flight", or "positions", from the oldest one without a result on.
    window_rule: Literal["in_flight", "positions"] = "in_flight"
    timeout_ns: int  # of retransmission; 0: adaptive, between the next two
    min_timeout_ns: int
    max_timeout_ns: int
    min_patience_ns: int  # by so much at least a lost fragment was sent before one with a result
    # Of the congestion window, per window without a mark, in 1/256 fragments
    window_step: int = field(default=256, metadata={"at_least": 1})
    extra: Mapping[str, Any] = field(default_factory=dict)  # JSON values of a system's own


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec(SystemSpec):
    """Options of a system with parameter servers."""

    reminder: bool  # False: missing parts of an incomplete fragment are never requested
    reminder_delay_ns: int  # before the first reminder; 0: adaptive, between the next two
    min_reminder_delay_ns: int
    max_reminder_delay_ns: int
    switches: tuple[AggregatingSwitch, ...] = ()  # that may hold the missing part of a fragment
    delivered: bool = False  # a switch sends complete sums on as results


@dataclass(frozen=True, slots=True)
class WindowPositions(Part):
    """ATP's options beside those of a pool: a fragment has its window position's index."""

    index: str  # rule for a position's first index
    rehash: bool  # True: a position that collided gets another index
    gap: int  # so many places behind the furthest result a fragment is sent again; 0: never
    fixed_point_scale: int  # steps per 1.0 of a recorded gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec(ServerSpec):
    """Options of a system with a shared pool of aggregators and parameter servers."""

    aggregators: int = positive()  # of each switch
    whole_pool: int = 0  # how many they are if not scaled along with a model; 0: as many
    index: str  # rule for the index of a fragment's aggregator (testbed.protocols.esa.MODES)
    priority: str  # of a fragment (testbed.protocols.priority.POLICIES)
    positions: WindowPositions | None = None  # with index "position"

    def __post_init__(self) -> None:
        Part.__post_init__(self)
        if (self.index == "position") != (self.positions is not None):
            raise ValueError(f"PoolSpec.positions: found {self.positions} with {self.index}")


@dataclass(frozen=True, slots=True)
class ServerStripes(Part):
    """Switches that a server reminds of a fragment (testbed.protocols.stripes); S stripes, N
    switches."""

    ends: tuple[int, ...]  # [S], the rank before which each ends
    reached: tuple[tuple[int, ...], ...]  # [S][N], 1: the switch may hold fragments of the stripe


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSpec(PoolSpec):
    """Options of GRID: those of the system whose memory it uses, the plan's stripes, and how
    windows grow."""

    stripes: ServerStripes
    growth: Literal["window", "packet"] = "window"
    unordered: bool = False  # fragments may change paths during the run


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsSpec(SystemSpec):
    """Options of workers with slots of their own; `window` is the number of the job's slots."""

    sets: int = positive()  # of each slot, 1 or 2
    # Place of the first worker among a worker's peers, where workers keep results for each other;
    # 0: only switches do.
    workers_at: int = 0
    follows_marks: bool = False  # congestion marks in results halve the window


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSumsSpec(SystemSpec):
    """Options of systems in which workers add up, without servers."""

    ack_delay_ns: int  # time that an acknowledgement waits for more to acknowledge


@dataclass(frozen=True, slots=True)
class Compute(Part):
    """Durations of a worker's compute steps, compared with the trace's times."""

    slow: tuple[tuple[int, int, int], ...] = ()  # from, to (ns): steps that begin then take so many
    #                                              thousandths of their time
    speed_spread: int = 0  # a worker is faster or slower by up to so many millionths, always,
    jitter: int = 0  # and by up to so many millionths in each iteration
    # [S][T], forward, backward and update (ns) of each tensor in this worker's recorded steps,
    # taken in turn by iterations; none: the tensors' own times
    steps: tuple[tuple[tuple[int, int, int], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RankProgram(Part):
    """A rank's part of a program (testbed/workload/rank_program.py), of one of its machines."""

    path: str  # of the program, or the text of its source (testbed/traffic/rank_source.py)
    job: int
    rank: int
    port: int  # this machine's; 0: the one with the graph
    # With algorithms and formats (GroupRoute), by port, from 1 on
    groups: tuple[tuple[str, str, str], ...]
    scale_millionths: int  # of compute times
    ack_delay_ns: int = 0  # time that an acknowledgement waits for more to acknowledge
    # Of port 0: the ranks with which this one exchanges transfers, by their place among its peers;
    # None: the machine carries none (testbed/protocols/flows.py)
    partners: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class CallCosts(Part):
    """Costs of a worker's calls beside their packets (testbed/setup/costs.py); T tensors, K kinds
    of costs, P partners by their places (ChunksPart, or RankProgram.partners)."""

    call_ns: tuple[int, ...]  # [T], from a call's turn to its first packet
    kinds: tuple[int, ...]  # [T], the costs that a tensor's packets have
    step_ns: tuple[tuple[int, ...], ...]  # [K][P], until a packet of a partner may be used
    paces: tuple[int, ...]  # [K], time of a packet on the link, in 1/65536 of that at its rate
    waiting: int  # most packets that wait for their step at a time
    ahead: int  # fragments of a tensor that are in steps, and so not whole
    send_ns: tuple[int, ...] = ()  # [P], from a transfer's turn to its first packet


@dataclass(frozen=True, slots=True)
class WorkerPart(Part):
    """A system's own part of one worker's specification. Systems derive theirs from it."""


@dataclass(frozen=True, slots=True)
class ChunksPart(WorkerPart):
    """A worker in the chunks of an algorithm (testbed/protocols/host_sums.py): C chunks, P
    partners, which are named by their places."""

    partners: tuple[int, ...]  # [P], the numbers of the workers that it gives to or gets from
    # [C]: to whom its partial sum goes, -1: it completes the sum; from whom the whole sum comes,
    # -1; whose partial sums come to it; who gets the whole sum from it; and how much longer than on
    # its own link its partial sums may take, in 1/256, where the sums are for one worker
    chunks: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...], int], ...]
    steps: int  # of an all_reduce from one worker to another, which follow each other
    # [3]: first chunk and number of those that take turns, of sums for all, of values that belong
    # to one worker each, and of calls whose values all belong to one; of these two for each root
    table: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TreesPart(WorkerPart):
    """The trees of a worker's slots (testbed/protocols/slot_worker.py); T trees."""

    numbers: tuple[int, ...]  # [T], in packets
    slots: tuple[int, ...]  # [T]
    roots: tuple[int, ...]  # [T], places of their roots among the worker's peers


@dataclass(frozen=True, slots=True)
class WorkerStripes(Part):
    """Paths of a worker's fragments (testbed.protocols.stripes); S stripes."""

    ends: tuple[int, ...]  # [S], the rank before which each ends
    nodes: tuple[int, ...]  # [S], number of the switch that aggregates it, or sizes.NO_NODE
    tags: tuple[int, ...]  # [S], by which switches steer it


@dataclass(frozen=True, slots=True)
class PlannedWorker(WorkerPart):
    """A worker that sends as a routing plan says."""

    pace_ps: int  # from one fragment to the next
    stripes: WorkerStripes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec(Part):
    """One role, worker or parameter server ("ps"), on its host."""

    role: Literal["worker", "ps"]
    number: int  # of the worker or of the server in its job
    host: str
    address: str  # IPv4
    peers: tuple[str, ...]  # IPv4 addresses of a machine's destinations
    rate_bps: int  # of its link, towards the switch; 0: unlimited
    job: JobSpec
    options: SystemSpec  # of its system
    compute: Compute | None = None  # of a worker
    worker_part: WorkerPart | None = None  # of a worker, if its system has one
    program: RankProgram | None = None  # of a rank of one
    costs: CallCosts | None = None  # of a worker, with a cost profile
    members: tuple[HostSpec, ...] = ()  # the host's roles in further communicators of its job

    def __post_init__(self) -> None:
        Part.__post_init__(self)
        if (self.compute is not None) != self.is_worker:
            raise ValueError(f"HostSpec.compute: found {self.compute} of a {self.role}")
        if self.worker_part is not None and not self.is_worker:
            raise ValueError(f"HostSpec.worker_part: found {self.worker_part} of a {self.role}")
        if self.is_worker and self.number >= self.job.workers:
            raise ValueError(f"HostSpec.number: found {self.number} of {self.job.workers} workers")

    @property
    def is_worker(self) -> bool:
        return self.role == "worker"

    def small(self) -> HostSpec:
        """The same at the loopback address, with a gradient of two fragments: a machine that runs
        the same code anywhere, and takes little memory."""
        tensor = replace(self.job.tensors[0], values=2 * self.job.values)
        job = replace(self.job, tensors=(tensor,), fragments=2, iterations=1, gradients=None)
        job = replace(job, wanted=job.wanted[:1])
        compute = self.compute and replace(self.compute, steps=())
        peers = ("127.0.0.1",) * len(self.peers)
        program = self.program and replace(self.program, port=0)  # has the graph
        return replace(
            self,
            job=job,
            compute=compute,
            address="127.0.0.1",
            peers=peers,
            program=program,
            costs=None,
            members=(),
        )

    def options_of(self, kind: type[T]) -> T:
        """The options, which must be of this kind."""
        if not isinstance(self.options, kind):
            raise TypeError(
                f"{self.title}: options of system {self.job.system} are"
                f" {type(self.options).__name__}; expected {kind.__name__}"
            )
        return self.options

    def worker_part_of(self, kind: type[T]) -> T:
        """The system's own part of this worker's specification, which must be of this kind."""
        if not isinstance(self.worker_part, kind):
            raise TypeError(
                f"{self.title}: the part of system {self.job.system} is"
                f" {type(self.worker_part).__name__}; expected {kind.__name__}"
            )
        return self.worker_part

    @property
    def worker(self) -> int | None:
        """The worker's number; None of a server."""
        return self.number if self.is_worker else None

    @property
    def title(self) -> str:
        """Name of the host in messages: host, role, job."""
        role = f"worker {self.number}" if self.is_worker else "parameter server"
        return f"{self.host} ({role} of job {self.job.name})"


# -- types and JSON


Check = Callable[[object], bool]


@cache
def _checks(part: type[Part]) -> tuple[tuple[str, Check, int], ...]:
    """Of each field of a part its name, the check of its type, and the least integer."""
    hints = typing.get_type_hints(part)
    return tuple(
        (each.name, _check(hints[each.name]), each.metadata.get("at_least", 0))
        for each in fields(part)
    )


@cache
def _check(hint: Any) -> Check:
    """The function that says whether a value is of a field's type."""
    if hint is Any:
        return lambda value: True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = tuple(map(_check, arguments))
        return lambda value: any(check(value) for check in some)
    if origin is Literal:
        return lambda value: value in arguments
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            each = _check(arguments[0])
            return lambda value: type(value) is tuple and all(map(each, value))
        own = tuple(map(_check, arguments))
        return lambda value: (
            type(value) is tuple
            and len(value) == len(own)
            and all(check(part) for check, part in zip(own, value, strict=True))
        )
    if origin is not None:
        return lambda value: isinstance(value, origin)
    if hint is float:
        return lambda value: type(value) in (int, float)
    if hint in (int, bool, str):
        return lambda value: type(value) is hint
    return lambda value: isinstance(value, hint)


def _plain(value: object) -> object:
    if isinstance(value, Part):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def _part(data: Mapping[str, Any]) -> Part:
    if KIND not in data:
        raise TypeError(f"found no {KIND!r} in a specification's part: {dict(data)!r}")
    module, _, name = data[KIND].partition(":")
    kind = getattr(importlib.import_module(module), name)
    if not (isinstance(kind, type) and issubclass(kind, Part)):
        raise TypeError(f"{data[KIND]} is no part of a specification")
    own = {each.name for each in dataclasses.fields(kind)} - {"extra"}
    return kind(
        **{
            name: _typed(value) if name in own else value
            for name, value in data.items()
            if name != KIND
        }
    )


def _typed(value: object) -> object:
    if isinstance(value, dict):
        return _part(value)
    return tuple(map(_typed, value)) if isinstance(value, list) else value
