"""A world of a topology's switches and the links between them, without hosts yet.

The ends of links are found in the topology. What a switch does is known by the addresses of its
traffic manager's functions alone.
"""

from __future__ import annotations

from p4engine.switch.library import Switch

from p4fabric.base.topology import Topology
from p4fabric.simulate.frames import FrameMemory
from p4fabric.simulate.machine import Batch
from p4fabric.simulate.placed_machine import Placed
from p4fabric.simulate.state import CALLED, World, new_world

ROWS_IN = 64  # of the batch of packets to a host,
ROWS_OUT = 1024  # and from it


def _trunks(topology: Topology) -> dict[tuple[str, int], tuple[str, int]]:
    """Links between switches: (switch, port) to (switch, port), in both directions."""
    found = {}
    for name in topology.switches:
        for port, (neighbour, ring_link, _) in topology.ports(name).items():
            if not topology.is_host(neighbour):
                there = topology.ports(neighbour).items()
                far = next(p for p, (o, i, _) in there if i == ring_link and o == name)
                found[name, port] = neighbour, far
    return found


def empty_world(
    topology: Topology,
    hosts: int,
    switches: dict[str, Switch],
    batches: tuple[Placed[Batch], Placed[Batch]],
    memory: FrameMemory,
) -> World:
    """A world without hosts, but with numbers for so many."""
    trunks = _trunks(topology)
    ports = 1 + max(port for name in switches for port in topology.ports(name))
    world = new_world(hosts, len(trunks), len(switches), ports, memory)
    numbers = {name: number for number, name in enumerate(switches)}
    for trunk, ((name, port), (other, far)) in enumerate(trunks.items()):
        world.leads[numbers[name], port] = hosts + trunk
        world.trunks[trunk] = numbers[other], far
    for number, switch in enumerate(switches.values()):
        row, entry = world.switches[number], switch.entry_points()
        row.manager = switch.address
        for name in CALLED:
            row[name] = entry[name]
    arrived, out = batches
    world.places[:] = arrived.address, out.address, world.deadline.ctypes.data
    return world._replace(arrived=arrived.part, out=out.part)
