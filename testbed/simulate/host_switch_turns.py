"""Turns of hosts and switches (loop.py) in the world of a Setup: the condition for them, and their
length.

Within the time that a packet is on its way from a host to its switch, and from there until a host
handles it, hosts cannot affect each other. The longer a turn, the longer a host's state stays in
the caches, but the more packets wait in memory for the switches' turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from p4fabric.simulate.state import SHORTEST_NS, set_turns

from testbed.experiment import LinkDirection
from testbed.setup import Platform
from testbed.simulate.world import Nodes

SLICE_FRAMES = 16  # of a host's link, in a turn
MOST_NS = 1 << 40  # of a turn where links have no rate


def ways_out(platform: Platform, switch: str) -> Iterator[tuple[str, int, int, int]]:
    """(neighbour, link, the switch's end of it, ns) of each port. 0 ns where a link of the switch
    reorders: then frames come out of the switch when they arrive, not ahead of it."""
    ports = platform.topology.ports(switch).values()
    early = not any(platform.link(link)[end].reorder for _, link, end in ports)
    for neighbour, link, end in ports:
        leaving = platform.link(link)[end]
        yield neighbour, link, end, _way_ns(platform, leaving) if early else 0


def _way_ns(platform: Platform, leaving: LinkDirection) -> int:
    """Least time from the end of a packet's transmission until it is at the end of a link."""
    assert platform.virtual is not None
    return leaving.delay_ns - leaving.jitter_ns + platform.virtual.switch_latency_ns


def take_turns(nodes: Nodes, window_ns: int) -> None:
    """Let hosts and switches take turns (loop.py) if every link of a host has a delay. Flows of
    background traffic share the links of hosts, so they need the order of all events. `window_ns`:
    what every window between parts must find done, 0: there are none."""
    platform, world = nodes.setup.platform, nodes.world
    if nodes.setup.flows:
        return
    topology = platform.topology
    to_switch_ns, to_host_ns, slice_ns = [], [], [MOST_NS]
    out_ns, way_ns = [MOST_NS], [MOST_NS]  # between switches
    frame_bits = platform.longest_frame_bits
    for switch in topology.switches:
        for neighbour, link, end, ahead_ns in ways_out(platform, switch):
            if not topology.is_host(neighbour):
                out_ns.append(ahead_ns)
                way_ns.append(_way_ns(platform, platform.link(link)[end]))
                continue
            entering = platform.link(link)[1 - end]
            to_switch_ns.append(entering.delay_ns - entering.jitter_ns)
            to_host_ns.append(ahead_ns)
            if entering.bandwidth_bps:
                frames_ns = SLICE_FRAMES * frame_bits * 10**9 // entering.bandwidth_bps
                slice_ns.append(max(frames_ns, SHORTEST_NS))
    handling_ns = min(int(world.hosts[number].delay_ns) for number, _ in nodes.present)
    # What a switch sends early is on its way to the next one, and anything else is already there.
    back_ns = min(out_ns) + min(way_ns)
    host_ns = min(to_host_ns) + handling_ns
    set_turns(world, min(to_switch_ns), host_ns, min(slice_ns), back_ns, window_ns)
