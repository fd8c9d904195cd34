"""What an experiment file may say about links; see schema.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from testbed.config.fields import NODE, SECOND, Flag, Quantity, Section
from testbed.config.units import PACKETS, PERCENT, RATE, TIME

if TYPE_CHECKING:
    pass


MAX_RATE = 100 * 10**12

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
        " packets keep their order (for another, `reorder`). Not more than the delay.",
    )
    delay_spread: Share = Field(
        default=0.0,
        description="By how much links differ: each has a delay of its own from delay - spread to"
        " delay + spread, the same in both directions, drawn once from `seed`. Without any, workers"
        " at equal distances send in step.",
    )
    loss: Share = Field(
        default=0.0,
        description="Share of packets lost, each independently.",
    )
    duplicate: Share = Field(
        default=0.0,
        description="Share of packets that arrive twice, one right behind the other.",
    )
    reorder: Share = Field(
        default=0.0,
        description="Share of packets that take `reorder_delay` longer, so that later ones overtake"
        " them.",
    )
    reorder_delay_ns: Delay = Field(
        default=1_000_000,
        alias="reorder_delay",
        description="How much longer a reordered packet takes. With a bandwidth, more than a"
        " packet's time on the link, or nothing could overtake it.",
    )
    queue_packets: Queue = Field(
        default=1000,
        alias="queue",
        description="Packets that can wait for the link; more are dropped.",
    )
    ecn_threshold_packets: Threshold = Field(
        default=0,
        alias="ecn_threshold",
        description="Packets that leave a queue longer than this carry a congestion mark. Not more"
        " than the queue. By default, where there is a bandwidth, its product with the longest"
        " round trip of the empty network, at least 100 packets, at most half of the queue.",
    )

    def given(self) -> dict[str, Any]:
        """The settings that are written down here, by attribute name."""
        names = LinkSettings.model_fields
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


class LinkOptions(LinkSettings):
    """What a topology may say about a link: settings of both directions, then of each."""

    failed: Annotated[bool, Flag()] = Field(
        default=False,
        description="The link is down from the start, and the control plane knows it: no route and"
        " no plan uses it. For links between switches.",
    )
    forward: LinkSettings | None = Field(default=None)
    backward: LinkSettings | None = Field(default=None)


class LinkException(LinkOptions):
    """Settings for particular links. Takes the keys of `links:` (bandwidth, delay, jitter,
    delay_spread, loss, duplicate, reorder, reorder_delay, queue, ecn_threshold) for both
    directions; what is not given stays as it is."""

    between: Annotated[tuple[Annotated[str, NODE], ...], Field(min_length=2, max_length=2)] = Field(
        description="The two nodes; all links between them are meant.",
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
    """What all links have in common, and the exceptions."""

    each: tuple[LinkException, ...] = Field(
        default=(),
        description="Links that differ, and in what. Where several places set a key, the"
        " last of these counts: `links:`, the topology's class, `each`, its `forward` and"
        " `backward`.",
    )
