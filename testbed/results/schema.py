"""Every table of a results folder: columns, dtypes, units and meanings, declared once.

Every runtime and every switch fills the same columns, so that analysis needs no special cases and a
virtual run can be compared with an emulated one. A value that a runtime cannot measure is null,
never 0, and only where the declaration allows it. docs/results.md is generated from this module.

Dtypes are those of Arrow ("int64", "bool", "string", ...), because the files are Parquet. A unit
is "ns", "bytes", "count", "share" (0..1, more where a limit is broken), "aggregators", or "" where
the value has none. Times are int64 nanoseconds since the start of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Annotated, Any, TypeAlias, TypedDict, get_args

from testbed.algorithms.by_name import ALGORITHMS
from testbed.results.counters import COUNTERS, DEPARTURES, EVENTS, LOSSES, RESENT

# A row of any table, perhaps with some of its columns, as pages of live runs have them.
# `schema_check.to_arrow` compares rows with the table's declaration when they are written.
Row: TypeAlias = Mapping[str, Any]

SWEEP_FILE = "sweep.json"  # in the folder of a sweep: what was varied
FORMAT = 1  # of the folder; raised when a reader of the old format would misread the new one

# The measures that a figure of a sweep can show. analysis/data/sweep_chart_data.py describes each.
FIGURE_MEASURES = (
    "ps_packets_per_fragment",
    "jct",
    "jct_ratio",
    "jct_communicating",
    "jct_computing",
    "samples_per_s",
    "scaling_efficiency",
    *("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "tokens_per_s", "network_share"),
    "jct_short",
    "jct_medium",
    "jct_long",
    "jct_p99",
    "jct_p99_short",
    "jct_p99_medium",
    "jct_p99_long",
    "waiting",
    "in_switch_share",
    "ps_link_bytes",
    "filling_share",
    "held_share",
    "absorbed_per_aggregator_s",
    "retransmissions",
    "flow_bps",
    "flows_bps",
    "flows_jain",
    "sum_error",
    "order_bits",
    "server_share",
    "overflow_share",
    "worker_bytes",
    "link_bytes",
)


@dataclass(frozen=True)
class DeclaredFigure:
    """The drawing of a sweep, as SWEEP_FILE stores it under "figure". Keys that are left out have
    these defaults. testbed/experiment/figure.py explains the keys."""

    x: str = ""
    x_label: str = ""
    rows: tuple[str, ...] = ()
    each: str = ""
    panels: tuple[str, ...] = ("ps_packets_per_fragment", "jct")
    against: str = "ESA"
    occupancy: bool = False
    reported: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "DeclaredFigure":
        """The declaration in SWEEP_FILE. Keys that only matter to a run are left out. Raises
        TypeError or ValueError when it is not one."""
        if not isinstance(stored, Mapping):
            raise TypeError("figure: found no keys and values")
        known = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        for name, value in known.items():
            default = getattr(cls, name)
            if isinstance(default, tuple):
                if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                    raise TypeError(f"figure.{name}: found no list of words")
                known[name] = tuple(value)
            elif not isinstance(value, type(default)):
                raise TypeError(f"figure.{name}: found {value!r:.50}")
        if unknown := set(known.get("panels", ())) - set(FIGURE_MEASURES):
            raise ValueError(f"there is no measure {', '.join(sorted(unknown))}")
        return cls(**known)


@dataclass(frozen=True)
class Column:
    """One column. `minimum` bounds numbers from below, `allowed` lists the values of a string."""

    name: str
    dtype: str
    unit: str
    meaning: str
    nullable: bool = False
    minimum: int | None = None
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table: `key` names the columns that identify a row, `ordered` lists pairs of columns of
    which the first may not exceed the second (nulls are skipped)."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ordered: tuple[tuple[str, str], ...] = ()
    by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})


def _count(meaning: str, unit: str = "count", minimum: int = 0) -> Column:
    return Column("", "int64", unit, meaning, minimum=minimum)


def _time(meaning: str) -> Column:
    return Column("", "int64", "ns", meaning, minimum=0)


def _number(meaning: str, dtype: str = "int32", unit: str = "", minimum: int = 0) -> Column:
    return Column("", dtype, unit, meaning, minimum=minimum)


def _measure(meaning: str, unit: str = "", minimum: int | None = None) -> Column:
    return Column("", "float64", unit, meaning, minimum=minimum)


def _name(meaning: str, allowed: tuple[str, ...] = ()) -> Column:
    return Column("", "string", "", meaning, allowed=allowed)


def _flag(meaning: str) -> Column:
    return Column("", "bool", "", meaning)


def _binary(meaning: str) -> Column:
    return Column("", "binary", "", meaning)


class _Row(TypedDict, total=False):
    """Column that the writer fills."""

    repetition: Annotated[int, _number("repetition of the run, from 0", dtype="int16")]


_TABLES: dict[str, Table] = {}


def _declare(
    name: str, row: type, key: tuple[str, ...], ordered: tuple[tuple[str, str], ...] = ()
) -> None:
    """Make a table of a class of rows: its annotations are the columns, and those that may be None
    are nullable."""
    columns = []
    for each, annotation in row.__annotations__.items():
        kind, (column,) = annotation.__origin__, annotation.__metadata__
        columns.append(replace(column, name=each, nullable=NoneType in get_args(kind)))
    meaning = " ".join((row.__doc__ or "").split())
    _TABLES[name] = Table(name, meaning, tuple(columns), key, ordered)


_JOB = _number("job, in the order of the experiment file, from 0")
_WORKER = _number("worker within its job, from 0")
_ITERATION = _number("iteration of the training loop, from 0")
_SWITCH = _name("name of the switch")
_WAIT_SHARE = _measure(
    "share of the time in which its process was ready to run without a processor",
    unit="share",
    minimum=0,
)
_WAIT_MEAN = _time("mean wait, over the times that it got a processor")


def _error(which: str) -> Column:
    return _measure(
        f"{which} distance of a sum from the exact one, over the sum of the absolute values"
        " ([numbers.md](numbers.md#errors)); null: the values are recorded, and packets have scales"
        " of their own",
        minimum=0,
    )


class JobRow(_Row):
    """One row per job: its settings, completion time, traffic, and whether its values were
    correct."""

    job: Annotated[int, _JOB]
    name: Annotated[str, _name("name of the job in the experiment file")]
    model: Annotated[str, _name("model whose trace it replays")]
    gpu: Annotated[str | None, _name("GPU whose compute times it has; null: those of its trace")]
    system: Annotated[str, _name("system that aggregated its gradients")]
    fallback: Annotated[
        str | None,
        _name("algorithm of hosts that added up in place of the system; null: the system did"),
    ]
    refused: Annotated[str | None, _name("why it did; null: the system did")]
    trees: Annotated[
        str | None,
        _name(
            "with system `tree`, the roots of its trees, and of those that it had after links"
            " failed; null: it had none"
        ),
    ]
    workers: Annotated[int, _number("workers", minimum=1, unit="count")]
    iterations: Annotated[
        int, _number("iterations of the experiment file; 1 for a program", minimum=1, unit="count")
    ]
    values: Annotated[
        int, _count("values per iteration and worker; for a program, the mean of its ranks")
    ]
    fragments: Annotated[
        int,
        _count(
            "fragments per iteration; for a program, the sums of all its groups, without those that"
            " an algorithm of hosts beside its system has added"
        ),
    ]
    batch: Annotated[
        int | None,
        _number(
            "samples per iteration and worker, of the trace; null: unknown", minimum=1, unit="count"
        ),
    ]
    compute_ns: Annotated[
        int | None, _time("computation time of a worker of nominal speed in all iterations")
    ]
    submitted_ns: Annotated[
        int | None, _time("time of submission; the job's start if jobs do not wait")
    ]
    start_ns: Annotated[int, _time("the job's start, when it gets its hosts")]
    waiting_ns: Annotated[int | None, _time("start_ns - submitted_ns")]
    end_ns: Annotated[
        int | None, _time("end of its last iteration at its last worker; null: never")
    ]
    jct_ns: Annotated[
        int | None,
        _time("job completion time (JCT): end_ns - submitted_ns, with layers_ns; null: never"),
    ]
    layers: Annotated[
        int | None, _number("layers of the model, of which some were simulated; null: not sampled")
    ]
    layers_simulated: Annotated[
        int | None,
        _number(
            "those that were; all columns but jct_ns and compute_ns are of these. null: not sampled"
        ),
    ]
    messages_simulated: Annotated[
        float | None,
        _measure(
            "share of long messages, and of computation, that were simulated; null: all",
            unit="share",
            minimum=0,
        ),
    ]
    layers_ns: Annotated[int | None, _time("time added for the others; null: not sampled")]
    answers_dropped: Annotated[
        int | None,
        _count(
            "answers that tokens went without, as experts were full, in the forward passes of"
            " an iteration; null: experts have no capacity"
        ),
    ]
    outcome: Annotated[
        str,
        _name(
            "finished; killed by a planned fault; or unfinished because of a planned fault",
            allowed=("finished", "killed", "unfinished"),
        ),
    ]
    exact: Annotated[bool, _flag("all checked values were correct")]
    values_checked: Annotated[
        int,
        _count(
            "values compared with the expected sum, all workers; for a program, which alone"
            " knows them, returned sums"
        ),
    ]
    gradient_packets: Annotated[
        int, _count("gradient packets that its workers sent, of every kind")
    ]
    retransmissions: Annotated[int, _count("gradient packets that were retransmitted")]
    marked_results: Annotated[
        int | None,
        _count(
            "results by which its workers learnt of a queue that had marked packets; null: the"
            " run is older than this column"
        ),
    ]
    ps_packets: Annotated[int | None, _count("gradient packets that reached its PS; null: no PS")]
    ps_link_bytes_in: Annotated[
        int | None, _count("bytes on the PS's link towards the PS", unit="bytes")
    ]
    ps_link_bytes_out: Annotated[
        int | None, _count("bytes on the PS's link from the PS", unit="bytes")
    ]
    results: Annotated[int | None, _count("result packets that its PS sent")]
    reminders: Annotated[int | None, _count("reminders that its PS sent")]
    asks: Annotated[int | None, _count("requests to single workers that its PS sent")]
    saturated: Annotated[int | None, _count("values that quantisation or addition saturated")]
    communication_bound_ns: Annotated[
        int | None,
        _time("lower bound of the communication time of all its iterations; null: unknown"),
    ]


_declare(
    "jobs",
    JobRow,
    key=("repetition", "job"),
    ordered=(
        ("submitted_ns", "start_ns"),
        ("start_ns", "end_ns"),
        ("retransmissions", "gradient_packets"),
    ),
)


class IterationRow(_Row):
    """One row per worker and started iteration. The next iteration may start before the rear
    tensors of this one have arrived, so rows of one worker can overlap in time."""

    job: Annotated[int, _JOB]
    worker: Annotated[int, _WORKER]
    iteration: Annotated[int, _ITERATION]
    start_ns: Annotated[
        int, _time("the first layer's forward step starts, with the update of the weights")
    ]
    compute_end_ns: Annotated[int | None, _time("the last backward step ends; null: never")]
    end_ns: Annotated[int | None, _time("the last tensor's aggregate has arrived; null: never")]


_declare(
    "iterations",
    IterationRow,
    key=("repetition", "job", "worker", "iteration"),
    ordered=(("start_ns", "compute_end_ns"), ("start_ns", "end_ns")),
)


class TensorRow(_Row):
    """One row per worker, iteration and tensor that became ready."""

    job: Annotated[int, _JOB]
    worker: Annotated[int, _WORKER]
    iteration: Annotated[int, _ITERATION]
    tensor: Annotated[int, _number("tensor, in forward order of the trace, from 0")]
    forward_start_ns: Annotated[
        int | None,
        _time(
            "its layer's forward step starts, with the update of the weights; null: not recorded"
        ),
    ]
    forward_end_ns: Annotated[
        int | None, _time("its layer's forward step ends; null: not recorded")
    ]
    ready_ns: Annotated[int, _time("its backward step has ended")]
    first_sent_ns: Annotated[int | None, _time("its first fragment leaves; null: never")]
    done_ns: Annotated[int | None, _time("its last result has arrived; null: never")]


_declare(
    "tensors",
    TensorRow,
    key=("repetition", "job", "worker", "iteration", "tensor"),
    ordered=(
        ("forward_start_ns", "forward_end_ns"),
        ("forward_end_ns", "ready_ns"),
        ("ready_ns", "first_sent_ns"),
        ("first_sent_ns", "done_ns"),
    ),
)


class StepRow(_Row):
    """One row per rank, iteration and node of a job whose model is a program of ranks. A run
    without such jobs has no such table."""

    job: Annotated[int, _JOB]
    worker: Annotated[int, _WORKER]
    iteration: Annotated[int, _ITERATION]
    node: Annotated[int, _number("node of the rank's graph, from 0")]
    kind: Annotated[
        str, _name("compute, or a collective or transfer, such as all_reduce, send, recv")
    ]
    communicator: Annotated[
        str | None,
        _name("the job's numbers of its ranks; all: the whole job; null: a compute step"),
    ]
    bytes: Annotated[
        int | None,
        _count(
            "bytes that the rank gives; of scatter and recv: gets; null: a compute step",
            unit="bytes",
        ),
    ]
    start_ns: Annotated[int, _time("it begins: what it depends on is there, and the rank is free")]
    end_ns: Annotated[int, _time("it has ended")]


_declare(
    "steps",
    StepRow,
    key=("repetition", "job", "worker", "iteration", "node"),
    ordered=(("start_ns", "end_ns"),),
)


class RequestRow(_Row):
    """One row per request to a job that serves a model and that had been sent. A run without
    such jobs has no such table. Times are those of the last stage's first rank."""

    job: Annotated[int, _JOB]
    iteration: Annotated[int, _ITERATION]
    request: Annotated[int, _number("request, in the order of the list, from 0")]
    prompt: Annotated[int, _count("tokens of its prompt", unit="tokens", minimum=1)]
    output: Annotated[int, _count("tokens of its answer", unit="tokens", minimum=1)]
    sent_ns: Annotated[
        int,
        _time(
            "its client sends it: at its time of arrival; else at the start, or when its last"
            " answer has ended"
        ),
    ]
    waited_ns: Annotated[
        int | None,
        _time(
            "from sent_ns until a step takes it into the batch, as far as another step is under"
            " way; null: it has no time of arrival"
        ),
    ]
    first_ns: Annotated[int | None, _time("the first token of its answer is there; null: never")]
    end_ns: Annotated[int | None, _time("the last one is; null: never")]
    compute_ns: Annotated[
        int | None,
        _time(
            "from sent_ns to end_ns, the computation of all stages one after the other; null:"
            " it has not ended"
        ),
    ]


