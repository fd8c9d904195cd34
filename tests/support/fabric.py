"""A small world: an experiment's hosts and switches in one process, driven in any chosen order.

The machines are the hosts' real ones, the switches run the compiled P4 program; only the wires and
the time are the test's. A `World` says what a node sends when frames come to it at a time. A test
may step one host by hand (one_host.py), walk through all orders of events (explorer), or let a
`Fabric` have a clock: there a frame on a wire may be lost, doubled or held up, as a schedule
decides, so that a test can drive the protocol through any history and still check every value.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import random
import socket
import struct
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from p4fabric.base.topology import Topology, host_mac, switch_mac
from p4fabric.simulate import machine
from p4fabric.simulate.placed_machine import Placed, Stepper, raised

from testbed.protocols import sizes, wire
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.status import as_dict
from testbed.schemes import new_machine
from testbed.setup import Setup
from testbed.setup.host_specs import host_specs
from tests.support.experiments import setup_of
from tests.support.switches import start_switches

ROWS = 256
US = 1000
MS = 1000 * US
MINUTE_NS = 60_000 * MS
NEVER = (1 << 62) - 1

# A schedule sees (time, node, frame) of each frame put on a wire and answers with the delays in ns
# after which copies of it arrive: (0,) at once, () lost, (0, 5000) doubled.
Schedule = Callable[[int, str, bytes], tuple[int, ...]]
# A forger sees the same and answers with frames of its own that arrive, too: (delay in ns, frame);
# a delay of -1 is just before the frame that it has seen. They come over the same wire, or, as
# (delay, frame, host), from a host of the topology, which need not have a part in any job.
Forger = Callable[[int, str, bytes], Iterable[tuple[Any, ...]]]


def perfect(now: int, node: str, frame: bytes) -> tuple[int, ...]:
    return (0,)


def lossy(seed: int, loss: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0) -> Schedule:
    """Independent faults on every wire and both directions."""
    draw = random.Random(seed)

    def schedule(now: int, node: str, frame: bytes) -> tuple[int, ...]:
        if draw.random() < loss:
            return ()
        delays = [draw.randrange(20, 400) * US if draw.random() < reorder else 0]
        if draw.random() < duplicate:
            delays.append(draw.randrange(1, 300) * US)
        return tuple(delays)

    return schedule


STEP = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5, ctypes.POINTER(ctypes.c_int64))


class Host:
    """One machine with its batches, as a host process has them; `room`: packets to send in one."""

    def __init__(self, spec: HostSpec, room: int = 4 * ROWS) -> None:
        self.spec = spec
        self.is_worker = spec.is_worker
        words = sizes.packet_words(spec.job.values, spec.job.bitmap_width)
        self.arrived, self.out = machine.new_batch(ROWS, words), machine.new_batch(room, words)
        self.count = 0
        self.deadline = ctypes.c_int64()
        self.at = ctypes.byref(self.deadline)
        # A numpy index costs several times as much as one of a memory view, and these are used for
        # every packet.
        self.row = self.arrived.packets.strides[0]  # bytes; that of `out` is as long
        self.room = memoryview(self.arrived.packets.view(np.uint8).reshape(-1))
        self.lengths = memoryview(self.arrived.lengths)
        self.filled = memoryview(self.out.packets.view(np.uint8).reshape(-1))
        self.filled_lengths = memoryview(self.out.lengths)
        self.destinations = memoryview(self.out.destinations)
        self.use(new_machine(spec))

    def use(self, made: Any) -> None:
        """Let this be the machine."""
        self.machine = made
        self.counts = made.counters
        # By address, as hosts and virtual time do it, so that one compiled step serves all three.
        self.stepper = Stepper(made, self.arrived, self.out)
        self.placed = [Placed(part) for part in (made, self.arrived, self.out)]
        addresses = [part.address for part in self.placed]
        self.step = partial(STEP(self.stepper.address), *addresses)
        self.has_finished = memoryview(made.status["finished"])
        self.has_failed = memoryview(made.status["failed"])

    def take(self, frame: bytes) -> None:
        begin, length = self.count * self.row, len(frame) - sizes.FRAME_OVERHEAD
        self.room[begin : begin + length] = frame[sizes.FRAME_OVERHEAD :]
        self.lengths[self.count] = length
        self.count += 1

    def run(self, now: int) -> tuple[list[tuple[str, bytes]], int]:
        """(frames to send as (peer, payload), next deadline)."""
        filled = self.step(now, self.count, self.at)
        if filled < 0:
            raise raised.pop()
        self.count = 0
        out = []
        begin = 0
        for i in range(filled):
            peer = self.spec.peers[self.destinations[i]]
            out.append((peer, bytes(self.filled[begin : begin + self.filled_lengths[i]])))
            begin += self.row
        return out, self.deadline.value

    def finished(self) -> bool:
        return self.has_finished[0] == 1

    def failed(self) -> bool:
        return self.has_failed[0] != 0

    def wrong(self) -> str:
        """A wrong value, or that a worker has finished without comparing all; "" if neither."""
        name, job = self.spec.host, self.spec.job
        if self.failed():
            status = self.machine.status[0]
            return (
                f"{name}: wrong value in fragment {status.fragment} at position "
                f"{status.position}: {status.found} instead of {status.expected}"
            )
        if not self.is_worker or not self.finished():
            return ""
        values = sum(tensor.values for tensor in job.tensors) * job.iterations
        checked = int(self.counts["values_checked"][0])
        return "" if checked == values else f"{name}: {checked} of {values} values checked"

    def counters(self) -> dict[str, int]:
        return as_dict(self.counts)


class Sent(NamedTuple):
    """A frame on its way to port `port` of node `to`."""

    sender: str
    to: str
    port: int
    frame: bytes


def udp_frame(source: str, destination: str, payload: bytes, macs: bytes = bytes(12)) -> bytes:
    """A frame as a host's kernel makes it, with a UDP checksum of 0. macs: destination and source;
    their default means nothing."""
    return macs + _headers(source, destination, len(payload)) + payload


def macs_of(topology: Topology, host: str) -> bytes:
    """MAC addresses of what a host sends."""
    gateway = topology.number(topology.switch_of(host))
    macs = switch_mac(gateway), host_mac(topology.number(host))
    return b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)


@cache
def _headers(source: str, destination: str, length: int) -> bytes:
    udp = struct.pack("!HHHH", wire.PORT, wire.PORT, 8 + length, 0)
    ip = bytearray(
        struct.pack("!BBHHHBBH", 0x45, 2, 28 + length, 0, 0x4000, 64, 17, 0)
        + socket.inet_aton(source)
        + socket.inet_aton(destination)
    )
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", ip, 10, ~(total + (total >> 16)) & 0xFFFF)
    return b"\x08\x00" + bytes(ip) + udp


def leads(topology: Topology, node: str) -> dict[int, tuple[str, int]]:
    """Neighbours by a node's port, each with its port towards the node."""
    return {
        port: (neighbour, topology.port_to(neighbour, node))
        for port, (neighbour, _, _) in topology.ports(node).items()
    }


