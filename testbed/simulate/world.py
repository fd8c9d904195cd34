"""A world made from a Setup: its hosts' machines, its switches, and what lies between them.

Everything that Mininet would provide is filled in here: addresses and headers as a host's kernel
makes them, which port leads where, the switches' tables and links. What a machine or a switch does
is not known here.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from p4engine.backend.build import Compiled
from p4engine.garbage import no_garbage
from p4engine.switch.library import Switch
from p4fabric.base.hops import switch_of
from p4fabric.base.topology import host_ip, host_mac, switch_mac
from p4fabric.simulate import event_queue, loop
from p4fabric.simulate.frames import FrameMemory
from p4fabric.simulate.generator import PORT as BACKGROUND_PORT
from p4fabric.simulate.machine import Machine, new_batch
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.native import INTERPRETED
from p4fabric.simulate.packing import packed
from p4fabric.simulate.placed_machine import Placed, Stepper
from p4fabric.simulate.records import replaced
from p4fabric.simulate.state import World
from p4fabric.simulate.wiring import ROWS_IN, ROWS_OUT, empty_world

from testbed import dataplane
from testbed.experiment.planned_faults import affected_nodes
from testbed.protocols import pool_worker, send_scoreboard, sizes, values, wire
from testbed.protocols.host_spec import HostSpec
from testbed.schemes import new_machine
from testbed.setup import Platform, Setup
from testbed.setup.host_specs import host_specs
from testbed.setup.job_setups import NewPart
from testbed.simulate import background
from testbed.workload import graph_source, worker
from testbed.workload.machine_group import grouped

BACKGROUND_STREAM = 0xB6F2
BACKGROUND = "background"  # a role
HOST_STREAM = 0x405F  # distinguishes hosts' random numbers from others of the same seed
TOGETHER = 256  # hosts that are made before their arrays move to where they stay
IP_TOS_ECT0 = 2  # able to be marked by ECN, as the sockets of host processes ask for


@dataclass
class Node:
    """One role on its host. `machine` is what steps; `placed` and `stepper` keep it where it is."""

    spec: HostSpec
    machine: Machine
    placed: Placed
    stepper: Stepper
    members: tuple[Machine, ...] = ()  # the machines of its further roles, as of spec.members
    kept: object = None  # what must live as long
    hot_bytes: int = 0  # from the machine's words on, what every step reads

    @property
    def roles(self) -> Iterator[tuple[HostSpec, Machine]]:
        """All roles with their machines, the host's own first."""
        yield self.spec, self.machine
        yield from zip(self.spec.members, self.members, strict=True)

    @property
    def failed_role(self) -> tuple[HostSpec, Machine]:
        """The role that has found a wrong value. The status of the first one stands for all
        (machine_group.py), so it counts last."""
        return next(role for role in [*self.roles][::-1] if role[1].status[0].failed)

    @classmethod
    def grouped(
        cls, spec: HostSpec, roles: Sequence[Placed], batches: tuple[Placed, Placed]
    ) -> Node:
        """A host with several roles, whose machines are stepped as one."""
        arrived, out = (batch.part for batch in batches)
        specs = (spec, *spec.members)
        first = np.cumsum([0, *(len(each.peers) for each in specs[:-1])]).tolist()
        jobs = [each.job.number for each in specs]
        group, kept = grouped(roles, jobs, first, arrived, out)
        made = Placed(group), Stepper(group, arrived, out)
        machines = [each.part for each in roles]
        return cls(spec, machines[0], *made, members=tuple(machines[1:]), kept=kept)

    @classmethod
    def of(
        cls, spec: HostSpec, placed: Placed, batches: tuple[Placed, Placed], hot_bytes: int = 0
    ) -> Node:
        """The machine in its place, to be stepped with these batches."""
        arrived, out = batches
        stepper = Stepper(placed.part, arrived.part, out.part)
        return cls(spec, placed.part, placed, stepper, hot_bytes=hot_bytes)

    @property
    def is_worker(self) -> bool:
        return self.spec.is_worker

    @property
    def title(self) -> str:
        """Name of the node in messages."""
        return self.spec.title