_declare(
    "requests",
    RequestRow,
    key=("repetition", "job", "iteration", "request"),
    ordered=(("sent_ns", "first_ns"), ("first_ns", "end_ns")),
)


class HostRow(_Row):
    """One row per role of a host: its traffic, and its delay behind its schedule. With
    arrivals, a host has several roles, one after the other."""

    host: Annotated[str, _name("name of the host")]
    role: Annotated[str, _name("its role in the job", allowed=("worker", "ps"))]
    job: Annotated[int, _JOB]
    worker: Annotated[int | None, _number("worker within its job; null for a PS")]
    packets_sent: Annotated[int, _count("packets sent")]
    packets_received: Annotated[int, _count("packets received")]
    bytes_sent: Annotated[int, _count("bytes sent, from the Ethernet header on", unit="bytes")]
    bytes_received: Annotated[
        int, _count("bytes received, from the Ethernet header on", unit="bytes")
    ]
    retransmissions: Annotated[int, _count("packets that it retransmitted")]
    duplicate_results: Annotated[int, _count("results that it already had")]
    socket_drops: Annotated[int | None, _count("packets that its socket dropped")]
    lag_p50_ns: Annotated[int | None, _time("sending delay behind its own schedule: median")]
    lag_p99_ns: Annotated[int | None, _time("the same: 99th percentile")]
    lag_max_ns: Annotated[int | None, _time("the same: maximum")]
    cpu_ns: Annotated[int | None, _time("processor time used")]
    cpu_peak_share: Annotated[
        float | None,
        _measure("largest share of a core that it used in any second", unit="share", minimum=0),
    ]
    wait_share: Annotated[float | None, _WAIT_SHARE]
    wait_mean_ns: Annotated[int | None, _WAIT_MEAN]
    pss_bytes: Annotated[int | None, _count("proportional set size at the end", unit="bytes")]


