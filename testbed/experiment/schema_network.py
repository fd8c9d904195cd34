"""The keys of an experiment file for links, switches, equal paths and packets between hosts; see
schema.py."""

from __future__ import annotations

from typing import Annotated

from p4fabric.base.config.fields import (
    NODE,
    SECOND,
    Choice,
    Flag,
    Quantity,
    Section,
    Whole,
    WordOr,
    as_pydantic,
)
from p4fabric.base.config.link_settings import MAX_RATE, LinkSettings
from p4fabric.base.config.lossless_settings import WORDS, LosslessSettings, Word, settings_of
from p4fabric.base.config.units import PACKETS, RATE, TIME, FieldError
from p4fabric.base.flow import ControlName, Window
from p4fabric.base.transports import AIMD, CONTROL_TEXT, CONTROLS, OWN_WINDOW, WINDOW_TEXT
from pydantic import Field, model_validator

FIRST, ECMP, FLOWLET, SPRAY = "first", "ecmp", "flowlet", "spray"
STAY = "stay"  # sums, in the buffer
PINNED, PER_ROOT, UNPINNED = "pinned", "per_root", "unpinned"


class LinkOptions(LinkSettings):
    """The settings of a link that a topology may set: for both directions, then for each."""

    failed: Annotated[bool, Flag()] = Field(
        default=False,
        description="The link is down from the start, and no route or plan uses it. Only for links"
        " between switches.",
    )
    forward: LinkSettings | None = Field(default=None)
    backward: LinkSettings | None = Field(default=None)


class LinkException(LinkOptions):
    """Settings for particular links. Takes the keys of `links:` (bandwidth, delay, jitter,
    delay_spread, loss, duplicate, reorder, reorder_delay, queue, ecn_threshold, ecn_max_threshold,
    ecn_max_probability) for both directions. Keys that are not given keep the value of `links:`."""

    between: Annotated[tuple[Annotated[str, NODE], ...], Field(min_length=2, max_length=2)] = Field(
        description="The two nodes. The settings are for all links between them.",
    )
    forward: LinkSettings | None = Field(
        default=None,
        description="The same keys for the direction from the first to the second node only.",
    )
    backward: LinkSettings | None = Field(
        default=None,
        description="The same keys for the direction from the second to the first node only.",
    )


GRADIENT_CLASS, BACKGROUND_CLASS = 3, 0  # of packets, where there are two classes
TOS_CLASS = 5  # first bit of the class in IPv4's ToS
CLASS_NUMBERS = {"all": 3, "gradients": GRADIENT_CLASS, "background": BACKGROUND_CLASS}


class Lossless(LosslessSettings):
    """Links that lose nothing to full queues: a switch stops the far end of a link before its
    buffer is full. An *input* is the packets of a class that have come in by one port."""

    classes: Annotated[str, Choice(tuple(CLASS_NUMBERS))] = Field(
        default="all",
        description="Which packets are not lost. With `gradients` or `background`, ports have a"
        " queue for each of the two, gradients first; the other class is dropped by full queues.",
    )
    sums: Annotated[str, Choice(("leave", STAY))] = Field(
        default="leave",
        description="What a switch has added up leaves the buffer at once, or stays there until the"
        " sum is complete. `stay`, only with `system: tree`, can deadlock.",
    )

    @property
    def priority(self) -> int:
        """The class of packets that is not lost."""
        return CLASS_NUMBERS[self.classes]

    @property
    def queues(self) -> int:
        """Egress queues of each port."""
        return 1 if self.classes == "all" else 8

    def tos(self, is_background: bool = False) -> int:
        """Bits of a packet's class in IPv4's ToS; 0 where there is one class."""
        number = BACKGROUND_CLASS if is_background else GRADIENT_CLASS
        return 0 if self.queues == 1 else number << TOS_CLASS


class Links(LinkSettings):
    """The settings of all links, and the exceptions."""

    lossless: Annotated[
        Lossless | Word | None, WordOr(Lossless, WORDS, "{control: pfc, threshold: 100 KiB}")
    ] = Field(
        default=None,
        json_schema_extra={"default": "none: full queues drop packets"},
        description="Links that lose nothing to full queues: `pfc`, `cbfc`, or a mapping; see"
        " [fabric.md](fabric.md). Not with BMv2.",
    )
    each: tuple[LinkException, ...] = Field(
        default=(),
        description="Exceptions: settings of particular links. If several places set a key, the"
        " last of these applies: `links:`, the topology's class, `each`, its `forward` and"
        " `backward`.",
    )