@dataclass
class Nodes:
    """All nodes, by number (state.py), and the worlds that the loop works on: one, or one for each
    part (parts.py). A host is None while its job has not begun, and after it has ended."""

    setup: Setup
    hosts: list[Node | None]
    switches: dict[str, Switch]
    worlds: list[Placed]
    batches: tuple[Placed, Placed]
    memory: FrameMemory
    draws: dict[str, int] = field(default_factory=dict)  # by host: how far its random stream is
    headers: int = 0  # rows of World.headers that have been given away
    headers_of: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row, and how many
    free_headers: dict[int, list[int]] = field(default_factory=dict)  # first rows, by how many
    background: dict[str, tuple[Placed, Stepper]] = field(default_factory=dict)  # ends, by host

    @property
    def world(self) -> World:
        """The only one, or any of them for what they have in common: all but events and frames."""
        return self.worlds[0].part

    @cached_property
    def _switch_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.switches)}

    @property
    def present(self) -> Iterator[tuple[int, Node]]:
        """The hosts that are there, with their numbers."""
        return ((number, node) for number, node in enumerate(self.hosts) if node is not None)

    def present_at(self, number: int) -> Node:
        """The host with this number, which must be there."""
        node = self.hosts[number]
        assert node is not None, number
        return node

    def enter(self, specs: list[HostSpec], numbers: Sequence[int], now_ns: int) -> None:
        """Let the roles of jobs that begin at `now_ns` be the hosts with these numbers."""
        for number, node in zip(numbers, _nodes(specs, self.batches), strict=True):
            self.hosts[number] = node
            name, role = node.spec.host, "worker" if node.is_worker else "server"
            peers = [peer for spec, _ in node.roles for peer in spec.peers]
            row = self._connect(number, name, peers, role, (node.placed, node.stepper))
            row.hot_bytes = node.hot_bytes
            row.status = node.machine.status.ctypes.data
            row.awaited = int(node.is_worker)
            row.draws = self.draws.pop(name, 0)
            self.world.leads[row.switch, row.port] = number
            event_queue.put(self.world.queue, number, now_ns)

    def add_background(self, first: int) -> None:
        """Let the ends of background flows be the hosts with numbers from `first` on."""
        setup, (arrived, out) = self.setup, self.batches
        machines = background.machines(setup.platform, setup.flows, setup.seed)
        for number, (name, (machine, peers)) in enumerate(machines.items(), first):
            self.background[name] = ends = Placed(machine), Stepper(machine, arrived.part, out.part)
            ips = [host_ip(setup.platform.topology.number(peer.host)) for peer in peers]
            marked = [peer.is_marked for peer in peers]
            row = self._connect(number, name, ips, BACKGROUND, ends, marked)
            row.status = machine.status.ctypes.data
            row.background = 1
            self.world.background[row.switch, row.port] = number
            self.world.state[0].background = 1
            event_queue.put(self.world.queue, number, 0)

    def _connect(
        self,
        number: int,
        name: str,
        peers: list[str],
        role: str,
        step: tuple[Placed, Stepper],
        marked: Sequence[bool] = (),
    ) -> np.record:
        """Give a host with this number its addresses, headers, delays and step; returns its row of
        World.hosts. `peers`: the addresses that it sends to; `marked`: by packets that can be
        marked, all if it is empty."""
        topology, is_background = self.setup.platform.topology, role == BACKGROUND
        host, gateway = topology.number(name), switch_of(topology, name)
        ours, ip = _mac(host_mac(host)), socket.inet_aton(host_ip(host))
        there = _mac(switch_mac(topology.number(gateway)))
        port = BACKGROUND_PORT if is_background else wire.PORT
        lossless = self.setup.platform.lossless
        classed = lossless.tos(is_background) if lossless else 0
        headers = [
            _header(there, ours, ip, peer, port, classed | (IP_TOS_ECT0 if able else 0))
            for peer, able in zip(peers, marked or [True] * len(peers), strict=True)
        ]
        first = self._place_headers(number, headers)
        world = self.world
        world.identity[number] = _identity(ours, ip, port)
        world.hosts[number] = np.zeros((), world.hosts.dtype)
        row = world.hosts[number]
        row.switch, row.port = self._switch_numbers[gateway], topology.port_to(gateway, name)
        row.machine, row.step = (each.address for each in step)
        row.header = first
        _delays(self.setup.platform, "worker" if is_background else role, row)
        stream = BACKGROUND_STREAM if is_background else HOST_STREAM
        row.stream = mix2(mix2(self.setup.seed, stream), host)
        return row

    def _place_headers(self, number: int, headers: list[bytes]) -> int:
        """Put a host's headers into World.headers; returns the first one's row."""
        count, end = len(headers), self.headers
        free = self.free_headers.get(count)
        first = free.pop() if free else end
        self.headers_of[number] = first, count
        if first == end:
            self.headers = end = first + count
            if end > len(self.world.headers):
                more = np.zeros((end + len(self.world.headers), sizes.FRAME_OVERHEAD), np.uint8)
                more[:first] = self.world.headers[:first]
                partial = np.zeros(len(more), np.int64)
                partial[:first] = self.world.partial[:first]
                self.worlds[0] = Placed(self.world._replace(headers=more, partial=partial))
        table = np.frombuffer(b"".join(headers), np.uint8).reshape(count, sizes.FRAME_OVERHEAD)
        self.world.headers[first : first + count] = table
        words = table[:, 14:34].copy().view(">u2").astype(np.int64)
        self.world.partial[first : first + count] = words.sum(axis=1)
        return first

    def stop(self, job: int) -> None:
        """The hosts of a job that will never finish do nothing more."""
        for number, node in self.present:
            if node.spec.job.number != job:
                continue
            row = self.world.hosts[number]
            if node.is_worker and not row.done:
                row.done = 1
                self.world.state[0].open -= 1
            self.world.leads[row.switch, row.port] = -1
            event_queue.put(self.world.queue, number, event_queue.NEVER)
            loop.empty(self.worlds[0], number)

    def on_new_way(self, new: NewPart, now_ns: int) -> None:
        """A host goes on with another part of a plan, from `now_ns` on."""
        number, node = next(
            (number, node)
            for number, node in self.present
            if node.spec.job.number == new.job and _place(node.spec) == new.number
        )
        machine = worker.on_new_way(node.machine, new.part)
        placed = Placed(machine, node.placed.words)
        self.hosts[number] = changed = Node.of(node.spec, placed, self.batches)
        row = self.world.hosts[number]
        row.step, row.machine = changed.stepper.address, changed.placed.address
        if not row.done and now_ns < self.world.queue.time[number] < event_queue.NEVER:
            event_queue.put(self.world.queue, number, now_ns)

    def leave(self, number: int) -> None:
        """The role is over. What is still on its way finds nobody, or the host's next role, to
        which it is foreign."""
        node, row = self.present_at(number), self.world.hosts[number]
        self.draws[node.spec.host] = int(row.draws)  # the stream goes on from there
        self.world.leads[row.switch, row.port] = -1
        self.hosts[number] = None
        first, count = self.headers_of.pop(number)
        self.free_headers.setdefault(count, []).append(first)
        event_queue.put(self.world.queue, number, event_queue.NEVER)
        loop.empty(self.worlds[0], number)