_declare(
    "hosts",
    HostRow,
    key=("repetition", "host", "job"),
    ordered=(("lag_p50_ns", "lag_p99_ns"), ("lag_p99_ns", "lag_max_ns")),
)


class SwitchRow(_Row):
    """One row per switch of a real-clock run: the traffic and the processor time of its
    process."""

    switch: Annotated[str, _SWITCH]
    packets_received: Annotated[int | None, _count("packets that came in")]
    packets_sent: Annotated[int | None, _count("packets sent")]
    cpu_ns: Annotated[int | None, _time("CPU time of its packet loop; BMv2: of all threads")]
    cpu_peak_share: Annotated[
        float | None, _measure("largest share of a core in any second", unit="share", minimum=0)
    ]
    wait_share: Annotated[float | None, _WAIT_SHARE]
    wait_mean_ns: Annotated[int | None, _WAIT_MEAN]
    late_events: Annotated[int | None, _count("events of its links handled more than 100 us late")]
    late_max_ns: Annotated[int | None, _time("the largest lateness of such an event")]
    unmodelled_drops: Annotated[int | None, _count("packets lost outside the model")]


_declare("switches", SwitchRow, key=("repetition", "switch"))


class CounterRow(_Row):
    """One row per counter: totals of the run, read from the P4 program's registers at its end.
    The counters are listed below."""

    switch: Annotated[str, _SWITCH]
    job: Annotated[int | None, _number("job that is counted; null: the whole switch")]
    counter: Annotated[str, _name("name of the counter; times end in _ns", allowed=tuple(COUNTERS))]
    value: Annotated[int, _count("its value", unit="count or ns")]


