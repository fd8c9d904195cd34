"""The keys of an experiment file under `system:`, one model per system.

`SystemOptions` has the options of every system, `WorkerOptions` those of every system's workers,
and `PoolOptions` those of systems with a shared pool of aggregators and a parameter server.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Protocol

from p4fabric.base.config.fields import (
    ANY_TEXT,
    HOUR,
    NAME,
    SECOND,
    US,
    Choice,
    Flag,
    Quantity,
    Reads,
    Section,
    Text,
    Whole,
    as_pydantic,
)
from p4fabric.base.config.units import RATE, TIME, FieldError
from pydantic import Field, model_validator

from testbed import plugins
from testbed.number_formats import DEFAULT, FORMATS

HALVE = "halve"  # the window, of `marks`
SWITCHML_ORDER = (
    "in SwitchML the place in the stream decides the slot, so all workers must send tensors in the"
    " same order, in which they become ready (fifo)"
)
ONE_SET = (
    "with sets: 1 every packet must arrive, once and in order: the switch keeps no result to send"
    " again; with sets: 2 it does"
)
# Algorithms of hosts for jobs that get no static tree.
FALLBACKS = ("ring", "halving_doubling", "double_tree", "hierarchical")
# The planners of testbed/routing/planners and of other packages (by the names of entry points).
SHIPPED_PLANNERS = (
    "grid-links",
    "two-level",
    "grid",
    "nearest",
    "nearest-anywhere",
    "none",
)
PLANNERS = (*SHIPPED_PLANNERS, *plugins.found(plugins.PLANNERS))
GONE_PLANNERS = (
    ("striped", "it is gone; nearest splits fragments, grid-links has the next best rates"),
)
RESULTS = ("counted", "ignored")
PRIORITIES = (
    "esa",
    "communication",
    "remaining",
    "layer",
    "constant",
    "random",
    "attained",
    "esa_attained",
)
ATP_ORDER = (
    "an aggregator of ATP belongs to a window position, so all workers must send tensors in the"
    " same order, in which they become ready (fifo)"
)

NOTHING_FREES = "no result comes back from the parameter server that could free an aggregator"
NOBODY_ASKS = (
    "a result that the parameter server and a worker have lost comes again only if the server asks"
    " the others for it"
)


class SystemOptions(Section):
    """Options of every system; each system adds its own."""

    name: Annotated[str, NAME] = Field(
        description="The system's name.",
    )
    program: Annotated[
        str, Text(ANY_TEXT.pattern, "the path of a P4 file, or default"), Reads("P4 program")
    ] = Field(
        default="default",
        description="A P4 program to load instead of the system's own.",
    )

    @property
    def lossless_reason(self) -> str:
        """Reason why no packet may be lost with these options; "" if packets may be lost."""
        return ""


class ServerOptions(Protocol):
    """The options of a system with several parameter servers for each job."""

    servers: int


class SlotOptions(Protocol):
    """The options of a system in which each job has its own slots."""

    sets: int
    window: int | None


class WorkerOptions(SystemOptions):
    """Options of every system's workers. A system may declare one of them again to change it."""

    usual_window: ClassVar[int] = 128  # the smallest window of `auto`

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="The largest number of fragments that a worker may have in flight"
        " (congestion marks halve the window); auto: twice the bandwidth-delay product of the"
        " job's own empty path, at least 128; for a program, including the wake-up times of its"
        " hosts (docs/training.md).",
    )
    order: Annotated[str, Choice(("fifo", "front"))] = Field(
        default="fifo",
        description="The ready tensor that a worker sends first: the one that was ready first, or"
        " the one nearest to the model's front.",
    )
    timeout_ns: Annotated[
        int | None, Quantity(TIME, 10 * US, 100 * SECOND, (("adaptive", None),))
    ] = Field(
        default=None,
        alias="timeout",
        description="The time that a worker waits for an answer before it retransmits a fragment;"
        " adaptive: from the measured round-trip time.",
    )
    zeros: Annotated[str, Choice(("auto", "sent", "header_only"))] = Field(
        default="auto",
        description="Gradients and results whose values are all 0. sent: with values, like any"
        " other. header_only: a header without values"
        " ([wire.md](wire.md#packets-without-values)). auto: header_only if a job is a program,"
        " except with switch bmv2 and limited bandwidths; else sent.",
    )
    sum: Annotated[str, Choice(tuple(FORMATS))] = Field(
        default=DEFAULT,
        description="The format in which switches, servers and workers add gradients, and their"
        " bits in packets ([numbers.md](numbers.md)): integers, floating-point numbers in the order"
        " of arrival, or exact sums.",
    )


