"""What an experiment file may set under `system:`, one model per system.

`SystemOptions` is what every system has, `WorkerOptions` what every system's hosts have, and
`PoolOptions` what systems with a shared pool of aggregators and a parameter server have.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

from pydantic import Field, model_validator

from testbed import plugins
from testbed.config.fields import (
    ANY_TEXT,
    HOUR,
    NAME,
    SECOND,
    US,
    Choice,
    Flag,
    Quantity,
    Section,
    Text,
    Whole,
    as_pydantic,
)
from testbed.config.units import TIME, FieldError

SWITCHML_ORDER = (
    "SwitchML's slots go by the place in the stream, so all workers must send in the one order in"
    " which tensors become ready (fifo)"
)
ONE_SET = (
    "with sets: 1 every packet must arrive, once and in order: the switch keeps no result that it"
    " could serve again; with sets: 2 it does"
)
# The planners of testbed/routing/planners, and those of other packages, which have the names of
# their entry points.
PLANNERS = ("grid-links", "striped", "grid", "nearest", "none", *plugins.found(plugins.PLANNERS))
PRIORITIES = ("esa", "communication", "remaining", "layer", "constant", "random")
ATP_ORDER = (
    "an aggregator of ATP belongs to a window position, so all workers must send in the one order"
    " in which tensors become ready (fifo)"
)


class SystemOptions(Section):
    """What every system has; each system adds the options of its own ."""

    name: Annotated[str, NAME] = Field(
        description="Which system.",
    )
    program: Annotated[str, Text(ANY_TEXT.pattern, "the path of a P4 file, or default")] = Field(
        default="default",
        description="A P4 program to load instead of the system's own.",
    )

    @property
    def fragile(self) -> str:
        """Why no packet may be lost with these options; "" if it may."""
        return ""


class ServerOptions(Protocol):
    """What the options of a system with several parameter servers for each job have."""

    servers: int


class SlotOptions(Protocol):
    """What the options of a system have whose jobs have slots of their own."""

    sets: int
    window: int | None


class WorkerOptions(SystemOptions):
    """Options of every system's workers. A system that must differ in one declares it anew."""

    usual_window: ClassVar[int] = 128  # the least that `auto` gives

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="Fragments that a worker may have in flight, at most (congestion marks halve"
        " it); auto: twice the bandwidth-delay product of the job's own empty path, at least 128.",
    )
    order: Annotated[str, Choice(("front", "fifo"))] = Field(
        default="front",
        description="Which ready tensor a worker sends first: the one nearest to the model's front,"
        " or the one that was ready first.",
    )
    timeout_ns: Annotated[
        int | None, Quantity(TIME, 10 * US, 100 * SECOND, (("adaptive", None),))
    ] = Field(
        default=None,
        alias="timeout",
        description="How long a worker waits for an answer before it sends a fragment again;"
        " adaptive: from the measured round-trip time.",
    )


class PoolOptions(WorkerOptions):
    """Options of every system with a shared pool of aggregators and a parameter server."""

    max_age_ns: Annotated[int, Quantity(TIME, 0, HOUR, (("none", 0),))] = Field(
        default=0,
        alias="max_age",
        description="An aggregator untouched for longer counts as empty for the next arrival;"
        " none or 0: never.",
    )
    reminder: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the parameter server pulls the remainder of an incomplete fragment"
        " out of the switch. Without it such a fragment waits for the workers' retransmissions.",
    )
    reminder_delay_ns: Annotated[int | None, Quantity(TIME, US, HOUR, (("adaptive", None),))] = (
        Field(
            default=None,
            alias="reminder_delay",
            description="How long the parameter server waits before it reminds; adaptive: about one"
            " round-trip time beyond the spread of arrivals.",
        )
    )


class EsaOptions(PoolOptions):
    """Options of ESA: preemptive allocation of switch memory by priority."""

    index: Annotated[str, Choice(("consecutive", "hash"))] = Field(
        default="consecutive",
        description="How a fragment finds its aggregator: neighbouring fragments side by side,"
        " or each anywhere.",
    )
    priority: Annotated[str, Choice(PRIORITIES)] = Field(
        default="esa",
        description="What a fragment's priority follows: the whole score (communication over"
        " computation time, remaining work, layer), one of its factors, nothing (constant), or"
        " chance (random).",
    )
    preempt: Annotated[str, Choice(("priority", "always", "coin"))] = Field(
        default="priority",
        description="When an arriving fragment evicts another: if its priority is higher, always,"
        " or by the toss of a coin.",
    )
    downgrading: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether an aggregator that defends itself against an arriving fragment loses"
        " half of its priority.",
    )
    release: Annotated[str, Choice(("on_completion", "on_result"))] = Field(
        default="on_completion",
        description="When an aggregator is free again: when its sum is complete and has left, or"
        " when the result comes back from the parameter server.",
    )