_declare("switch_counters", CounterRow, key=("repetition", "switch", "job", "counter"))


class DepartureRow(_Row):
    """Packets that a switch has sent towards the PS of a job, by their cause, counted where
    they leave. Those at the PS add up to the packets that the PS links carried (links, egress),
    but for those of background traffic. Causes without packets have no row; a system without a
    PS has no such table. The causes are listed below."""

    switch: Annotated[str, _SWITCH]
    job: Annotated[int, _JOB]
    at_ps: Annotated[
        bool | None,
        _flag(
            "true: they left for the PS itself, the job's or a group's, on its own link; false:"
            " for the next switch; null: the run is older than this column"
        ),
    ]
    cause: Annotated[str, _name("why the packet left", allowed=tuple(DEPARTURES))]
    packets: Annotated[int, _count("such packets", minimum=1)]


_declare("departures", DepartureRow, key=("repetition", "switch", "job", "at_ps", "cause"))


class MemoryRow(_Row):
    """Samples of the number of aggregators in use, for pictures. Shares of time come from
    switch_counters, which do not depend on a sampling period. A switch has at least one row,
    with its pool size, and at most about 2,000 samples: longer runs have longer steps."""

    switch: Annotated[str, _SWITCH]
    time_ns: Annotated[int, _time("time of the sample")]
    job: Annotated[int | None, _number("job that owns them; null: all jobs together")]
    occupied: Annotated[
        int, _count("aggregators that are filling (incomplete)", unit="aggregators")
    ]
    held: Annotated[int, _count("complete, not yet released", unit="aggregators")]
    capacity: Annotated[
        int, _count("aggregators in the switch's pool, of all jobs", unit="aggregators", minimum=1)
    ]