class PoolOptions(WorkerOptions):
    """Options of every system with a shared pool of aggregators and a parameter server."""

    window_rule: Annotated[str, Choice(("in_flight", "positions"))] = Field(
        default="in_flight",
        description="What counts against the window: the fragments in flight, or the positions"
        " from the oldest fragment without a result to the next one to send, in sending order."
        " With positions a single missing result stops the worker after a window.",
    )
    max_age_ns: Annotated[int, Quantity(TIME, 0, HOUR, (("none", 0),))] = Field(
        default=0,
        alias="max_age",
        description="An aggregator untouched for longer counts as empty for the next arrival;"
        " none or 0: never.",
    )
    reminder: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the parameter server pulls partial sums of incomplete fragments out"
        " of the switch. Otherwise such a fragment waits for the workers' retransmissions.",
    )
    reminder_delay_ns: Annotated[int | None, Quantity(TIME, US, HOUR, (("adaptive", None),))] = (
        Field(
            default=None,
            alias="reminder_delay",
            description="The time that the parameter server waits before it sends a reminder;"
            " adaptive: about one round-trip time longer than the spread of arrivals.",
        )
    )


class DeliveryOptions(PoolOptions):
    """Options of a pool whose switch may send results itself."""

    results_from: Annotated[str, Choice(("server", "switch"))] = Field(
        default="server",
        description="Who sends the result of a sum that is complete in the switch of the parameter"
        " server: the server, or this switch at once, with a copy for the server, which serves"
        " workers that lose theirs. All other results come from the server.",
    )

    @model_validator(mode="after")
    def _server_can_do_its_part(self) -> DeliveryOptions:
        if self.results_from == "server":
            return self
        release = getattr(self, "release", "on_completion")
        for key, found, allowed, reason in (
            ("release", release, "on_completion", NOTHING_FREES),
            ("reminder", "true" if self.reminder else "false", "true", NOBODY_ASKS),
        ):
            if found != allowed:
                wrong = f"results_from: switch with {key}: {found}"
                raise as_pydantic(FieldError(wrong, f"{key}: {allowed}", reason))
        return self


class EsaOptions(DeliveryOptions):
    """Options of ESA: preemptive allocation of switch memory by priority."""

    index: Annotated[str, Choice(("consecutive", "hash"))] = Field(
        default="consecutive",
        description="The aggregator of a fragment: neighbouring fragments have neighbouring"
        " aggregators, or a hash determines it.",
    )
    priority: Annotated[str, Choice(PRIORITIES)] = Field(
        default="esa",
        description="A fragment's priority: the whole score (communication over computation time,"
        " remaining work, layer), one of its factors, a constant, or a random number. For"
        " jobs of unknown length, `attained` and `esa_attained` use the work of the"
        " iterations so far instead of the remaining work.",
    )
    preempt: Annotated[str, Choice(("priority", "always", "coin"))] = Field(
        default="priority",
        description="When an arriving fragment evicts another: if its priority is higher, always,"
        " or with probability 1/2.",
    )
    downgrading: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether an arriving fragment that cannot evict the owner of an aggregator"
        " halves the owner's priority.",
    )
    release: Annotated[str, Choice(("on_completion", "on_result"))] = Field(
        default="on_completion",
        description="When an aggregator becomes free: when its complete sum has left, or when"
        " the result returns from the parameter server.",
    )


