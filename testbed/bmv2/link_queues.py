"""The model of links for BMv2, whose only means is an egress queue per port.

BMv2's own queue models the bandwidth and queue towards a switch's port, so that a P4 program sees
the real queue length. Its rate counts packets, not bits: a link's bandwidth becomes a number of
full packets per second, rounded down, and a short packet takes as long as a full one. HTB in the
host's namespace limits what the host sends, with a queue of as many packets, so that the host
cannot exceed the link's rate. netem on the sending interface adds delay and loss in both
directions, as in Mininet's TCLink. Packets from another switch are not shaped again: that switch
has shaped them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.experiment.bmv2_limits import packets_per_s

if TYPE_CHECKING:
    from testbed.experiment.experiment import LinkDirection
    from testbed.setup import Control, Platform

    Directions = Sequence[tuple[LinkDirection, LinkDirection]]

# Queue length where the link has no queue: packets there wait for a processor, none is dropped.
DEEP_PACKETS = 1_000_000
ETHERNET_BYTES = 14
MIN_MTU_BYTES = 576
BURST_FRAMES = 2  # HTB needs room for a whole packet


def mtu_bytes(platform: Platform) -> int:
    """MTU of all interfaces: that of a full packet, but at least the kernel's minimum.

    simple_switch's packet sockets have a ring of 2 MB in which every packet takes the space of an
    MTU. With the network's usual MTU that is only some hundred packets."""
    return max(platform.longest_frame_bytes - ETHERNET_BYTES, MIN_MTU_BYTES)


def impaired(directions: Directions) -> bool:
    """True if some link has delay or loss."""
    return any(way.delay_ns or way.loss for both in directions for way in both)


def disciplines(directions: Directions) -> set[str]:
    """The entries of `kernel_probe.FEATURES` that links need."""
    needed = {"netem"} if impaired(directions) else set()
    if any(way.bandwidth_bps for both in directions for way in both):
        needed.add("HTB")
    return needed


def shape_queues(platform: Platform, switch: str, client: Control) -> None:
    """Give the egress queues of one switch their rates and depths, in one batch.

    `client` is the switch's control client (control.Client)."""
    frame = platform.longest_frame_bytes
    calls: list[tuple] = []
    for port, (_, link, end) in platform.topology.ports(switch).items():
        leaving = platform.link(link)[end]
        bandwidth_bps = leaving.bandwidth_bps
        limited = bandwidth_bps is not None
        rate = packets_per_s(bandwidth_bps, frame) if bandwidth_bps is not None else 0
        calls.append(("queue_rate", rate, port))
        calls.append(("queue_depth", leaving.queue_packets if limited else DEEP_PACKETS, port))
    client.batch(calls)


def qdiscs(platform: Platform) -> dict[str, list[str]]:
    """Commands for `tc -batch` by node, in that node's namespace. Interface n of a node is
    `<node>-eth<n>`, and of a host `<host>-eth0`."""
    frame = platform.longest_frame_bytes
    topology, commands = platform.topology, dict[str, list[str]]()
    for switch in topology.switches:
        for port, (neighbour, link, end) in topology.ports(switch).items():
            both = platform.link(link)
            if netem := _netem(both[end], DEEP_PACKETS):
                line = f"qdisc add dev {switch}-eth{port} root {netem}"
                commands.setdefault(switch, []).append(line)
            if neighbour in topology.hosts:
                lines = _of_host(f"{neighbour}-eth0", both[1 - end], frame)
                commands.setdefault(neighbour, []).extend(lines)
    return {node: lines for node, lines in commands.items() if lines}


def _of_host(interface: str, direction: LinkDirection, frame: int) -> list[str]:
    """Commands for the queue of a host's interface towards the switch."""
    if direction.bandwidth_bps is None:
        netem = _netem(direction, DEEP_PACKETS)
        return [f"qdisc add dev {interface} root {netem}"] if netem else []
    burst = BURST_FRAMES * frame
    rate = f"rate {direction.bandwidth_bps}bit burst {burst} cburst {burst} quantum {burst}"
    # HTB sends what netem releases. So netem holds the packets on the wire and those in the queue.
    on_the_wire = -(-direction.delay_ns * packets_per_s(direction.bandwidth_bps, frame) // 10**9)
    queue = direction.queue_packets
    leaf = _netem(direction, queue + on_the_wire) or f"pfifo limit {queue}"
    return [
        f"qdisc add dev {interface} root handle 1: htb default 1",
        f"class add dev {interface} parent 1: classid 1:1 htb {rate}",
        f"qdisc add dev {interface} parent 1:1 handle 10: {leaf}",
    ]


def _netem(direction: LinkDirection, limit_packets: int) -> str:
    """netem for a direction's delay and loss, "" where it has neither."""
    if not direction.delay_ns and not direction.loss:
        return ""
    delay = f" delay {direction.delay_ns / 1000:.3f}us" if direction.delay_ns else ""
    loss = f" loss {100 * direction.loss:.6f}%" if direction.loss else ""
    return f"netem{delay}{loss} limit {limit_packets}"
