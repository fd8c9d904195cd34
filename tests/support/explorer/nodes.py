"""Hosts and switches whose whole state can be saved, restored and compared.

What a node does depends on its state and on what arrives, so each reaction is computed once, by the
real machine or P4 program, and looked up from then on. States and packets are numbers in tables.

Left out of a state is what only reports: counters and times. The clock stands still while packets
arrive, so all times that are stored in states of one time are equal.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.fabric import Host, Sent, World

# Registers that report and decide nothing: numbers of events and sums of times, and, as nothing
# ages in these networks, the times of aggregators.
REPORTS = {
    *("events", "endings", "filling_time", "releases", "held_time"),
    *("slot_since", "slot_touched", "first_since", "second_since"),
}
CHECKED = "values_checked"  # the counter that shows whether a worker has compared every value
# A host that waits for no longer than this waits for its link: no timer is as short.
PACING_NS = 10_000
LINE = 64  # bytes; arrays begin at multiples of it
WORDS = ctypes.POINTER(ctypes.c_uint64)


@dataclass(frozen=True)
class Reaction:
    """Reaction of a node: its next state, and the numbers of the packets that it sends."""

    state: int
    sent: tuple[int, ...]


class Packets:
    """Numbers for packets: equal ones have one number."""

    def __init__(self) -> None:
        self.all: list[Sent] = []
        self._numbers: dict[Sent, int] = {}

    def number(self, packet: Sent) -> int:
        if packet not in self._numbers:
            self._numbers[packet] = len(self.all)
            self.all.append(packet)
        return self._numbers[packet]


class Node:
    """A node of a world that remembers its states and reactions."""

    def __init__(self, world: World, name: str, packets: Packets) -> None:
        self.world, self.name, self.packets = world, name, packets
        self.states: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._reactions: dict[tuple[int, int, int], Reaction] = {}

    @property
    def reactions(self) -> int:
        return len(self._reactions)

    def react(self, state: int, packet: int, now: int) -> Reaction:
        """Reaction to a packet, or, with -1, to the time."""
        key = state, packet, now
        found = self._reactions.get(key)
        if found is None:
            self._restore(self.states[state])
            found = self._reactions[key] = self._run(packet, now)
        return found

    def _reaction(self, state: bytes, sent: Iterable[Sent]) -> Reaction:
        if state not in self._numbers:
            self._numbers[state] = len(self.states)
            self.states.append(state)
            self._note()
        return Reaction(self._numbers[state], tuple(map(self.packets.number, sent)))

    def begin(self) -> Reaction:
        """The first state and what is sent at once."""
        return self._run(-1, 0)

    def _run(self, packet: int, now: int) -> Reaction:
        raise NotImplementedError

    def _restore(self, state: bytes) -> None:
        raise NotImplementedError

    def _note(self) -> None:
        """There is a new state."""


class HostNode(Node):
    """A host. Its arrays are moved into one piece of memory, which is its state, with its
    deadline."""

    def __init__(self, world: World, name: str, packets: Packets) -> None:
        super().__init__(world, name, packets)
        self.host = world.hosts[name]
        self.memory = _together(self.host)
        self.deadline = 0
        self.deadlines: list[int] = []
        self.finished: list[bool] = []
        self.wrong: list[str] = []

    def _restore(self, state: bytes) -> None:
        self.memory[:] = np.frombuffer(state, np.uint8, self.memory.size)

    def _run(self, packet: int, now: int) -> Reaction:
        frames = [self.packets.all[packet].frame] if packet >= 0 else []
        out, self.deadline = self.world.at_host(self.name, now, *frames)
        while self.deadline < now + PACING_NS and not self.host.failed():
            more, self.deadline = self.world.at_host(self.name, max(now, self.deadline))
            out += more
        self._forget_reports()
        return self._reaction(self.memory.tobytes() + self.deadline.to_bytes(8, "big"), out)

    def _note(self) -> None:
        self.deadlines.append(self.deadline)
        self.finished.append(self.host.is_worker and self.host.finished())
        self.wrong.append(self.host.wrong())

    def _forget_reports(self) -> None:
        machine = self.host.machine
        checked = int(machine.counters[CHECKED][0]) if self.host.is_worker else 0
        machine.counters.view(np.int64)[:] = 0
        if self.host.is_worker:
            machine.counters[CHECKED] = checked
        lag = getattr(getattr(machine, "protocol", None), "lag", None)
        if lag is not None:
            lag[:] = 0


class SwitchNode(Node):
    """A switch. Its registers, without those that report, are its state. Its clock stands still."""

    def __init__(self, world: World, name: str, packets: Packets) -> None:
        super().__init__(world, name, packets)
        self.pipeline = world.switches[name].pipeline
        self.registers = [
            r for r in self.pipeline.info.registers if r.name.rpartition(".")[2] not in REPORTS
        ]
        self.words = (ctypes.c_uint64 * sum(r.size for r in self.registers))()

    def react(self, state: int, packet: int, now: int) -> Reaction:
        return super().react(state, packet, 0)

    def _run(self, packet: int, now: int) -> Reaction:
        arrivals = [self.packets.all[packet][2:]] if packet >= 0 else []
        sent = self.world.at_switch(self.name, now, arrivals)
        self._each(self.pipeline.lib.p4_register_read)
        return self._reaction(bytes(self.words), sent)

    def _restore(self, state: bytes) -> None:
        ctypes.memmove(self.words, state, len(state))
        self._each(self.pipeline.lib.p4_register_write)

    def _each(self, call: Any) -> None:
        """Call a function of the library with each register and its place in the state."""
        address = ctypes.addressof(self.words)
        for register in self.registers:
            words = ctypes.cast(address, WORDS)
            status = call(self.pipeline.handle, register.id, 0, register.size, words)
            assert status == 0, register.name
            address += 8 * register.size


def _roots(part: Any, found: dict[int, np.ndarray]) -> None:
    """The arrays that own the memory of all arrays of a machine, by address."""
    if isinstance(part, tuple):
        for each in part:
            _roots(each, found)
        return
    root = part = np.asarray(part)
    while isinstance(root.base, np.ndarray | np.record):
        root = root.base
    if root.size and part.flags.writeable:
        found[root.ctypes.data] = root


def _together(host: Host) -> np.ndarray:
    """Move what the host's machine can change into one array, which is returned: uint8[bytes]."""
    roots: dict[int, np.ndarray] = {}
    _roots(host.machine, roots)
    places, at = {}, 0
    for address, root in roots.items():
        places[address] = at
        at += -(-root.nbytes // LINE) * LINE
    memory = np.zeros(at + LINE, np.uint8)
    memory = memory[-memory.ctypes.data % LINE :][:at]
    for address, root in roots.items():
        place = places[address]
        memory[place : place + root.nbytes] = np.frombuffer(root.tobytes(), np.uint8)

    def moved(part: Any) -> Any:
        if isinstance(part, tuple):
            return type(part)(*map(moved, part))
        root = array = np.asarray(part)
        while isinstance(root.base, np.ndarray | np.record):
            root = root.base
        if root.ctypes.data not in places or not array.flags.writeable:
            return part
        offset = places[root.ctypes.data] + array.ctypes.data - root.ctypes.data
        there = np.ndarray(array.shape, array.dtype, memory.data, offset, array.strides)
        return there[()] if isinstance(part, np.record) else there

    host.use(moved(host.machine))
    return memory