class AtpOptions(DeliveryOptions):
    """Options of ATP: switch memory is allocated first come, first served."""

    usual_window: ClassVar[int] = 100

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="The largest number of fragments that a worker may have in flight, which are"
        " its window positions (congestion marks halve the window); auto: twice the"
        " bandwidth-delay product of the job's own empty path, at least 100.",
    )
    window_rule: Annotated[str, Choice(("positions", "in_flight"))] = Field(
        default="positions",
        description="What counts against the window: the positions from the oldest fragment"
        " without a result to the next one to send, or the fragments in flight. With positions a"
        " window position has one fragment at a time. With in_flight a fragment keeps the"
        " position fragment number modulo window, several fragments of one position may be in"
        " flight and collide, and a new index applies from the next iteration on.",
    )
    order: Annotated[str, Choice(("fifo",), others=(("front", ATP_ORDER),))] = Field(
        default="fifo",
        description="The ready tensor that a worker sends first: the one that was ready first.",
    )
    index: Annotated[str, Choice(("hash", "consecutive"))] = Field(
        default="hash",
        description="The initial aggregators of window positions: a hash determines them, or"
        " neighbours have neighbouring aggregators.",
    )
    rehash: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the parameter server assigns a new index to a window position after a"
        " collision.",
    )
    release: Annotated[str, Choice(("on_result", "on_completion"))] = Field(
        default="on_result",
        description="When an aggregator becomes free: when the result returns from the parameter"
        " server, or when its complete sum has left.",
    )
    gap: Annotated[int, Whole(0, 65_536)] = Field(
        default=3,
        description="A worker retransmits a fragment at once, but only once, when it has the"
        " result of a fragment that it sent this many places later; 0: only after the timeout, as"
        " on links where nothing can be lost.",
    )
    fixed_point_scale: Annotated[int, Whole(1, 1_000_000_000)] = Field(
        default=1_000_000,
        description="Fixed-point steps per unit of recorded gradients, and of a program's float32"
        " with `numbers: fixed`. Fragments with values"
        " beyond 213 million steps, and sums beyond int32, are summed as floating-point numbers.",
    )


class A2tpOptions(AtpOptions):
    """Options of A2TP: ATP, whose workers have a window for aggregators beside that for links."""

    release: Annotated[str, Choice(("on_result",))] = Field(
        default="on_result",
        description="When an aggregator becomes free: when the result returns from the parameter"
        " server, which takes along whether other fragments have met there.",
    )
    results_from: Annotated[str, Choice(("server",))] = Field(
        default="server",
        description="Who sends results: the parameter server alone.",
    )