_declare("memory", MemoryRow, key=("repetition", "switch", "time_ns", "job"))


class EventRow(_Row):
    """Samples of the event counters of a switch, all jobs together, at the times of table
    memory, for pictures. There is a row for each event that has occurred since the previous
    sample. A restarted switch counts from 0 again. Totals are in switch_counters."""

    switch: Annotated[str, _SWITCH]
    time_ns: Annotated[int, _time("time of the sample")]
    event: Annotated[str, _name("name of the event counter", allowed=tuple(EVENTS))]
    value: Annotated[int, _count("its total so far")]


_declare("events", EventRow, key=("repetition", "switch", "time_ns", "event"))


class PoolRow(_Row):
    """Aggregators in use by their place in a switch's pool, at some of the times of table
    memory (at most 400, evenly spaced). A pool is divided into at most 64 blocks of
    neighbouring aggregators, fewer with many switches. The first 64 aggregators of a block are
    read (in SwitchML, 64 slots of two). Not sampled on BMv2."""

    switch: Annotated[str, _SWITCH]
    time_ns: Annotated[int, _time("time of the sample")]
    first: Annotated[int, _number("the block's first aggregator, from 0", dtype="int64")]
    seen: Annotated[
        int,
        _count("number of aggregators of the block that were read", unit="aggregators", minimum=1),
    ]
    filling: Annotated[int, _count("of these, filling (incomplete)", unit="aggregators")]
    held: Annotated[int, _count("of these, complete and not yet released", unit="aggregators")]


_declare(
    "pool",
    PoolRow,
    key=("repetition", "switch", "time_ns", "first"),
    ordered=(("filling", "seen"), ("held", "seen")),
)


class QueueRow(_Row):
    """Samples of the egress queues of a switch's ports, at the times of table memory, for
    pictures. There is a row for each queue whose length has changed since the previous sample;
    a queue begins empty. Longest lengths are in links (max_queue). Not sampled on BMv2, and
    where switches have no memory."""

    switch: Annotated[str, _SWITCH]
    time_ns: Annotated[int, _time("time of the sample")]
    port: Annotated[int, _number("its port, from 1")]
    packets: Annotated[int, _count("packets in the queue")]


_declare("queues", QueueRow, key=("repetition", "switch", "time_ns", "port"))


class LinkRow(_Row):
    """One row per node, port and direction: the traffic of a link, and its losses by cause."""

    node: Annotated[str, _name("switch or host that counted")]
    port: Annotated[int, _number("its port, from 1")]
    neighbour: Annotated[str, _name("node at the other end")]
    direction: Annotated[str, _name("as the node sees it", allowed=("ingress", "egress"))]
    rate_bps: Annotated[
        int | None, _count("the link's bandwidth in that direction; null: unlimited", unit="bit/s")
    ]
    packets: Annotated[int, _count("packets carried")]
    bytes: Annotated[int, _count("bytes carried, from the Ethernet header on", unit="bytes")]
    mean_bps: Annotated[
        int | None,
        _count(
            "mean rate: bytes divided by the time in which jobs ran; null: no job ended",
            unit="bit/s",
        ),
    ]
    queue_drops: Annotated[int | None, _count("dropped because the modelled queue was full")]
    losses: Annotated[int | None, _count("dropped by the experiment's loss rate")]
    duplicates: Annotated[int | None, _count("duplicated by the experiment's rate of duplicates")]
    reordered: Annotated[int | None, _count("delayed by the experiment's rate of reordering")]
    unmodelled_drops: Annotated[int | None, _count("dropped where the experiment has no queue")]
    max_queue: Annotated[int | None, _count("longest modelled queue in packets")]
    refused: Annotated[
        int | None,
        _count(
            "received packets that claimed a job without admission on this port: dropped; null:"
            " egress, or admission is off"
        ),
    ]
    marks: Annotated[
        int | None,
        _count(
            "packets that were marked because they found the queue long, or had been before;"
            " null: ingress, or the run is older than this column"
        ),
    ]
    tie_drops: Annotated[
        int | None,
        _count(
            "of queue_drops: packets that arrived in the very moment in which another one got"
            " the last place; null: the switch does not count them"
        ),
    ]
    down_drops: Annotated[
        int | None,
        _count(
            "lost because the link was down: sent meanwhile, or queued or in flight when it"
            " failed; null: no link failures in the experiment"
        ),
    ]