class World:
    """All nodes of an experiment. `switches` maps each switch's name to a started
    p4engine.switch.library.Switch whose tables are installed. `by_hand`: not all packets of hosts
    are theirs."""

    def __init__(self, setup: Setup, switches: dict, by_hand: bool = False) -> None:
        self.setup, self.switches = setup, switches
        self.topology = setup.platform.topology
        self.hosts = {spec.host: Host(spec) for spec in host_specs(setup)}
        for switch in switches.values():
            switch.network.by_hand = by_hand
        self._macs = {name: macs_of(self.topology, name) for name in self.hosts}
        self._leads = {node: leads(self.topology, node) for node in (*self.hosts, *switches)}

    def workers(self) -> list[Host]:
        return [host for host in self.hosts.values() if host.is_worker]

    def servers(self) -> list[Host]:
        return [host for host in self.hosts.values() if not host.is_worker]

    def at_host(self, name: str, now: int, *frames: bytes) -> tuple[list[Sent], int]:
        """What a host sends when these frames have come, and its next deadline."""
        host, way, macs = self.hosts[name], self._leads[name][1], self._macs[name]
        for frame in frames:
            host.take(frame)
        out, deadline = host.run(now)
        address = host.spec.address
        return [Sent(name, *way, udp_frame(address, *each, macs)) for each in out], deadline

    def at_switch(self, name: str, now: int, arrivals: Iterable[tuple[int, bytes]]) -> list[Sent]:
        """What a switch sends when frames have come to these ports."""
        switch, ways = self.switches[name], self._leads[name]
        for port, frame in arrivals:
            switch.receive(port, frame, now)
        return [Sent(name, *ways[port], frame) for _, port, frame in switch.advance(now)]