class GridOptions(PoolOptions):
    """Options of GRID: a plan assigns aggregating switches and paths to fragments."""

    order: Annotated[str, Choice(("fifo", "front"))] = Field(
        default="fifo",
        description="The ready tensor that a worker sends first: the one that was ready first,"
        " or the one nearest to the model's front (not with ATP's memory).",
    )
    window_rule: Annotated[str, Choice(("auto", "in_flight", "positions"))] = Field(
        default="auto",
        description="What counts against the window: the fragments in flight, or the positions from"
        " the oldest fragment without a result to the next one to send; auto: positions with ATP's"
        " memory.",
    )
    planner: Annotated[str, Choice(PLANNERS, GONE_PLANNERS)] = Field(
        default="grid-links",
        description="The planner; see [grid.md](grid.md).",
    )
    results: Annotated[str, Choice(RESULTS)] = Field(
        default="counted",
        description="Whether the plan reserves capacity for results. counted: its rates hold with"
        " results. ignored: gradients may take this capacity, and the job is then slower than"
        " planned.",
    )
    roundings: Annotated[int, Whole(1, 1000)] = Field(
        default=20,
        description="Number of random roundings of the planner grid, which uses the best.",
    )
    exact: Annotated[bool, Flag()] = Field(
        default=False,
        description="Whether the planner grid solves its integer program instead of rounding.",
    )
    max_rate_bps: Annotated[int | None, Quantity(RATE, 1000, 100 * 10**12, (("auto", None),))] = (
        Field(
            default=None,
            alias="max_rate",
            description="T of the published model: the highest rate of a worker, for every"
            " planner; auto: the parameter server's ingress.",
        )
    )
    memory: Annotated[str, Choice(("esa", "atp", "plain"))] = Field(
        default="esa",
        description="The rules for assigning aggregators: ESA's (priorities, with all its"
        " defaults), ATP's (first come, first served, with new indices after collisions), or"
        " plain (first come, first served).",
    )
    release: Annotated[str, Choice(("auto", "on_completion", "on_result"))] = Field(
        default="auto",
        description="When an aggregator becomes free: when its complete sum has left, or when"
        " the result returns from the parameter server; auto: on_result with ATP's memory.",
    )
    index: Annotated[str, Choice(("consecutive", "hash"))] = Field(
        default="consecutive",
        description="The aggregator of a fragment: neighbouring fragments have neighbouring"
        " aggregators, or a hash determines it. With ATP's memory: the initial aggregators of"
        " window positions.",
    )
    collision: Annotated[str, Choice(("server", "drop"))] = Field(
        default="server",
        description="A fragment that finds its aggregator taken goes to the parameter server"
        " unchanged, or the switch drops it and notifies its worker, which halves its window and"
        " sends the fragment again.",
    )

    window_growth: Annotated[str, Choice(("window", "packet"))] = Field(
        default="window",
        description="Growth of a worker's window. window: by one packet per window, from its"
        " largest size. packet: by one packet for each fragment that a switch aggregated, from"
        " one packet up to the largest size (the published rule). Congestion marks and dropped"
        " fragments halve it.",
    )

    @model_validator(mode="after")
    def _order_fits_memory(self) -> GridOptions:
        if self.memory == "atp" and self.order == "front":
            raise as_pydantic(FieldError("order: front with memory: atp", "order: fifo", ATP_ORDER))
        return self

    @property
    def plan_options(self) -> dict[str, Any]:
        """The planner's options, as arguments of make_plan."""
        names = ("results", "roundings", "exact", "max_rate_bps")
        return {name: getattr(self, name) for name in names}

    @property
    def downgrading(self) -> bool:
        return self.memory == "esa"


class StreamOptions(WorkerOptions):
    """Options of systems whose workers send in the order of a stream, through slots."""

    marks: Annotated[str, Choice(("ignored", HALVE))] = Field(
        default="ignored",
        description="Congestion marks in results. ignored: the window is fixed, as the system has"
        f" it. {HALVE}: a mark halves the window, and results without one let it grow again, as in"
        " systems with a shared pool.",
    )

    @property
    def follows_marks(self) -> bool:
        return self.marks == HALVE


class SwitchmlOptions(StreamOptions):
    """Options of SwitchML: each job has its own slots and no parameter server."""

    window: Annotated[int | None, Whole(1, 65_536, word="all")] = Field(
        default=None,
        description="The number of chunks that a worker may have in flight, one per slot; all:"
        " its job's number of slots. The window is fixed, because SwitchML has no congestion"
        " control of its own, unless `marks` says otherwise. A slot takes an aggregator for each of"
        " its `sets`.",
    )
    order: Annotated[str, Choice(("fifo",), others=(("front", SWITCHML_ORDER),))] = Field(
        default="fifo",
        description="The ready tensor that a worker sends first: the one that was ready first.",
    )
    sets: Annotated[int, Whole(1, 2)] = Field(
        default=2,
        description="Sets of each slot; each set is an aggregator. 2, as in the released"
        " program: one set keeps a result for retransmissions until all workers use the other."
        " 1: twice as many slots in the same memory, but no packet may be lost. So links with"
        " `loss`, `duplicate` or `reorder`, queues shorter than the sum of all windows there,"
        " and restarts of switches are errors.",
    )

    @property
    def lossless_reason(self) -> str:
        return ONE_SET if self.sets == 1 else ""


