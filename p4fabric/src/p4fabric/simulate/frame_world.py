"""A world of hosts whose packets are whole frames, around switches with any programs.

The events are those of loop.py. A host has a machine that is given every frame, and makes every
frame; it handles it at once. Links are modelled by the switches' traffic managers, which the caller
has shaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from p4engine.switch.library import Switch

from p4fabric.base.topology import Topology
from p4fabric.simulate import event_queue, loop
from p4fabric.simulate.event_queue import NEVER
from p4fabric.simulate.frames import FrameMemory
from p4fabric.simulate.machine import new_batch
from p4fabric.simulate.placed_machine import Placed, Stepper, raised
from p4fabric.simulate.state import World
from p4fabric.simulate.wiring import ROWS_IN, ROWS_OUT, empty_world

EVENTS_AT_ONCE = 200_000  # a fraction of a second


class Step(Protocol):
    """A function of type placed_machine.STEP, at `address`."""

    address: int | None


class FrameNodes:
    """Hosts and switches at time 0.

    Attributes: `switches`, by name; `world`; `batches`, of frames to a host and from it, which all
    hosts share."""

    def __init__(self, topology: Topology, switches: dict[str, Switch], frame_bytes: int) -> None:
        """`topology`: its ports lead from switch to switch. `frame_bytes`: of the longest frame; a
        longer one counts as oversized and is lost."""
        self.topology = topology
        self.switches = switches
        self._memory = FrameMemory(frame_bytes)
        words = -(-self._memory.frame_bytes // 4)
        self.batches = Placed(new_batch(ROWS_IN, words)), Placed(new_batch(ROWS_OUT, words))
        hosts = len(topology.hosts)
        world = empty_world(topology, hosts, switches, self.batches, self._memory)
        world.state[0].open = world.state[0].goes_on = 1  # it ends with its last event
        self.placed = Placed(world)
        self._kept: list[Any] = []

    @property
    def frame_bytes(self) -> int:
        """Of the longest frame."""
        return self._memory.frame_bytes

    @property
    def world(self) -> World:
        return self.placed.part

    def add_machine(self, host: str, machine: Any) -> None:
        """Let a machine of a type in machine.STEPS be this host."""
        arrived, out = (batch.part for batch in self.batches)
        place = Placed(machine)
        self._add(host, place, Stepper(machine, arrived, out), machine.status)

    def add_step(self, host: str, step: Step, status: np.ndarray) -> None:
        """Let a function be this host. It is given an address of no machine."""
        self._add(host, Placed((status,)), step, status)

    def _add(self, host: str, place: Placed, step: Step, status: np.ndarray) -> None:
        self._kept += [place, step, status]
        number = self.topology.number(host) - 1
        switch = self.topology.switch_of(host)
        row = self.world.hosts[number]
        row.switch = list(self.switches).index(switch)
        row.port = self.topology.port_to(switch, host)
        row.step, row.machine = step.address, place.address
        row.status = status.ctypes.data
        row.raw = 1
        self.world.leads[row.switch, row.port] = number
        event_queue.put(self.world.queue, number, 0)

    # -- events

    @property
    def now_ns(self) -> int:
        """Time of the last event."""
        return int(self.world.state[0].now)

    @property
    def events(self) -> int:
        """Handled so far."""
        return int(self.world.state[0].events)

    @property
    def oversized(self) -> int:
        """Frames that were longer than `frame_bytes`."""
        return int(self.world.state[0].oversized)

    @property
    def next_ns(self) -> int:
        """Time of the next event, NEVER if there is none."""
        queues = self.world.queue, self.world.fabric
        return min(int(each.time[each.winner[1]]) for each in queues)

    def wake(self, host: str, time_ns: int) -> None:
        """Let a host have an event at `time_ns`."""
        number = self.topology.number(host) - 1
        if time_ns < self.world.queue.time[number]:
            event_queue.put(self.world.queue, number, time_ns)

    def changed(self, switch: str) -> None:
        """A switch's traffic manager may have another next event: its links were changed."""
        number = list(self.switches).index(switch)
        due = self.switches[switch].next_event_ns()
        trunks = len(self.world.trunks)
        event_queue.put(self.world.fabric, trunks + number, NEVER if due is None else due)

    def run(self, until_ns: int) -> bool:
        """Handle events up to and including `until_ns`, some hundred thousand at most; True if all
        of them are done. Raises what a step has raised."""
        while True:
            reason = loop.run(self.placed, until_ns, EVENTS_AT_ONCE)
            if reason == loop.NO_ROOM:
                world = self.world
                frames = self._memory.larger(world.frames, int(world.state[0].free))
                world.state[0].free += world.frames.free.size
                self.placed = Placed(world._replace(frames=frames))
                continue
            if reason == loop.RAISED:
                raise raised.pop()
            if reason == loop.STUCK:
                failed = int(self.world.state[0].failed_host)
                raise loop.stuck(self.placed, self.topology.hosts[failed])
            return reason != loop.EVENTS_HANDLED


def counts(nodes: FrameNodes) -> Mapping[str, np.record]:
    """The row of World.hosts of each host: packets_sent, packets_received, and bytes."""
    return {name: nodes.world.hosts[number] for number, name in enumerate(nodes.topology.hosts)}