def lossless_of(links: Links) -> Lossless | None:
    """The settings of lossless links; None: links lose packets."""
    if isinstance(links.lossless, Lossless):
        return links.lossless
    given = settings_of(links.lossless)
    return None if given is None else Lossless(control=given.control)


class SwitchSettings(Section):
    """The aggregation of a switch."""

    aggregates: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the switch aggregates. Otherwise it only forwards, and the job's next"
        " aggregating switch aggregates its packets.",
    )
    capacity_bps: Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))] = (
        Field(
            default=None,
            alias="capacity",
            description="Aggregation capacity: the largest total rate of gradients, of all jobs,"
            " that the switch aggregates. Gradients beyond it continue to the parameter server"
            " unchanged. Counts bytes from the Ethernet header to the end of the payload. System"
            " grid only.",
        )
    )
    burst_packets: Annotated[int | None, Quantity(PACKETS, 1, 10**6, (("auto", None),))] = Field(
        default=None,
        alias="burst",
        description="Largest burst of packets beyond the capacity. auto: for each aggregated"
        " worker, four packets, plus the worker's burst (timers.burst), plus the largest lead of"
        " the fragments for this switch over their share. System grid only.",
    )


class SwitchException(SwitchSettings):
    """Settings of one switch. Keys that are not given keep the value of `switches:`."""

    switch: Annotated[str, NODE] = Field(description="The switch's name.")


class Switches(SwitchSettings):
    """The settings of all switches, and the exceptions."""

    each: tuple[SwitchException, ...] = Field(
        default=(),
        description="Exceptions: settings of particular switches.",
    )

    def of(self, name: str) -> SwitchSettings:
        """One switch's settings."""
        found = {key: getattr(self, key) for key in SwitchSettings.model_fields}
        for exception in self.each:
            if exception.switch == name:
                given = exception.model_fields_set - {"switch"}
                found |= {key: getattr(exception, key) for key in given}
        return SwitchSettings.model_construct(**found)


class Paths(Section):
    """The choice among equal paths."""

    choice: Annotated[str, Choice((FIRST, ECMP, FLOWLET, SPRAY))] = Field(
        default=ECMP,
        description="Path of a packet that goes by its address. `first`: that of the receiver's"
        " local rank, as without `paths`. `ecmp`: by a hash of the five-tuple. `flowlet`: the same"
        " until the flow pauses for a `gap`. `spray`: each packet has a path of its own.",
    )
    seed: Annotated[int | None, Whole(0, 2 * 10**9, word="auto")] = Field(
        default=None,
        description="Seed of the switches' hashes; auto: that of the repetition.",
    )
    gap_ns: Annotated[int, Quantity(TIME, 1000, SECOND)] = Field(
        default=100_000,
        alias="gap",
        description="Pause after which a flow may take another path; `flowlet` only.",
    )
    weights: Annotated[str, Choice(("equal", "rate"))] = Field(
        default="equal",
        description="Shares of paths. `rate`: in proportion to what their links carry.",
    )
    sums: Annotated[str, Choice((PINNED, PER_ROOT, UNPINNED))] = Field(
        default=PINNED,
        description="Paths of what switches add up. `pinned`: all of a job meets in one tree, as"
        " without `paths`. `per_root`: a tree on each of the equal paths, each with its share of"
        " the fragments. `unpinned`: by `choice`, so only some sums meet, and the server completes"
        " the others. The last two are for systems with a shared pool (esa, atp, a2tp); `tree` has"
        " `trees`, `grid` a plan.",
    )

    @property
    def of_packets(self) -> bool:
        """True if what goes by its address has a choice."""
        return self.choice != FIRST


class Transport(Section):
    """Packets between the hosts of a job, which a system of hosts (ring, double_tree, ...) and the
    transfers of ranks consist of. Windows of systems that aggregate in switches, and of parameter
    servers, are their own."""

    congestion_control: Annotated[str, ControlName((AIMD, *CONTROLS))] = Field(
        default=AIMD,
        description="What finds rates and windows. `aimd`: a window for each other host, which"
        " grows by a packet per round trip and is halved by a congestion mark. " + CONTROL_TEXT,
    )
    window_packets: Window = Field(
        default=OWN_WINDOW,
        alias="window",
        description="Most packets in flight to one host, at most those of the system's window;"
        f" not with `aimd`. {WINDOW_TEXT}",
    )

    @model_validator(mode="after")
    def _together(self) -> Transport:
        if self.congestion_control == AIMD and self.window_packets != OWN_WINDOW:
            raise as_pydantic(FieldError("aimd with window", "another congestion_control"))
        return self