@no_garbage()  # type: ignore[untyped-decorator]
def build(setup: Setup, compiled: Compiled) -> Nodes:
    """All nodes at time 0. `compiled` is the program that `dataplane.program` names.

    With `arrivals` there are no hosts yet, only numbers for them: of each host of the topology, in
    order."""
    platform = setup.platform
    topology, words = platform.topology, sizes.packet_words(platform.values, platform.bitmap_bits)
    batches = Placed(new_batch(ROWS_IN, words)), Placed(new_batch(ROWS_OUT, words))
    specs = [] if platform.arrivals else host_specs(setup)
    hosts = len(topology.hosts) if platform.arrivals else len(specs)
    switches = {
        name: _switch(setup, name, compiled, setup.seed * 1000 + number)
        for number, name in enumerate(topology.switches)
    }
    ends = len(background.hosts_of(setup.flows, topology))
    memory = FrameMemory(_longest_frame(setup))
    world = empty_world(platform.topology, hosts + ends, switches, batches, memory)
    nodes = Nodes(setup, [None] * hosts, switches, [Placed(world)], batches, memory)
    if not INTERPRETED:
        world.fill[0] = values.filler().address
    nodes.add_background(hosts)
    world.state[0].controls = int(platform.lossless is not None)
    world.state[0].open = sum(job.workers for job in setup.listed)
    if platform.arrivals:
        world.state[0].report_finished = 1
        return nodes
    nodes.enter(specs, range(hosts), 0)
    nodes.worlds[0] = Placed(nodes.world._replace(pauses=_pauses(nodes)))
    return nodes


def _place(spec: HostSpec) -> int:
    """A host's number within its job: workers first, then servers."""
    return spec.number if spec.is_worker else spec.job.workers + spec.number


def _nodes(specs: list[HostSpec], batches: tuple[Placed, Placed]) -> list[Node]:
    """The hosts' nodes, some hosts after the others: so the memory in which machines are made is
    used again, instead of more for each."""
    parts = (specs[at : at + TOGETHER] for at in range(0, len(specs), TOGETHER))
    return [node for part in parts for node in _some_nodes(part, batches)]


def _some_nodes(specs: list[HostSpec], batches: tuple[Placed, Placed]) -> list[Node]:
    machines: list[Machine] = []
    first_of: dict[int, Machine] = {}  # by job: its first worker
    for spec in specs:
        own = len(machines)
        for role in (spec, *spec.members):
            machine = new_machine(role)
            if role.is_worker:
                _let_seed(machine)
                machine = _sharing(machine, first_of.setdefault(role.job.number, machine))
            if len(machines) > own:
                machine = _counting_with(machine, machines[own])
            machines.append(machine)
    placed, hot = packed(machines)
    nodes, place = [], 0
    for spec in specs:
        end = place + 1 + len(spec.members)
        if spec.members:
            nodes.append(Node.grouped(spec, placed[place:end], batches))
        else:
            nodes.append(Node.of(spec, placed[place], batches, hot[place]))
        place = end
    return nodes


