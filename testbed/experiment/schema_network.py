"""The keys of an experiment file for links and switches; see schema.py."""

from __future__ import annotations

from typing import Annotated, Any

from p4fabric.base.config.fields import NODE, SECOND, Flag, Quantity, Section
from p4fabric.base.config.units import PACKETS, PERCENT, RATE, TIME
from pydantic import Field

MAX_RATE = 100 * 10**12
# The rate that is assumed of unlimited links where a time must follow from one: in timers and
# windows of jobs, and timeouts of TCP.
NOMINAL_RATE_BPS = 10**9

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
        " packets keep their order (except with `reorder`). At most the delay.",
    )
    delay_spread: Share = Field(
        default=0.0,
        description="Differences between links: each link has its own delay from delay - spread"
        " to delay + spread, the same in both directions, drawn once from `seed`. With 0,"
        " workers at equal distances send at the same times.",
    )
    loss: Share = Field(
        default=0.0,
        description="Share of packets lost, each independently.",
    )
    duplicate: Share = Field(
        default=0.0,
        description="Share of duplicated packets; the copy follows directly.",
    )
    reorder: Share = Field(
        default=0.0,
        description="Share of packets that take `reorder_delay` longer, so that later ones overtake"
        " them.",
    )
    reorder_delay_ns: Delay = Field(
        default=1_000_000,
        alias="reorder_delay",
        description="Additional delay of a reordered packet. On a link with a bandwidth, it must"
        " exceed a packet's time on the link, so that another packet can overtake.",
    )
    queue_packets: Queue = Field(
        default=1000,
        alias="queue",
        description="Queue length of the link in packets; further packets are dropped.",
    )
    ecn_threshold_packets: Threshold = Field(
        default=0,
        alias="ecn_threshold",
        description="Packets that leave a queue longer than this get a congestion mark. At most"
        " the queue length. Default, if the link has a bandwidth: the product of the bandwidth and"
        " the longest round trip of the empty network, at least 100 packets, at most half of the"
        " queue.",
    )

    def given(self) -> dict[str, Any]:
        """The settings that are written down here, by attribute name."""
        names = LinkSettings.model_fields
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


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
    delay_spread, loss, duplicate, reorder, reorder_delay, queue, ecn_threshold) for both
    directions. Keys that are not given keep the value of `links:`."""

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


class Links(LinkSettings):
    """The settings of all links, and the exceptions."""

    each: tuple[LinkException, ...] = Field(
        default=(),
        description="Exceptions: settings of particular links. If several places set a key, the"
        " last of these applies: `links:`, the topology's class, `each`, its `forward` and"
        " `backward`.",
    )


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