class TreeOptions(StreamOptions):
    """Options of static trees, which an aggregation manager gives to jobs before a run."""

    sets: ClassVar[int] = 2  # of each slot, as in SwitchML

    window: Annotated[int | None, Whole(1, 65_536, word="all")] = Field(
        default=None,
        description="The number of chunks that a worker may have in flight, one per slot; all: the"
        " slots of all trees of its job. A slot takes two aggregators.",
    )
    order: Annotated[str, Choice(("fifo",), others=(("front", SWITCHML_ORDER),))] = Field(
        default="fifo",
        description="The ready tensor that a worker sends first: the one that was ready first.",
    )
    mode: Annotated[str, Choice(("exclusive", "quotas"))] = Field(
        default="exclusive",
        description="How jobs share a switch. exclusive: a part of its memory belongs to one job"
        " for the job's life, and a job that finds a switch taken gets no tree. quotas: all jobs"
        " have a number of slots in each switch of their trees.",
    )
    jobs_per_switch: Annotated[int | None, Whole(1, 1024, word="1")] = Field(
        default=None,
        description="With `mode: exclusive`, the number of equal parts of a switch's memory, each"
        " for one job.",
    )
    quota: Annotated[int | None, Whole(1, 65_536, word="equal")] = Field(
        default=None,
        description="With `mode: quotas`, the slots that a job has in each switch of its trees, if"
        " there are enough; equal: all trees that pass a switch share it equally.",
    )
    trees: Annotated[int | None, Whole(1, 64, word="auto")] = Field(
        default=None,
        description="The most trees of a job, which carry its fragments in turn; auto: with"
        " `mode: exclusive` one, with quotas up to four, with different roots.",
    )
    fallback: Annotated[str, Choice(FALLBACKS)] = Field(
        default="ring",
        description="The algorithm of hosts ([baselines.md](baselines.md)) of jobs that get no"
        " tree.",
    )

    @model_validator(mode="after")
    def _fits_mode(self) -> TreeOptions:
        other = {"exclusive": "quota", "quotas": "jobs_per_switch"}[self.mode]
        if getattr(self, other) is not None:
            raise as_pydantic(
                FieldError(
                    f"{other} with mode: {self.mode}",
                    f"no {other}",
                    "jobs_per_switch is for mode: exclusive, and quota for mode: quotas",
                )
            )
        return self


class PsOptions(WorkerOptions):
    """Options of the plain parameter server: nothing is aggregated in the network."""

    usual_window: ClassVar[int] = 64

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="The largest number of fragments that a worker may have in flight (congestion"
        " marks halve the window). The windows of all workers share the queue in front of the"
        " server. auto: the worker's share of twice the bandwidth-delay product of the job's own"
        " empty path, at least 64.",
    )
    servers: Annotated[int, Whole(1, 64)] = Field(
        default=1,
        description="Number of parameter servers of each job, each on its own host; server m of k"
        " has the fragments with m = fragment modulo k.",
    )


class HostSumsOptions(WorkerOptions):
    """Options of systems in which the workers add up, without servers: `ring` and the other
    algorithms."""

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="The largest number of fragments that a worker may have in flight to another"
        " one (congestion marks halve the window); auto: twice the bandwidth-delay product"
        " of the path there and back, at least 128.",
    )
    order: Annotated[str, Choice(("front", "fifo"))] = Field(
        default="front",
        description="The ready tensor that a worker sends first: the one nearest to the model's"
        " front, or the one that was ready first.",
    )


class ColocatedPsOptions(HostSumsOptions):
    """Options of parameter servers on the workers' hosts: nothing is aggregated in the network."""

    roots: Annotated[int | None, Whole(1, 1024, word="all")] = Field(
        default=None,
        alias="servers",
        description="Number of parameter servers, on the hosts of the first workers, each with an"
        " equal part of the fragments; all: one on each worker's host.",
    )
