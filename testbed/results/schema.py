"""Every table of a results folder: columns, dtypes, units and meanings, declared once.

Every runtime and every switch fills the same columns, so that analysis needs no special cases and a
virtual run can be compared with an emulated one. A value that a runtime cannot measure is null,
never 0, and only where the declaration allows it. docs/results.md is generated from this module.

Dtypes are those of Arrow ("int64", "bool", "string", ...), because the files are Parquet. A unit
is "ns", "bytes", "count", "share" (0..1, more where a limit is broken), "aggregators", or "" where
the value has none. Times are int64 nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from testbed.algorithms.by_name import ALGORITHMS
from testbed.results.counters import COUNTERS, DEPARTURES, EVENTS, LOSSES, RESENT

# A row of a table: its columns' values by name. `schema_check.to_arrow` compares them with the
# table's declaration when it is written.
Row: TypeAlias = dict[str, Any]

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
    def from_json(cls, stored: Mapping[str, Any]) -> DeclaredFigure:
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


def _count(name: str, meaning: str, nullable: bool = False, unit: str = "count") -> Column:
    return Column(name, "int64", unit, meaning, nullable, minimum=0)


def _time(name: str, meaning: str, nullable: bool = False) -> Column:
    return Column(name, "int64", "ns", meaning, nullable, minimum=0)


def _number(name: str, meaning: str, nullable: bool = False, dtype: str = "int32") -> Column:
    return Column(name, dtype, "", meaning, nullable, minimum=0)


def _name(name: str, meaning: str, nullable: bool = False, allowed: tuple[str, ...] = ()) -> Column:
    return Column(name, "string", "", meaning, nullable, allowed=allowed)


_WAITS = (
    Column(
        "wait_share",
        "float64",
        "share",
        "share of the time in which its process was ready to run without a processor",
        True,
        minimum=0,
    ),
    _time("wait_mean_ns", "mean wait, over the times that it got a processor", True),
)
_REPETITION = _number("repetition", "repetition of the run, from 0", dtype="int16")
_JOB = _number("job", "job, in the order of the experiment file, from 0")
_WORKER = _number("worker", "worker within its job, from 0")
_ITERATION = _number("iteration", "iteration of the training loop, from 0")
_SWITCH = _name("switch", "name of the switch")

_DECLARED = (
    Table(
        "jobs",
        "One row per job: its settings, completion time, traffic, and whether its values were"
        " correct.",
        (
            _REPETITION,
            _JOB,
            _name("name", "name of the job in the experiment file"),
            _name("model", "model whose trace it replays"),
            _name("gpu", "GPU whose compute times it has; null: those of its trace", True),
            _name("system", "system that aggregated its gradients"),
            _name(
                "fallback",
                "algorithm of hosts that added up in place of the system; null: the system did",
                True,
            ),
            _name("refused", "why it did; null: the system did", True),
            _name(
                "trees",
                "with system `tree`, the roots of its trees, and of those that it had after links"
                " failed; null: it had none",
                True,
            ),
            Column("workers", "int32", "count", "workers", minimum=1),
            Column(
                "iterations",
                "int32",
                "count",
                "iterations of the experiment file; 1 for a program",
                minimum=1,
            ),
            _count(
                "values", "values per iteration and worker; for a program, the mean of its ranks"
            ),
            _count(
                "fragments", "fragments per iteration; for a program, the sums of all its groups"
            ),
            Column(
                "batch",
                "int32",
                "count",
                "samples per iteration and worker, of the trace; null: unknown",
                nullable=True,
                minimum=1,
            ),
            _time(
                "compute_ns",
                "computation time of a worker of nominal speed in all iterations",
                True,
            ),
            _time("submitted_ns", "time of submission; the job's start if jobs do not wait", True),
            _time("start_ns", "the job's start, when it gets its hosts"),
            _time("waiting_ns", "start_ns - submitted_ns", True),
            _time("end_ns", "end of its last iteration at its last worker; null: never", True),
            _time(
                "jct_ns",
                "job completion time (JCT): end_ns - submitted_ns, with layers_ns; null: never",
                True,
            ),
            _number(
                "layers",
                "layers of the model, of which some were simulated; null: not sampled",
                True,
            ),
            _number(
                "layers_simulated",
                "those that were; all columns but jct_ns and compute_ns are of these. null: not"
                " sampled",
                True,
            ),
            Column(
                "messages_simulated",
                "float64",
                "share",
                "share of long messages, and of computation, that were simulated; null: all",
                True,
                minimum=0,
            ),
            _time("layers_ns", "time added for the others; null: not sampled", True),
            _count(
                "answers_dropped",
                "answers that tokens went without, as experts were full, in the forward passes of"
                " an iteration; null: experts have no capacity",
                True,
            ),
            _name(
                "outcome",
                "finished; killed by a planned fault; or unfinished because of a planned fault",
                allowed=("finished", "killed", "unfinished"),
            ),
            Column("exact", "bool", "", "all checked values were correct"),
            _count(
                "values_checked",
                "values compared with the expected sum, all workers; for a program, which alone"
                " knows them, returned sums",
            ),
            _count("gradient_packets", "gradient packets that its workers sent, of every kind"),
            _count("retransmissions", "gradient packets that were retransmitted"),
            _count(
                "marked_results",
                "results by which its workers learnt of a queue that had marked packets; null: the"
                " run is older than this column",
                True,
            ),
            _count("ps_packets", "gradient packets that reached its PS; null: no PS", True),
            _count("ps_link_bytes_in", "bytes on the PS's link towards the PS", True, "bytes"),
            _count("ps_link_bytes_out", "bytes on the PS's link from the PS", True, "bytes"),
            _count("results", "result packets that its PS sent", True),
            _count("reminders", "reminders that its PS sent", True),
            _count("asks", "requests to single workers that its PS sent", True),
            _count("saturated", "values that quantisation or addition saturated", True),
            _time(
                "communication_bound_ns",
                "lower bound of the communication time of all its iterations; null: unknown",
                True,
            ),
        ),
        key=("repetition", "job"),
        ordered=(
            ("submitted_ns", "start_ns"),
            ("start_ns", "end_ns"),
            ("retransmissions", "gradient_packets"),
        ),
    ),
    Table(
        "iterations",
        "One row per worker and started iteration. The next iteration may start before the rear"
        " tensors of this one have arrived, so rows of one worker can overlap in time.",
        (
            _REPETITION,
            _JOB,
            _WORKER,
            _ITERATION,
            _time(
                "start_ns", "the first layer's forward step starts, with the update of the weights"
            ),
            _time("compute_end_ns", "the last backward step ends; null: never", True),
            _time("end_ns", "the last tensor's aggregate has arrived; null: never", True),
        ),
        key=("repetition", "job", "worker", "iteration"),
        ordered=(("start_ns", "compute_end_ns"), ("start_ns", "end_ns")),
    ),
    Table(
        "tensors",
        "One row per worker, iteration and tensor that became ready.",
        (
            _REPETITION,
            _JOB,
            _WORKER,
            _ITERATION,
            _number("tensor", "tensor, in forward order of the trace, from 0"),
            _time(
                "forward_start_ns",
                "its layer's forward step starts, with the update of the weights; null: not"
                " recorded",
                True,
            ),
            _time("forward_end_ns", "its layer's forward step ends; null: not recorded", True),
            _time("ready_ns", "its backward step has ended"),
            _time("first_sent_ns", "its first fragment leaves; null: never", True),
            _time("done_ns", "its last result has arrived; null: never", True),
        ),
        key=("repetition", "job", "worker", "iteration", "tensor"),
        ordered=(
            ("forward_start_ns", "forward_end_ns"),
            ("forward_end_ns", "ready_ns"),
            ("ready_ns", "first_sent_ns"),
            ("first_sent_ns", "done_ns"),
        ),
    ),
    Table(
        "steps",
        "One row per rank, iteration and node of a job whose model is a program of ranks. A run"
        " without such jobs has no such table.",
        (
            _REPETITION,
            _JOB,
            _WORKER,
            _ITERATION,
            _number("node", "node of the rank's graph, from 0"),
            _name("kind", "compute, or a collective or transfer, such as all_reduce, send, recv"),
            Column(
                "communicator",
                "string",
                "",
                "the job's numbers of its ranks; all: the whole job; null: a compute step",
                True,
            ),
            _count(
                "bytes",
                "bytes that the rank gives; of scatter and recv: gets; null: a compute step",
                True,
                "bytes",
            ),
            _time("start_ns", "it begins: what it depends on is there, and the rank is free"),
            _time("end_ns", "it has ended"),
        ),
        key=("repetition", "job", "worker", "iteration", "node"),
        ordered=(("start_ns", "end_ns"),),
    ),
    Table(
        "requests",
        "One row per request to a job that serves a model and that had been sent. A run without"
        " such jobs has no such table. Times are those of the last stage's first rank.",
        (
            _REPETITION,
            _JOB,
            _ITERATION,
            _number("request", "request, in the order of the list, from 0"),
            Column("prompt", "int64", "tokens", "tokens of its prompt", minimum=1),
            Column("output", "int64", "tokens", "tokens of its answer", minimum=1),
            _time(
                "sent_ns",
                "its client sends it: at its time of arrival; else at the start, or when its last"
                " answer has ended",
            ),
            _time(
                "waited_ns",
                "from sent_ns until a step takes it into the batch, as far as another step is under"
                " way; null: it has no time of arrival",
                True,
            ),
            _time("first_ns", "the first token of its answer is there; null: never", True),
            _time("end_ns", "the last one is; null: never", True),
            _time(
                "compute_ns",
                "from sent_ns to end_ns, the computation of all stages one after the other; null:"
                " it has not ended",
                True,
            ),
        ),
        key=("repetition", "job", "iteration", "request"),
        ordered=(("sent_ns", "first_ns"), ("first_ns", "end_ns")),
    ),
    Table(
        "hosts",
        "One row per role of a host: its traffic, and its delay behind its schedule. With"
        " arrivals, a host has several roles, one after the other.",
        (
            _REPETITION,
            _name("host", "name of the host"),
            _name("role", "its role in the job", allowed=("worker", "ps")),
            _JOB,
            _number("worker", "worker within its job; null for a PS", True),
            _count("packets_sent", "packets sent"),
            _count("packets_received", "packets received"),
            _count("bytes_sent", "bytes sent, from the Ethernet header on", unit="bytes"),
            _count("bytes_received", "bytes received, from the Ethernet header on", unit="bytes"),
            _count("retransmissions", "packets that it retransmitted"),
            _count("duplicate_results", "results that it already had"),
            _count("socket_drops", "packets that its socket dropped", True),
            _time("lag_p50_ns", "sending delay behind its own schedule: median", True),
            _time("lag_p99_ns", "the same: 99th percentile", True),
            _time("lag_max_ns", "the same: maximum", True),
            _time("cpu_ns", "processor time used", True),
            Column(
                "cpu_peak_share",
                "float64",
                "share",
                "largest share of a core that it used in any second",
                True,
                minimum=0,
            ),
            *_WAITS,
            _count("pss_bytes", "proportional set size at the end", True, "bytes"),
        ),
        key=("repetition", "host", "job"),
        ordered=(("lag_p50_ns", "lag_p99_ns"), ("lag_p99_ns", "lag_max_ns")),
    ),
    Table(
        "switches",
        "One row per switch of a real-clock run: the traffic and the processor time of its"
        " process.",
        (
            _REPETITION,
            _SWITCH,
            _count("packets_received", "packets that came in", True),
            _count("packets_sent", "packets sent", True),
            Column(
                "cpu_ns",
                "int64",
                "ns",
                "CPU time of its packet loop; BMv2: of all threads",
                True,
                0,
            ),
            Column(
                "cpu_peak_share",
                "float64",
                "share",
                "largest share of a core in any second",
                True,
                minimum=0,
            ),
            *_WAITS,
            _count("late_events", "events of its links handled more than 100 us late", True),
            Column("late_max_ns", "int64", "ns", "the largest lateness of such an event", True, 0),
            _count("unmodelled_drops", "packets lost outside the model", True),
        ),
        key=("repetition", "switch"),
    ),
    Table(
        "switch_counters",
        "One row per counter: totals of the run, read from the P4 program's registers at its end. "
        "The counters are listed below.",
        (
            _REPETITION,
            _SWITCH,
            _number("job", "job that is counted; null: the whole switch", True),
            _name(
                "counter",
                "name of the counter; times end in _ns",
                allowed=tuple(COUNTERS),
            ),
            _count("value", "its value", unit="count or ns"),
        ),
        key=("repetition", "switch", "job", "counter"),
    ),
    Table(
        "departures",
        "Packets that a switch has sent towards the PS of a job, by their cause, counted where they"
        " leave. Those at the PS add up to the packets that the PS links carried (links, egress),"
        " but for those of background traffic. Causes without packets have no"
        " row; a system without a PS has no such table. The causes are listed below.",
        (
            _REPETITION,
            _SWITCH,
            _JOB,
            Column(
                "at_ps",
                "bool",
                "",
                "true: they left for the PS itself, the job's or a group's, on its own link; false:"
                " for the next switch; null: the run is older than this column",
                nullable=True,
            ),
            _name("cause", "why the packet left", allowed=tuple(DEPARTURES)),
            Column("packets", "int64", "count", "such packets", minimum=1),
        ),
        key=("repetition", "switch", "job", "at_ps", "cause"),
    ),
    Table(
        "memory",
        "Samples of the number of aggregators in use, for pictures. Shares of time come from"
        " switch_counters, which do not depend on a sampling period. A switch has at least one"
        " row, with its pool size, and at most about 2,000 samples: longer runs have longer"
        " steps.",
        (
            _REPETITION,
            _SWITCH,
            _time("time_ns", "time of the sample"),
            _number("job", "job that owns them; null: all jobs together", True),
            _count("occupied", "aggregators that are filling (incomplete)", unit="aggregators"),
            _count("held", "complete, not yet released", unit="aggregators"),
            Column(
                "capacity",
                "int64",
                "aggregators",
                "aggregators in the switch's pool, of all jobs",
                minimum=1,
            ),
        ),
        key=("repetition", "switch", "time_ns", "job"),
    ),
    Table(
        "events",
        "Samples of the event counters of a switch, all jobs together, at the times of table"
        " memory, for pictures. There is a row for each event that has occurred since the"
        " previous sample. A restarted switch counts from 0 again. Totals are in switch_counters.",
        (
            _REPETITION,
            _SWITCH,
            _time("time_ns", "time of the sample"),
            _name("event", "name of the event counter", allowed=tuple(EVENTS)),
            _count("value", "its total so far"),
        ),
        key=("repetition", "switch", "time_ns", "event"),
    ),
    Table(
        "pool",
        "Aggregators in use by their place in a switch's pool, at some of the times of table"
        " memory (at most 400, evenly spaced). A pool is divided into at most 64 blocks of"
        " neighbouring aggregators, fewer with many switches. The first 64 aggregators of a block"
        " are read (in SwitchML, 64 slots of two). Not sampled on BMv2.",
        (
            _REPETITION,
            _SWITCH,
            _time("time_ns", "time of the sample"),
            Column("first", "int64", "", "the block's first aggregator, from 0", minimum=0),
            Column(
                "seen",
                "int64",
                "aggregators",
                "number of aggregators of the block that were read",
                minimum=1,
            ),
            _count("filling", "of these, filling (incomplete)", unit="aggregators"),
            _count("held", "of these, complete and not yet released", unit="aggregators"),
        ),
        key=("repetition", "switch", "time_ns", "first"),
        ordered=(("filling", "seen"), ("held", "seen")),
    ),
    Table(
        "queues",
        "Samples of the egress queues of a switch's ports, at the times of table memory, for"
        " pictures. There is a row for each queue whose length has changed since the previous"
        " sample; a queue begins empty. Longest lengths are in links (max_queue). Not sampled on"
        " BMv2, and where switches have no memory.",
        (
            _REPETITION,
            _SWITCH,
            _time("time_ns", "time of the sample"),
            _number("port", "its port, from 1"),
            _count("packets", "packets in the queue"),
        ),
        key=("repetition", "switch", "time_ns", "port"),
    ),
    Table(
        "links",
        "One row per node, port and direction: the traffic of a link, and its losses by cause.",
        (
            _REPETITION,
            _name("node", "switch or host that counted"),
            _number("port", "its port, from 1"),
            _name("neighbour", "node at the other end"),
            _name("direction", "as the node sees it", allowed=("ingress", "egress")),
            _count(
                "rate_bps", "the link's bandwidth in that direction; null: unlimited", True, "bit/s"
            ),
            _count("packets", "packets carried"),
            _count("bytes", "bytes carried, from the Ethernet header on", unit="bytes"),
            _count(
                "mean_bps",
                "mean rate: bytes divided by the time in which jobs ran; null: no job ended",
                True,
                "bit/s",
            ),
            _count("queue_drops", "dropped because the modelled queue was full", True),
            _count("losses", "dropped by the experiment's loss rate", True),
            _count("duplicates", "duplicated by the experiment's rate of duplicates", True),
            _count("reordered", "delayed by the experiment's rate of reordering", True),
            _count("unmodelled_drops", "dropped where the experiment has no queue", True),
            _count("max_queue", "longest modelled queue in packets", True),
            _count(
                "refused",
                "received packets that claimed a job without admission on this port: dropped;"
                " null: egress, or admission is off",
                True,
            ),
            _count(
                "marks",
                "packets that were marked because they found the queue long, or had been before;"
                " null: ingress, or the run is older than this column",
                True,
            ),
            _count(
                "tie_drops",
                "of queue_drops: packets that arrived in the very moment in which another one got"
                " the last place; null: the switch does not count them",
                True,
            ),
            _count(
                "down_drops",
                "lost because the link was down: sent meanwhile, or queued or in flight when it"
                " failed; null: no link failures in the experiment",
                True,
            ),
        ),
        key=("repetition", "node", "port", "direction"),
    ),
    Table(
        "losses",
        "Packets that a switch's links have lost, by cause and by job; where none were lost there"
        " is no row. The packets of a link and a cause add up to the link's count in table links.",
        (
            _REPETITION,
            _SWITCH,
            _number("port", "its port, from 1"),
            _name("direction", "as the switch sees it", allowed=("ingress", "egress")),
            _name("cause", "why, see below", allowed=tuple(LOSSES)),
            _number(
                "job",
                "job of the packets; null: other traffic, packets beyond the million that a switch"
                " notes, or not told apart (BMv2)",
                True,
            ),
            Column("packets", "int64", "count", "such packets", minimum=1),
        ),
        key=("repetition", "switch", "port", "direction", "cause", "job"),
    ),
    Table(
        "pauses",
        "How long the far ends of a switch's links were paused, by port and by the output for whose"
        " packets the buffer was full. A run whose links are not lossless, or that needed no pause,"
        " has no rows. With credits, see paused_ns in table buffers.",
        (
            _REPETITION,
            _SWITCH,
            _number("port", "its port, from 1"),
            _name("neighbour", "who was paused: the node at the far end of the port's link"),
            _name("cause", "the node behind the full output; null: not known", True),
            Column("pauses", "int64", "count", "pauses", minimum=1),
            _time("paused_ns", "how long they lasted together, from the switch's decisions"),
            _time("longest_ns", "the longest one"),
        ),
        key=("repetition", "switch", "port", "cause"),
        ordered=(("longest_ns", "paused_ns"),),
    ),
    Table(
        "buffers",
        "Use of the buffer by what came in at each port, and the pauses that the port has obeyed. A"
        " run whose links are not lossless has no such table.",
        (
            _REPETITION,
            _SWITCH,
            _number("port", "its port, from 1"),
            _name("neighbour", "node at the far end of its link"),
            _count("peak_bytes", "most bytes in the buffer, headroom included", unit="bytes"),
            _count("headroom_bytes", "headroom of the port", unit="bytes"),
            _count("headroom_peak_bytes", "most bytes in it", unit="bytes"),
            _count("drops", "packets that the full headroom has dropped; 0: nothing was lost"),
            _count("frames_sent", "pause frames or credits sent to the far end"),
            _count("frames_received", "pause frames or credits from there"),
            _time("paused_ns", "how long the far end kept this port from sending"),
            _time(
                "host_paused_ns",
                "how long the host at the far end was kept from sending; null: it is a switch",
                True,
            ),
            _count("unknown", "frames from there that pause no class of this run"),
        ),
        key=("repetition", "switch", "port"),
        ordered=(("headroom_peak_bytes", "peak_bytes"),),
    ),
    Table(
        "resent",
        "Retransmissions of each job by what they follow from, the last loss of a packet of the"
        " fragment before: a gradient, a sum, a result or a request; where hosts add up, the same"
        " packet. They add up to retransmissions in table jobs, unless a worker was killed. Causes"
        " without retransmissions have no row.",
        (
            _REPETITION,
            _JOB,
            _name("cause", "what they follow from, see below", allowed=tuple(RESENT)),
            Column("packets", "int64", "count", "such retransmissions", minimum=1),
        ),
        key=("repetition", "job", "cause"),
    ),
    Table(
        "measures",
        "One row per number that a rank of a program has reported (`testbed.report`). A run"
        " without reports has no such table.",
        (
            _REPETITION,
            _JOB,
            _number("worker", "rank of the program, from 0"),
            _number("number", "its report, from 0"),
            _name("name", "name of the measure, such as loss"),
            _number("step", "the program's step", dtype="int64"),
            _time("time_ns", "time of the report"),
            Column("value", "float64", "", "the number; null: not finite", True),
        ),
        key=("repetition", "job", "worker", "number", "name"),
    ),
    Table(
        "collectives",
        "One row per rank of a program, communicator, collective, type and route: what the rank has"
        " called. A run without programs, and a rank that was killed, have none.",
        (
            _REPETITION,
            _JOB,
            _number("worker", "rank of the program, from 0"),
            _name("communicator", "the job's numbers of its ranks; all: the whole job"),
            _name("collective", "such as all_reduce, all_gather, send"),
            _name("dtype", "type of the values; empty: it has none"),
            _name(
                "route",
                "system: through the switches, or as the system does it without; flow: in the"
                " testbed's own flows between single ranks; gloo: over PyTorch's own connections;"
                " or the algorithm of hosts that carried them",
                allowed=("system", "flow", "gloo", *ALGORITHMS),
            ),
            _count("calls", "calls"),
            _count(
                "bytes",
                "bytes that the rank has given to them; of scatter and recv: got",
                unit="bytes",
            ),
            _time("time_ns", "sum of the times from a call to its end; null: unknown", True),
        ),
        key=("repetition", "job", "worker", "communicator", "collective", "dtype", "route"),
    ),
    Table(
        "rates",
        "The rate at which the congestion control of each flow of kind `rc` lets it send, at up to"
        " 1,000 times of the run. A run without such flows has no such table.",
        (
            _REPETITION,
            _number("flow", "flow, in the order of the experiment file, from 0"),
            _time("time_ns", "time of the look"),
            _count("sending_bps", "the rate, or that of a window per round trip", unit="bit/s"),
        ),
        key=("repetition", "flow", "time_ns"),
    ),
    Table(
        "flows",
        "One row per flow of background traffic. A run without any has no such table.",
        (
            _REPETITION,
            _number("flow", "flow, in the order of the experiment file, from 0"),
            _name("name", "name of the flow"),
            _name("kind", "how it sends", allowed=("tcp", "rc", "udp", "cbr")),
            _name("source", "host that sends"),
            _name("target", "host that receives"),
            _time("begun_ns", "start; null: after the end of the run", True),
            _time("ended_ns", "end, at the latest that of the run", True),
            _count("bytes", "payload bytes received, without duplicates", unit="bytes"),
            _count(
                "mean_bps",
                "payload per time, from start to end, including silent times; null: it never began",
                True,
                "bit/s",
            ),
            _count("packets_sent", "packets sent; null: the kernel's TCP", True),
            _count("packets_received", "packets received; null: the kernel's TCP", True),
            _count(
                "lost",
                "tcp, rc: packets that were retransmitted or given up; else packets that have not"
                " arrived, including those in flight at the end",
                True,
            ),
            _count("bursts", "completely received bursts; null: it has none", True),
            _time("burst_mean_ns", "mean time from their first to their last byte", True),
            _time("burst_max_ns", "longest of these times", True),
            _count("duplicates", "copies among the packets received; null: on Mininet", True),
            _count("late", "packets received after a later one; null: on Mininet", True),
            _time("min_ns", "least latency of a packet, from host to host; null: on Mininet", True),
            Column("mean_ns", "float64", "ns", "mean of the latencies", True, minimum=0),
            _time("p50_ns", "median of the latencies, exact to 1/128", True),
            _time("p99_ns", "their 99th percentile", True),
            _time("max_ns", "the longest latency", True),
            _count(
                "resent_gap", "rc: packets sent again for a gap that the receiver told of", True
            ),
            _count("resent_timeout", "rc: packets sent again after a timeout", True),
            _count("cuts", "rc: how often the congestion control has slowed the sender down", True),
            _count("cnps", "rc: notifications of congestion (CNP) by the receiver", True),
            _count("marked", "rc: packets received with a congestion mark, copies included", True),
        ),
        key=("repetition", "flow"),
        ordered=(
            ("begun_ns", "ended_ns"),
            ("burst_mean_ns", "burst_max_ns"),
            ("min_ns", "p50_ns"),
            ("p50_ns", "p99_ns"),
            ("p99_ns", "max_ns"),
        ),
    ),
    Table(
        "faults",
        "One row per planned fault of the experiment: its planned and its actual time. After"
        " them, with link failures, one row for each recomputation of routes by the control plane"
        " (`reroute`), and for each job with a new plan (`replan`).",
        (
            _REPETITION,
            _number(
                "fault",
                "fault, in the order of the experiment file, from 0; then reroutes and replans",
            ),
            _name(
                "kind",
                "the kind of fault, `reroute` or `replan`",
                allowed=(
                    *("pause", "slow", "kill", "restart", "link_down", "link_up"),
                    *("reroute", "replan"),
                ),
            ),
            _name("target", "its target"),
            _number("job", "affected job; null: a switch or link", True),
            _time("at_ns", "planned time"),
            _time("begun_ns", "actual time; null: never, because its target had finished", True),
            _time("ended_ns", "end; at the latest that of the run", True),
            Column("factor", "float64", "", "slow-down factor; null: not a slow-down", True),
            _count(
                "entries",
                "table entries written into all switches; null: not a `reroute`",
                True,
            ),
            _count(
                "rate_bps",
                "rate of the job's slowest worker in the new plan; null: not a `replan`, or trees",
                True,
                "bit/s",
            ),
        ),
        key=("repetition", "fault"),
        ordered=(("at_ns", "begun_ns"), ("begun_ns", "ended_ns")),
    ),
    Table(
        "sums",
        "The sums that each worker has received, of a run in virtual time with `keep_sums`: one"
        " row per job, worker and iteration; of a program of ranks, for each group.",
        (
            _REPETITION,
            _JOB,
            _number("communicator", "number in packets: of the job, or of a group of its ranks"),
            _name("group", "name of the group; empty: all workers of the job"),
            _WORKER,
            _ITERATION,
            Column(
                "words",
                "binary",
                "",
                "32 bits of each sum, little-endian, in the order of the model's values; of a group"
                " those of calls whose sums all ranks get, the last call first",
            ),
            *(
                _number(
                    f"{which}_error",
                    f"{which} distance of a sum from the exact one, over the sum of the absolute"
                    " values ([numbers.md](numbers.md#errors)); null: the values are recorded, and"
                    " packets have scales of their own",
                    True,
                    "float64",
                )
                for which in ("largest", "mean")
            ),
            _number(
                "order_bits",
                "bits of a sum, in the mean, in which it is not that of the same values added in"
                " the order of ranks ([numbers.md](numbers.md#bits-that-differ))",
                True,
                "float64",
            ),
        ),
        key=("repetition", "job", "communicator", "worker", "iteration"),
    ),
    Table(
        "tuning",
        "Trials of options that were tuned before the run, with seeds that it does not have: one"
        " row per trial, seed and option. A run that names its options has no such table.",
        (
            _number("trial", "combination of values, in the order of the trials, from 0"),
            _number("seed", "seed of the run that tried it", dtype="int64"),
            _name("option", "option of the system"),
            Column("value", "float64", "", "its value, in base units"),
            _time("jct_ns", "mean JCT of the run's jobs; null: the run failed", True),
            Column("chosen", "bool", "", "the run has these values"),
            _name("error", "why it failed; empty: it did not"),
        ),
        key=("trial", "seed", "option"),
    ),
    Table(
        "fidelity",
        "One row per invariant of a real-clock run. The run is `ok` if all rows are ok, otherwise"
        " `degraded`. An unmeasured invariant is not ok.",
        (
            _REPETITION,
            _name("scope", "what was measured", allowed=("run", "host", "switch", "link")),
            _name("name", "name of the host, switch or link"),
            _name("measure", "the invariant"),
            Column(
                "value",
                "float64",
                "that of the measure",
                "measured value; null: could not be measured",
                True,
            ),
            Column("limit", "float64", "that of the measure", "largest value that is ok"),
            Column("ok", "bool", "", "the value is known and within the limit"),
        ),
        key=("repetition", "scope", "name", "measure"),
    ),
)

TABLES: Mapping[str, Table] = {table.name: table for table in _DECLARED}