class AtpOptions(PoolOptions):
    """Options of ATP: switch memory is allocated first come, first served."""

    usual_window: ClassVar[int] = 100

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="Fragments that a worker may have in flight, at most (congestion marks halve"
        " it): window positions; auto: twice the bandwidth-delay product of the job's own empty"
        " path, at least 100.",
    )
    order: Annotated[str, Choice(("fifo",), later=(("front", ATP_ORDER),))] = Field(
        default="fifo",
        description="Which ready tensor a worker sends first: the one that was ready first.",
    )
    index: Annotated[str, Choice(("hash", "consecutive"))] = Field(
        default="hash",
        description="Which aggregators the window positions have at first: each anywhere, or"
        " neighbours side by side.",
    )
    rehash: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the parameter server gives a window position whose fragment collided"
        " another index.",
    )
    release: Annotated[str, Choice(("on_result", "on_completion"))] = Field(
        default="on_result",
        description="When an aggregator is free again: when the result comes back from the"
        " parameter server, or when its sum is complete and has left.",
    )
    gap: Annotated[int, Whole(0, 65_536)] = Field(
        default=3,
        description="A worker sends a fragment again at once, for one time, when it has the result"
        " of one that it sent so many places later; 0: only when the timeout is over.",
    )
    fixed_point_scale: Annotated[int, Whole(1, 1_000_000_000)] = Field(
        default=1_000_000,
        description="Fixed-point steps per unit of recorded gradients. Fragments with values"
        " beyond 213 million steps, and sums beyond int32, are summed as floating-point numbers.",
    )


class GridOptions(PoolOptions):
    """Options of GRID: a plan says which switch aggregates whose fragments, and over which links
    they go."""

    order: Annotated[str, Choice(("fifo", "front"))] = Field(
        default="fifo",
        description="Which ready tensor a worker sends first: the one that was ready first, or,"
        " but with ATP's memory, the one nearest to the model's front.",
    )
    planner: Annotated[str, Choice(PLANNERS)] = Field(
        default="grid-links",
        description="Who plans: see [grid.md](grid.md).",
    )
    memory: Annotated[str, Choice(("esa", "atp", "plain"))] = Field(
        default="esa",
        description="Whose rules decide who gets an aggregator: ESA's (priorities, with all its"
        " defaults), ATP's (first come, first served, with indices that move away from"
        " collisions), or plain (first come, first served).",
    )
    release: Annotated[str, Choice(("auto", "on_completion", "on_result"))] = Field(
        default="auto",
        description="When an aggregator is free again: when its sum is complete and has left, or"
        " when the result comes back from the parameter server; auto: on_result with ATP's memory.",
    )
    index: Annotated[str, Choice(("consecutive", "hash"))] = Field(
        default="consecutive",
        description="How a fragment finds its aggregator: neighbours side by side, or each"
        " anywhere. With ATP's memory, window positions at first.",
    )
    collision: Annotated[str, Choice(("server", "drop"))] = Field(
        default="server",
        description="What becomes of a fragment that finds its aggregator taken: it goes to the"
        " parameter server as it is, or it is dropped and its worker told, who halves its window"
        " and sends it again.",
    )

    @model_validator(mode="after")
    def _order_fits_memory(self) -> GridOptions:
        if self.memory == "atp" and self.order == "front":
            raise as_pydantic(FieldError("order: front with memory: atp", "order: fifo", ATP_ORDER))
        return self

    @property
    def downgrading(self) -> bool:
        return self.memory == "esa"


class SwitchmlOptions(WorkerOptions):
    """Options of SwitchML: each job has slots of its own, and no parameter server."""

    window: Annotated[int | None, Whole(1, 65_536, word="all")] = Field(
        default=None,
        description="Chunks that a worker may have in flight, one per slot; all: as many as its job"
        " has slots. It is fixed: SwitchML knows no marks. A slot takes an aggregator for each of"
        " its `sets`.",
    )
    order: Annotated[str, Choice(("fifo",), later=(("front", SWITCHML_ORDER),))] = Field(
        default="fifo",
        description="Which ready tensor a worker sends first: the one that was ready first.",
    )
    sets: Annotated[int, Whole(1, 2)] = Field(
        default=2,
        description="Sets of each slot, an aggregator each. 2, as in the released program: one"
        " keeps a result, to be served again, until all workers have gone on to the other. 1: twice"
        " the slots in the same memory, where no packet can be lost; so links with `loss`,"
        " `duplicate` or `reorder`, queues shorter than all windows that meet there, and restarts"
        " of switches are errors.",
    )

    @property
    def fragile(self) -> str:
        return ONE_SET if self.sets == 1 else ""


class PsOptions(WorkerOptions):
    """Options of the plain parameter server: nothing is aggregated in the network."""

    usual_window: ClassVar[int] = 64

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="Fragments that a worker may have in flight, at most (congestion marks halve"
        " it). All workers' windows together wait in the queue in front of the server. auto: the"
        " worker's share of twice the bandwidth-delay product of the job's own empty path, at least"
        " 64.",
    )
    servers: Annotated[int, Whole(1, 64)] = Field(
        default=1,
        description="Parameter servers of each job, each on a host of its own; server m of k has"
        " the fragments with m = fragment modulo k.",
    )


class RingOptions(WorkerOptions):
    """Options of ring all-reduce: the workers pass their fragments around, without a server."""

    window: Annotated[int | None, Whole(1, 65_536, word="auto")] = Field(
        default=None,
        description="Fragments that a worker may have on the way to its neighbour, at most"
        " (congestion marks halve it); auto: twice the bandwidth-delay product of the way there and"
        " back, at least 128.",
    )