_declare("links", LinkRow, key=("repetition", "node", "port", "direction"))


class LossRow(_Row):
    """Packets that a switch's links have lost, by cause and by job; where none were lost there
    is no row. The packets of a link and a cause add up to the link's count in table links."""

    switch: Annotated[str, _SWITCH]
    port: Annotated[int, _number("its port, from 1")]
    direction: Annotated[str, _name("as the switch sees it", allowed=("ingress", "egress"))]
    cause: Annotated[str, _name("why, see below", allowed=tuple(LOSSES))]
    job: Annotated[
        int | None,
        _number(
            "job of the packets; null: other traffic, packets beyond the million that a switch"
            " notes, or not told apart (BMv2)"
        ),
    ]
    packets: Annotated[int, _count("such packets", minimum=1)]


_declare("losses", LossRow, key=("repetition", "switch", "port", "direction", "cause", "job"))


class PauseRow(_Row):
    """Pauses of the far ends of a switch's links, by port and by the output for whose packets the
    buffer was full. A run whose links are not lossless, or that needed no pause, has no rows.
    With credits, see paused_ns in table buffers."""

    switch: Annotated[str, _SWITCH]
    port: Annotated[int, _number("its port, from 1")]
    neighbour: Annotated[str, _name("who was paused: the node at the far end of the port's link")]
    cause: Annotated[str | None, _name("the node behind the full output; null: not known")]
    pauses: Annotated[int, _count("pauses", minimum=1)]
    paused_ns: Annotated[int, _time("how long they lasted together, from the switch's decisions")]
    longest_ns: Annotated[int, _time("the longest one")]


_declare(
    "pauses",
    PauseRow,
    key=("repetition", "switch", "port", "cause"),
    ordered=(("longest_ns", "paused_ns"),),
)


class BufferRow(_Row):
    """Use of the buffer by what came in at each port, and the pauses that the port has obeyed.
    A run whose links are not lossless has no such table."""

    switch: Annotated[str, _SWITCH]
    port: Annotated[int, _number("its port, from 1")]
    neighbour: Annotated[str, _name("node at the far end of its link")]
    peak_bytes: Annotated[int, _count("most bytes in the buffer, headroom included", unit="bytes")]
    headroom_bytes: Annotated[int, _count("headroom of the port", unit="bytes")]
    headroom_peak_bytes: Annotated[int, _count("most bytes in it", unit="bytes")]
    drops: Annotated[int, _count("packets that the full headroom has dropped; 0: nothing was lost")]
    frames_sent: Annotated[int, _count("pause frames or credits sent to the far end")]
    frames_received: Annotated[int, _count("pause frames or credits from there")]
    paused_ns: Annotated[int, _time("how long the far end kept this port from sending")]
    host_paused_ns: Annotated[
        int | None,
        _time("how long the host at the far end was kept from sending; null: it is a switch"),
    ]
    unknown: Annotated[int, _count("frames from there that pause no class of this run")]


_declare(
    "buffers",
    BufferRow,
    key=("repetition", "switch", "port"),
    ordered=(("headroom_peak_bytes", "peak_bytes"),),
)


class ResentRow(_Row):
    """Retransmissions of each job by what they follow from, the last loss of a packet of the
    fragment before: a gradient, a sum, a result or a request; where hosts add up, the same
    packet. They add up to retransmissions in table jobs, unless a worker was killed. Causes
    without retransmissions have no row."""

    job: Annotated[int, _JOB]
    cause: Annotated[str, _name("what they follow from, see below", allowed=tuple(RESENT))]
    packets: Annotated[int, _count("such retransmissions", minimum=1)]


_declare("resent", ResentRow, key=("repetition", "job", "cause"))


