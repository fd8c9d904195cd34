"""What a link does to packets where the switch is BMv2, which has an egress queue per port and
nothing else.

Bandwidth and queue of what leaves a switch are BMv2's own queue, so that a P4 program sees its real
length. Its rate counts packets, not bits: a link's bandwidth becomes as many packets/s of full
length, rounded down, and a short packet takes as long as a full one. What a host sends is limited
in the host's namespace by HTB with a queue of as many packets, so that the link holds whatever the
host does. Delay and loss of either direction are netem's, as Mininet's TCLink has them, on the
interface that sends. Nothing shapes what a switch receives from another one: it has been shaped
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from testbed.experiment.bmv2_limits import packets_per_s
from testbed.protocols.sizes import frame_bytes

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.experiment.experiment import LinkDirection
    from testbed.topology import Topology

# Where the link has no queue: what waits there waits for a processor, and nothing is dropped.
DEEP_PACKETS = 1_000_000
ETHERNET_BYTES = 14
LEAST_MTU_BYTES = 576
BURST_FRAMES = 2  # HTB needs room for a whole packet


def full_frame(experiment: Experiment) -> int:
    """Bytes of a packet with all its values, from the Ethernet header to the end of the payload."""
    return frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)


def mtu_bytes(experiment: Experiment) -> int:
    """MTU of all interfaces: a full packet, and what the kernel wants at least.

    simple_switch's packet sockets have a ring of 2 MB with room for a packet of the MTU in each of
    its places; with the network's usual MTU that is some hundred packets."""
    return max(full_frame(experiment) - ETHERNET_BYTES, LEAST_MTU_BYTES)


def impaired(experiment: Experiment) -> bool:
    """Whether some link has delay or loss."""
    return any(way.delay_ns or way.loss for way in _ways(experiment))


def disciplines(experiment: Experiment) -> set[str]:
    """What of `kernel_probe.FEATURES` the experiment's links need."""
    needed = {"netem"} if impaired(experiment) else set()
    return needed | ({"HTB"} if any(way.bandwidth_bps for way in _ways(experiment)) else set())


def _ways(experiment: Experiment) -> Iterator[LinkDirection]:
    for link in range(len(experiment.topology_object().links)):
        yield from experiment.link(link)


def shape_queues(experiment: Experiment, switch: str, client: Any) -> None:
    """Give the egress queues of one switch their rates and depths, in one batch.

    `client` is the switch's control client (control.Client)."""
    frame = full_frame(experiment)
    calls: list[tuple] = []
    for port, (_, link, end) in experiment.topology_object().ports(switch).items():
        leaving = experiment.link(link)[end]
        bandwidth_bps = leaving.bandwidth_bps
        limited = bandwidth_bps is not None
        rate = packets_per_s(bandwidth_bps, frame) if bandwidth_bps is not None else 0
        calls.append(("queue_rate", rate, port))
        calls.append(("queue_depth", leaving.queue_packets if limited else DEEP_PACKETS, port))
    client.batch(calls)


def qdiscs(experiment: Experiment, topology: Topology) -> dict[str, list[str]]:
    """Commands for `tc -batch` by node, in that node's namespace. Interface n of a node is
    `<node>-eth<n>`, and of a host `<host>-eth0`."""
    frame = full_frame(experiment)
    commands: dict[str, list[str]] = {}
    for switch in topology.switches:
        for port, (neighbour, link, end) in topology.ports(switch).items():
            both = experiment.link(link)
            if netem := _netem(both[end], DEEP_PACKETS):
                line = f"qdisc add dev {switch}-eth{port} root {netem}"
                commands.setdefault(switch, []).append(line)
            if neighbour in topology.hosts:
                lines = _of_host(f"{neighbour}-eth0", both[1 - end], frame)
                commands.setdefault(neighbour, []).extend(lines)
    return {node: lines for node, lines in commands.items() if lines}


def _of_host(interface: str, way: LinkDirection, frame: int) -> list[str]:
    """What the interface of a host does to packets on their way to the switch."""
    if way.bandwidth_bps is None:
        netem = _netem(way, DEEP_PACKETS)
        return [f"qdisc add dev {interface} root {netem}"] if netem else []
    burst = BURST_FRAMES * frame
    rate = f"rate {way.bandwidth_bps}bit burst {burst} cburst {burst} quantum {burst}"
    # HTB sends what netem has done with: in there are those on the wire and those that queue.
    on_the_wire = -(-way.delay_ns * packets_per_s(way.bandwidth_bps, frame) // 10**9)
    leaf = _netem(way, way.queue_packets + on_the_wire) or f"pfifo limit {way.queue_packets}"
    return [
        f"qdisc add dev {interface} root handle 1: htb default 1",
        f"class add dev {interface} parent 1: classid 1:1 htb {rate}",
        f"qdisc add dev {interface} parent 1:1 handle 10: {leaf}",
    ]


def _netem(way: LinkDirection, limit_packets: int) -> str:
    """netem for a direction's delay and loss, "" where it has neither."""
    if not way.delay_ns and not way.loss:
        return ""
    delay = f" delay {way.delay_ns / 1000:.3f}us" if way.delay_ns else ""
    loss = f" loss {100 * way.loss:.6f}%" if way.loss else ""
    return f"netem{delay}{loss} limit {limit_packets}"
