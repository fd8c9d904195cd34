"""The keys of one direction of a link, as every kind of file has them. Those of a network file have
their two ends beside them (p4fabric/netfile)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from p4fabric.base.config.fields import SECOND, Quantity, Section
from p4fabric.base.config.units import PACKETS, PERCENT, RATE, TIME

MAX_RATE = 100 * 10**12
# The rate that is assumed of unlimited links where a time must follow from one, as in timers and
# timeouts.
NOMINAL_RATE_BPS = 10**9

Bandwidth = Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))]
Delay = Annotated[int, Quantity(TIME, 0, 100 * SECOND)]
Share = Annotated[float, Quantity(PERCENT, 0, 99)]
Queue = Annotated[int, Quantity(PACKETS, 1, 10**6)]
MaxThreshold = Annotated[int | None, Quantity(PACKETS, 1, 10**6, (("none", None),))]
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
        " hosts at equal distances send at the same times.",
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
    ecn_max_threshold_packets: MaxThreshold = Field(
        default=None,
        alias="ecn_max_threshold",
        description="Between `ecn_threshold` and this queue length, packets get a mark with a"
        " probability that grows linearly from 0 to `ecn_max_probability`; beyond it, all do. None:"
        " all do beyond `ecn_threshold`. More than `ecn_threshold`, at most the queue length.",
    )
    ecn_max_probability: Annotated[float, Quantity(PERCENT, 0, 100)] = Field(
        default=1.0,
        description="With `ecn_max_threshold`: the largest probability between the two.",
    )

    def given(self) -> dict[str, Any]:
        """The settings that are written down here, by attribute name."""
        names = LinkSettings.model_fields
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}