class MeasureRow(_Row):
    """One row per number that a rank of a program has reported (`testbed.report`). A run
    without reports has no such table."""

    job: Annotated[int, _JOB]
    worker: Annotated[int, _number("rank of the program, from 0")]
    number: Annotated[int, _number("its report, from 0")]
    name: Annotated[str, _name("name of the measure, such as loss")]
    step: Annotated[int, _number("the program's step", dtype="int64")]
    time_ns: Annotated[int, _time("time of the report")]
    value: Annotated[float | None, _measure("the number; null: not finite")]


_declare("measures", MeasureRow, key=("repetition", "job", "worker", "number", "name"))


class CollectiveRow(_Row):
    """One row per rank of a program, communicator, collective, type and route: what the rank
    has called. A run without programs, and a rank that was killed, have none."""

    job: Annotated[int, _JOB]
    worker: Annotated[int, _number("rank of the program, from 0")]
    communicator: Annotated[str, _name("the job's numbers of its ranks; all: the whole job")]
    collective: Annotated[str, _name("such as all_reduce, all_gather, send")]
    dtype: Annotated[str, _name("type of the values; empty: it has none")]
    route: Annotated[
        str,
        _name(
            (
                "system: through the switches, or as the system does it without; flow: in the"
                " testbed's own flows between single ranks; gloo: over PyTorch's own connections;"
                " or the algorithm of hosts that carried them"
            ),
            allowed=("system", "flow", "gloo", *ALGORITHMS),
        ),
    ]
    calls: Annotated[int, _count("calls")]
    bytes: Annotated[
        int, _count("bytes that the rank has given to them; of scatter and recv: got", unit="bytes")
    ]
    time_ns: Annotated[int | None, _time("sum of the times from a call to its end; null: unknown")]


_declare(
    "collectives",
    CollectiveRow,
    key=("repetition", "job", "worker", "communicator", "collective", "dtype", "route"),
)


class RateRow(_Row):
    """The rate at which the congestion control of each flow of kind `rc` lets it send, at up to
    1,000 times of the run. A run without such flows has no such table."""

    flow: Annotated[int, _number("flow, in the order of the experiment file, from 0")]
    time_ns: Annotated[int, _time("time of the look")]
    sending_bps: Annotated[
        int, _count("the rate, or that of a window per round trip", unit="bit/s")
    ]


_declare("rates", RateRow, key=("repetition", "flow", "time_ns"))


class FlowRow(_Row):
    """One row per flow of background traffic. A run without any has no such table."""

    flow: Annotated[int, _number("flow, in the order of the experiment file, from 0")]
    name: Annotated[str, _name("name of the flow")]
    kind: Annotated[str, _name("how it sends", allowed=("tcp", "rc", "udp", "cbr"))]
    source: Annotated[str, _name("host that sends")]
    target: Annotated[str, _name("host that receives")]
    begun_ns: Annotated[int | None, _time("start; null: after the end of the run")]
    ended_ns: Annotated[int | None, _time("end, at the latest that of the run")]
    bytes: Annotated[int, _count("payload bytes received, without duplicates", unit="bytes")]
    mean_bps: Annotated[
        int | None,
        _count(
            "payload per time, from start to end, including silent times; null: it never began",
            unit="bit/s",
        ),
    ]
    packets_sent: Annotated[int | None, _count("packets sent; null: the kernel's TCP")]
    packets_received: Annotated[int | None, _count("packets received; null: the kernel's TCP")]
    lost: Annotated[
        int | None,
        _count(
            "tcp, rc: packets that were retransmitted or given up; else packets that have not"
            " arrived, including those in flight at the end"
        ),
    ]
    bursts: Annotated[int | None, _count("completely received bursts; null: it has none")]
    burst_mean_ns: Annotated[int | None, _time("mean time from their first to their last byte")]
    burst_max_ns: Annotated[int | None, _time("longest of these times")]
    duplicates: Annotated[int | None, _count("copies among the packets received; null: on Mininet")]
    late: Annotated[int | None, _count("packets received after a later one; null: on Mininet")]
    min_ns: Annotated[
        int | None, _time("least latency of a packet, from host to host; null: on Mininet")
    ]
    mean_ns: Annotated[float | None, _measure("mean of the latencies", unit="ns", minimum=0)]
    p50_ns: Annotated[int | None, _time("median of the latencies, exact to 1/128")]
    p99_ns: Annotated[int | None, _time("their 99th percentile")]
    max_ns: Annotated[int | None, _time("the longest latency")]
    resent_gap: Annotated[
        int | None, _count("rc: packets sent again for a gap that the receiver told of")
    ]
    resent_timeout: Annotated[int | None, _count("rc: packets sent again after a timeout")]
    cuts: Annotated[
        int | None, _count("rc: how often the congestion control has slowed the sender down")
    ]
    cnps: Annotated[int | None, _count("rc: notifications of congestion (CNP) by the receiver")]
    marked: Annotated[
        int | None, _count("rc: packets received with a congestion mark, copies included")
    ]


