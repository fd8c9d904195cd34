"""The links of an experiment as the switches model them: port by port, both directions.

A switch shapes the packets that leave its ports. It also shapes the packets that come from a host,
on the host's behalf. Packets from another switch have been shaped there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from p4fabric.base import lossless_buffers
from p4fabric.base.lossless_buffers import LATENESS_NS

from testbed.dataplane.loss_notes import note_calls
from testbed.experiment.schema_network import STAY
from testbed.protocols import sizes

if TYPE_CHECKING:
    from testbed.experiment import LinkDirection
    from testbed.setup.job_setups import Control, Platform

# Job and fragment of a packet: 8 bytes from here on, of which the third and fourth do not count
CREDITS_AGAIN_NS = 10_000_000  # switches do not begin at the same time
SUM_BYTES = sizes.FRAME_OVERHEAD + 4, 0xFFFF_0000_FFFF_FFFF


def shape_links(platform: Platform, switch: str, client: Control, latency_ns: int = 0) -> None:
    """Give a switch's links their bandwidth, delay, jitter, queue and impairments, in one batch,
    and have it note what they lose.

    `client` is the switch's control interface. `latency_ns` is what the way through the switch
    takes a packet. It is the same for all, so it makes no difference whether it passes before the
    egress queue or behind it, and it is added to the link's delay.
    """
    calls: list[tuple] = []
    topology = platform.topology
    for port, (neighbour, link, end) in topology.ports(switch).items():
        forward, backward = platform.link(link)
        leaving, entering = (forward, backward) if end == 0 else (backward, forward)
        calls.append(("port_shape", port, "egress", *_shape(leaving, latency_ns)))
        if topology.is_host(neighbour):
            calls.append(("port_shape", port, "ingress", *_shape(entering)))
    client.batch([*calls, *note_calls(platform, switch)])


def give_buffer(
    platform: Platform, switch: str, client: lossless_buffers.Buffered, longest: int
) -> None:
    """Give a switch its buffer, after the shapes of its links, where they are lossless. `client`:
    as in `shape_links`, of the embedded switch; `longest`: bytes of a frame."""
    given = platform.lossless
    if given is None:
        return
    latency_ns = platform.virtual.switch_latency_ns if platform.virtual else LATENESS_NS
    ends = lossless_buffers.ports_of(platform.topology, switch, platform.link)
    plan = lossless_buffers.plan_buffer(given, ends, longest, latency_ns, given.priority)
    held = SUM_BYTES if given.sums == STAY else None
    repeat_ns = 0 if platform.virtual else CREDITS_AGAIN_NS
    plan = replace(plan, buffer=replace(plan.buffer, held=held, repeat_ns=repeat_ns))
    lossless_buffers.make_lossless(plan, platform.topology, switch, client)


def _shape(link: LinkDirection, latency_ns: int = 0) -> tuple[int | float | None, ...]:
    """The arguments of `port_shape`, in order."""
    return (
        link.bandwidth_bps or 0,
        link.queue_packets,
        None,  # a queue's length in bytes
        link.delay_ns + latency_ns,
        link.jitter_ns,
        link.loss,
        link.duplicate,
        link.reorder,
        link.reorder_delay_ns,
    )
