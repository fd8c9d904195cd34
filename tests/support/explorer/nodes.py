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
from p4engine.switch.library import Switch

from tests.support.fabric import Host, udp_frame

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
class Packet:
    """A frame on its way to port `port` of node `to`."""

    sender: str
    to: str
    port: int
    frame: bytes


@dataclass(frozen=True)
class Reaction:
    """Reaction of a node: its next state, and the numbers of the packets that it sends."""

    state: int
    sent: tuple[int, ...]


class Packets:
    """Numbers for packets: equal ones have one number."""

    def __init__(self) -> None:
        self.all: list[Packet] = []
        self._numbers: dict[Packet, int] = {}

    def number(self, packet: Packet) -> int:
        if packet not in self._numbers:
            self._numbers[packet] = len(self.all)
            self.all.append(packet)
        return self._numbers[packet]


class HostNode:
    """A host. Its arrays are moved into one piece of memory, which is its state."""

    def __init__(self, host: Host, gateway: str, port: int, macs: bytes, packets: Packets) -> None:
        self.host, self.name, self.packets = host, host.spec.host, packets
        self.macs = macs
        self.gateway, self.port = gateway, port
        self.memory = _together(host)
        self.states: list[bytes] = []
        self.deadlines: list[int] = []
        self.finished: list[bool] = []
        self.wrong: list[str] = []
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._reactions: dict[tuple[int, int, int], Reaction] = {}
        self.reactions = 0

    def begin(self, now: int) -> Reaction:
        return self._run(now)

    def react(self, state: int, packet: int, now: int) -> Reaction:
        """Reaction to a packet, or, with -1, to the time."""
        key = state, packet, now
        found = self._reactions.get(key)
        if found is None:
            self.memory[:] = np.frombuffer(self.states[state], np.uint8)
            if packet >= 0:
                self.host.take(self.packets.all[packet].frame)
            found = self._reactions[key] = self._run(now)
        return found

    def _run(self, now: int) -> Reaction:
        self.reactions += 1
        out, deadline = self.host.run(now)
        while deadline < now + PACING_NS and not self.host.failed():
            more, deadline = self.host.run(max(now, deadline))
            out += more
        self._forget_reports()
        number = self._number(self.memory.tobytes(), deadline)
        address = self.host.spec.address
        sent = [
            Packet(self.name, self.gateway, self.port, udp_frame(address, peer, payload, self.macs))
            for peer, payload in out
        ]
        return Reaction(number, tuple(map(self.packets.number, sent)))

    def _forget_reports(self) -> None:
        machine = self.host.machine
        checked = int(machine.counters[CHECKED][0]) if self.host.is_worker else 0
        machine.counters.view(np.int64)[:] = 0
        if self.host.is_worker:
            machine.counters[CHECKED] = checked
        lag = getattr(getattr(machine, "protocol", None), "lag", None)
        if lag is not None:
            lag[:] = 0

    def _number(self, memory: bytes, deadline: int) -> int:
        key = memory, deadline
        if key not in self._numbers:
            self._numbers[key] = len(self.states)
            self.states.append(memory)
            self.deadlines.append(deadline)
            self.finished.append(self.host.is_worker and self.host.finished())
            self.wrong.append(self._what_is_wrong())
        return self._numbers[key]

    def _what_is_wrong(self) -> str:
        """A wrong value, or values that were not compared though the worker has finished."""
        status = self.host.machine.status[0]
        if status.failed:
            return (
                f"{self.name}: wrong value in fragment {status.fragment} at position"
                f" {status.position}: {status.found} instead of {status.expected}"
            )
        if not self.host.is_worker or not self.host.finished():
            return ""
        job = self.host.spec.job
        all_values = sum(tensor.values for tensor in job.tensors) * job.iterations
        checked = int(self.host.machine.counters[CHECKED][0])
        return "" if checked == all_values else f"{self.name}: {checked} values of {all_values}"


class SwitchNode:
    """A switch. Its registers, without those that report, are its state."""

    def __init__(self, name: str, switch: Switch, leads: dict, packets: Packets) -> None:
        self.name, self.switch, self.leads, self.packets = name, switch, leads, packets
        pipeline = switch.pipeline
        self.registers = [
            r for r in pipeline.info.registers if r.name.rpartition(".")[2] not in REPORTS
        ]
        self.words = (ctypes.c_uint64 * sum(r.size for r in self.registers))()
        self.states: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._reactions: dict[tuple[int, int], Reaction] = {}
        self.reactions = 0

    def begin(self) -> int:
        return self._number()

    def react(self, state: int, packet: int, now: int) -> Reaction:
        """Reaction to a packet. The switch's clock stands still."""
        key = state, packet
        found = self._reactions.get(key)
        if found is None:
            self.reactions += 1
            self._restore(self.states[state])
            arrived = self.packets.all[packet]
            self.switch.receive(arrived.port, arrived.frame, 0)
            sent = []
            for _, port, frame in self.switch.advance(0):
                neighbour, back = self.leads[port]
                made = Packet(self.name, neighbour, back, frame)
                sent.append(self.packets.number(made))
            found = self._reactions[key] = Reaction(self._number(), tuple(sent))
        return found

    def _places(self) -> Iterable[tuple[Any, Any, int]]:
        at = 0
        for register in self.registers:
            address = ctypes.addressof(self.words) + 8 * at
            yield register, ctypes.cast(address, WORDS), register.size
            at += register.size

    def _restore(self, state: bytes) -> None:
        ctypes.memmove(self.words, state, len(state))
        pipeline = self.switch.pipeline
        for register, words, count in self._places():
            status = pipeline.lib.p4_register_write(pipeline.handle, register.id, 0, count, words)
            assert status == 0, register.name

    def _number(self) -> int:
        pipeline = self.switch.pipeline
        for register, words, count in self._places():
            status = pipeline.lib.p4_register_read(pipeline.handle, register.id, 0, count, words)
            assert status == 0, register.name
        state = bytes(self.words)
        if state not in self._numbers:
            self._numbers[state] = len(self.states)
            self.states.append(state)
        return self._numbers[state]


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