_declare(
    "flows",
    FlowRow,
    key=("repetition", "flow"),
    ordered=(
        ("begun_ns", "ended_ns"),
        ("burst_mean_ns", "burst_max_ns"),
        ("min_ns", "p50_ns"),
        ("p50_ns", "p99_ns"),
        ("p99_ns", "max_ns"),
    ),
)


class FaultRow(_Row):
    """One row per planned fault of the experiment: its planned and its actual time. After them,
    with link failures, one row for each recomputation of routes by the control plane
    (`reroute`), and for each job with a new plan (`replan`)."""

    fault: Annotated[
        int,
        _number("fault, in the order of the experiment file, from 0; then reroutes and replans"),
    ]
    kind: Annotated[
        str,
        _name(
            "the kind of fault, `reroute` or `replan`",
            allowed=(
                *("pause", "slow", "kill", "restart", "link_down", "link_up"),
                *("reroute", "replan"),
            ),
        ),
    ]
    target: Annotated[str, _name("its target")]
    job: Annotated[int | None, _number("affected job; null: a switch or link")]
    at_ns: Annotated[int, _time("planned time")]
    begun_ns: Annotated[
        int | None, _time("actual time; null: never, because its target had finished")
    ]
    ended_ns: Annotated[int | None, _time("end; at the latest that of the run")]
    factor: Annotated[float | None, _measure("slow-down factor; null: not a slow-down")]
    entries: Annotated[
        int | None, _count("table entries written into all switches; null: not a `reroute`")
    ]
    rate_bps: Annotated[
        int | None,
        _count(
            "rate of the job's slowest worker in the new plan; null: not a `replan`, or trees",
            unit="bit/s",
        ),
    ]


_declare(
    "faults",
    FaultRow,
    key=("repetition", "fault"),
    ordered=(("at_ns", "begun_ns"), ("begun_ns", "ended_ns")),
)


class SumRow(_Row):
    """The sums that each worker has received, of a run in virtual time with `keep_sums`: one
    row per job, worker and iteration; of a program of ranks, for each group."""

    job: Annotated[int, _JOB]
    communicator: Annotated[
        int, _number("number in packets: of the job, or of a group of its ranks")
    ]
    group: Annotated[str, _name("name of the group; empty: all workers of the job")]
    worker: Annotated[int, _WORKER]
    iteration: Annotated[int, _ITERATION]
    words: Annotated[
        bytes,
        _binary(
            "32 bits of each sum, little-endian, in the order of the model's values; of a group"
            " those of calls whose sums all ranks get, the last call first"
        ),
    ]
    largest_error: Annotated[float | None, _error("largest")]
    mean_error: Annotated[float | None, _error("mean")]
    order_bits: Annotated[
        float | None,
        _measure(
            (
                "bits of a sum, in the mean, in which it is not that of the same values added in"
                " the order of ranks ([numbers.md](numbers.md#bits-that-differ))"
            ),
            minimum=0,
        ),
    ]


_declare("sums", SumRow, key=("repetition", "job", "communicator", "worker", "iteration"))


class TuningRow(TypedDict):
    """Trials of options that were tuned before the run, with seeds that it does not have: one
    row per trial, seed and option. A run that names its options has no such table."""

    trial: Annotated[int, _number("combination of values, in the order of the trials, from 0")]
    seed: Annotated[int, _number("seed of the run that tried it", dtype="int64")]
    option: Annotated[str, _name("option of the system")]
    value: Annotated[float, _measure("its value, in base units")]
    jct_ns: Annotated[int | None, _time("mean JCT of the run's jobs; null: the run failed")]
    chosen: Annotated[bool, _flag("the run has these values")]
    error: Annotated[str, _name("why it failed; empty: it did not")]


_declare("tuning", TuningRow, key=("trial", "seed", "option"))


class FidelityRow(_Row):
    """One row per invariant of a real-clock run. The run is `ok` if all rows are ok, otherwise
    `degraded`. An unmeasured invariant is not ok."""

    scope: Annotated[str, _name("what was measured", allowed=("run", "host", "switch", "link"))]
    name: Annotated[str, _name("name of the host, switch or link")]
    measure: Annotated[str, _name("the invariant")]
    value: Annotated[
        float | None,
        _measure("measured value; null: could not be measured", unit="that of the measure"),
    ]
    limit: Annotated[float, _measure("largest value that is ok", unit="that of the measure")]
    ok: Annotated[bool, _flag("the value is known and within the limit")]


_declare("fidelity", FidelityRow, key=("repetition", "scope", "name", "measure"))


TABLES: Mapping[str, Table] = _TABLES