class Fabric(World):
    """A world with a clock: what is sent arrives `delay_ns` later, unless the schedule says
    otherwise."""

    def __init__(
        self,
        setup: Setup,
        switches: dict,
        schedule: Schedule = perfect,
        delay_ns: int = 5 * US,
        forger: Forger | None = None,
    ) -> None:
        super().__init__(setup, switches, by_hand=forger is not None)
        self.schedule, self.delay_ns, self.forger = schedule, delay_ns, forger
        self.now = 0
        self.frames = 0
        self._events: list[tuple[int, int, str, Any]] = []
        self._serial = itertools.count()
        self._wake: dict[str, int] = {}
        for name in self.hosts:
            self._call(0, name)

    def run(self, until_ns: int = 60_000 * MS) -> None:
        """Run until every worker has finished; AssertionError on a wrong value or at the end of
        the time, with who is not finished."""
        waiting = {host.spec.host for host in self.workers() if not host.finished()}
        while self._events and waiting and self._events[0][0] <= until_ns:
            name = self.step()
            if name in waiting and self.hosts[name].finished():
                waiting.remove(name)
        assert not waiting, f"at {self.now / MS:.1f} ms still not finished: {waiting}"

    def step(self) -> str:
        """The next event, and with it those that follow at the same moment at the same switch;
        returns where."""
        events = self._events
        now, _, name, arrival = heapq.heappop(events)
        self.now = now
        if name not in self.switches:
            self._at_host(name, arrival)
            return name
        arrivals = [arrival]
        while events and events[0][2] == name and events[0][0] == now:
            arrivals.append(heapq.heappop(events)[3])
        for sent in self.at_switch(name, now, arrivals):
            self._put(sent)
        return name

    def _call(self, when: int, name: str, frame: object = None) -> None:
        heapq.heappush(self._events, (when, next(self._serial), name, frame))

    def _put(self, sent: Sent) -> None:
        """A frame is on a wire."""
        self.frames += 1
        node, neighbour, port, frame = sent
        arrives = self.now + self.delay_ns
        for extra in self._delays(node, neighbour, frame):
            self._call(arrives + extra, neighbour, (port, frame))
        if self.forger is None:
            return
        for extra, forged, *host in self.forger(self.now, node, frame):
            there = self._gateway(*host) if host else (neighbour, port)
            self._call(arrives + extra, there[0], (there[1], forged))

    def _delays(self, node: str, neighbour: str, frame: bytes) -> tuple[int, ...]:
        """After how much longer than usual copies of a frame arrive."""
        return self.schedule(self.now, node, frame)

    def _gateway(self, host: str) -> tuple[str, int]:
        gateway = self.topology.switch_of(host)
        return gateway, self.topology.port_to(gateway, host)

    def _at_host(self, name: str, arrival: tuple[int, bytes] | None) -> None:
        host, now = self.hosts[name], self.now
        if arrival is None:
            if now < self._wake.get(name, 0):
                return  # an earlier alarm that has been set anew since
            self._wake.pop(name, None)  # it may be set for the same moment again
        out, deadline = self.at_host(name, now, *(arrival[1:] if arrival else ()))
        assert not host.failed(), host.wrong()
        for sent in out:
            self._put(sent)
        if deadline < NEVER:
            when = max(deadline, now)
            if self._wake.get(name) != when:
                self._wake[name] = when
                self._call(when, name)


def run_exact(text: str, schedule: Schedule, until_ns: int = MINUTE_NS, **parts) -> Fabric:
    """Run the experiment `text` % `parts` to its end: AssertionError unless every worker has
    received and checked every value."""
    setup = setup_of(text % parts)
    fabric = Fabric(setup, start_switches(setup), schedule)
    fabric.run(until_ns)
    check_values(fabric)
    return fabric


def check_values(fabric: Fabric) -> None:
    """AssertionError unless every worker has checked every value of every iteration."""
    for worker in fabric.workers():
        assert worker.finished() and not worker.wrong(), worker.wrong() or worker.spec.host


def total(hosts: Iterable[Host], name: str) -> int:
    """A counter's sum over hosts."""
    return sum(host.counters()[name] for host in hosts)