def _let_seed(machine: Machine) -> None:
    """Let a worker's packets be seeded, where what is sent does not depend on their values."""
    protocol = getattr(machine, "protocol", None)
    if isinstance(protocol, pool_worker.Worker) and not INTERPRETED:
        config = protocol.config
        config.seeded = int(config.omit_zeros == 0 and config.short == 0)


def _counting_with(machine: Machine, first: Machine) -> Machine:
    """A machine of a host with the counters of its first one, and, of a rank, with its graph."""
    if isinstance(first, worker.WorkerMachine):
        machine = graph_source.sharing(machine, first)
    return replaced(machine, {id(machine.counters): first.counters})


def _sharing(machine: Machine, first: Machine) -> Machine:
    """A worker's machine with what never changes, and is the same for all workers of its job, taken
    from the first one: of a large model, hundreds of megabytes."""
    same = {name: getattr(first.scoreboard, name) for name in ("first", "size", "tensor")}
    if first.scoreboard.state.order == send_scoreboard.FIFO:
        same["sent_order"] = first.scoreboard.sent_order
    source = machine.source
    if isinstance(source, graph_source.Port) and type(source) is type(first.source):
        common = {name: getattr(first.source.graph, name) for name in graph_source.NEVER_WRITTEN}
        own = source.graph
        pairs = {name: (x, getattr(own, name)) for name, x in common.items()}
        equal = {name: x for name, (x, y) in pairs.items() if x is y or np.array_equal(x, y)}
        machine = machine._replace(source=source._replace(graph=own._replace(**equal)))
    return machine._replace(scoreboard=machine.scoreboard._replace(**same))


def _longest_frame(setup: Setup) -> int:
    """Bytes of the longest frame of any host."""
    flows = (flow.keys.packet_bytes for flow in setup.flows)
    return max([setup.platform.longest_frame_bytes, *flows])


def _switch(setup: Setup, name: str, compiled: Compiled, seed: int) -> Switch:
    platform = setup.platform
    ports = platform.topology.ports(name)
    switch = Switch(
        compiled,
        ports=sorted(ports),
        seed=seed,
        timestamp_unit_ns=platform.timestamp_unit_ns,
        priority_queues=platform.lossless.queues if platform.lossless else 1,
    )
    assert platform.virtual is not None
    dataplane.shape_links(platform, name, switch, platform.virtual.switch_latency_ns)
    dataplane.give_buffer(platform, name, switch, _longest_frame(setup))
    dataplane.install(setup, name, switch)
    # A packet's arrival at the far end is known when its transmission begins, and arrivals of a
    # link come in order, unless some of them are held up on the way.
    leaving = [platform.link(ring_link)[end].reorder for _, ring_link, end in ports.values()]
    # What is on its way must still be there if the link fails.
    switch.output_early(not any(leaving) and not platform.links_fail)
    return switch


def _delays(platform: Platform, role: str, row: Any) -> None:
    """Write the delays of a "worker" or "server" into a host's record of World.hosts."""
    assert platform.virtual is not None
    delay, jitter, packet_time = (
        getattr(platform.virtual, f"{role}_{name}_ns")
        for name in ("delay", "jitter", "packet_time")
    )
    row.delay_ns, row.spread_ns = delay - jitter, 2 * jitter
    row.hold_ns = platform.virtual.jitter_time_ns(role)
    row.cost_ns = packet_time


def _pauses(nodes: Nodes) -> np.ndarray:
    """World.pauses of the planned faults."""
    setup = nodes.setup
    rows = [
        (fault.at_ns, fault.end_ns, number)
        for fault in setup.faults
        if fault.kind == "pause"
        for number, node in nodes.present
        if node.spec.host in affected_nodes(setup.listed, fault)[0]
    ]
    return np.array(sorted(rows), np.int64).reshape(-1, 3)


def _identity(mac: bytes, ip: bytes, port: int) -> np.ndarray:
    """A row of World.identity."""
    return np.frombuffer(mac + bytes(2) + ip + struct.pack("!H", port) + bytes(2), np.uint8)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _header(
    there: bytes,
    ours: bytes,
    ip: bytes,
    peer: str,
    port: int,
    tos: int,
) -> bytes:
    """Ethernet, IPv4 and UDP as a host's kernel makes them, with lengths and checksums of 0."""
    address = socket.inet_aton(peer)
    ethernet = there + ours + b"\x08\x00"
    network = struct.pack("!BBHHHBBH4s4s", 0x45, tos, 0, 0, 0x4000, 64, 17, 0, ip, address)
    return ethernet + network + struct.pack("!HHHH", port, port, 0, 0)
