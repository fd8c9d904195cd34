"""A world made from an experiment: its hosts' machines, its switches, and what lies between them.

Everything that Mininet would provide is filled in here: addresses and headers as a host's kernel
makes them, which port leads where, the switches' tables and links. What a machine or a switch does
is not known here.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed import dataplane
from testbed.experiment import Experiment
from testbed.experiment.faults import befallen
from testbed.p4engine.build import Compiled
from testbed.p4engine.library import Switch
from testbed.protocols import sizes, wire
from testbed.protocols.values import mix2
from testbed.routing.tree import switch_of
from testbed.simulate import agenda as ag
from testbed.simulate import state as w
from testbed.topology import Topology, host_ip, host_mac, switch_mac
from testbed.workload.machine import new_batch, new_machine
from testbed.workload.placed import Placed, Stepper
from testbed.workload.plan import plan

ROWS_IN = 64
ROWS_OUT = 1024
HOST_STREAM = 0x405F  # what tells hosts' random numbers from others of the same seed
IP_TOS_ECT0 = 2  # able to be marked by ECN, as the sockets of host processes ask for


@dataclass
class Node:
    """One role on its host. `machine` is what steps; `placed` and `stepper` keep it where it is."""

    spec: dict
    machine: Any
    placed: Placed
    stepper: Stepper

    @property
    def is_worker(self) -> bool:
        return self.spec["role"] == "worker"

    @property
    def title(self) -> str:
        """As a message names it: host, role, job."""
        role = f"worker {self.spec['worker']}" if self.is_worker else "parameter server"
        return f"{self.spec['host']} ({role} of job {self.spec['job_name']})"


@dataclass
class Nodes:
    """All nodes of a world, by number (state.py), and the arrays that the loop works on."""

    experiment: Experiment
    hosts: list[Node]
    switches: dict[str, Switch]
    placed: Placed
    batches: tuple[Placed, Placed]

    @property
    def world(self) -> w.World:
        return self.placed.part

    def grow(self) -> None:
        """Make room for more frames on their way."""
        self.placed = Placed(w.larger(self.world))


def build(experiment: Experiment, compiled: Compiled, repetition: int = 0) -> Nodes:
    """All nodes at time 0. `compiled` is the program that `dataplane.program` names."""
    topology = experiment.topology_object()
    seed = experiment.repetition_seed(repetition)
    values, width = experiment.values_per_packet, experiment.bitmap_bits
    arrived = Placed(new_batch(ROWS_IN, values, width))
    out = Placed(new_batch(ROWS_OUT, values, width))
    nodes = _nodes(plan(experiment, repetition), arrived, out)
    switches = {
        name: _switch(experiment, name, compiled, seed * 1000 + number)
        for number, name in enumerate(topology.switches)
    }
    inboxes, trunks = _inboxes(topology, nodes)
    world = _world(experiment, seed, nodes, switches, (arrived, out), inboxes, trunks)
    return Nodes(experiment, nodes, switches, Placed(world), (arrived, out))


def _nodes(specs: list[dict], arrived: Placed, out: Placed) -> list[Node]:
    nodes: list[Node] = []
    first_of: dict[int, Any] = {}  # by job: its first worker
    for spec in specs:
        machine = new_machine(spec)
        if spec["role"] == "worker":
            machine = _sharing(machine, first_of.setdefault(spec["job"], machine))
        stepper = Stepper(machine, arrived.part, out.part)
        nodes.append(Node(spec, machine, Placed(machine), stepper))
    return nodes


def _sharing(machine: Any, first: Any) -> Any:
    """A worker's machine with what never changes, and is the same for all workers of its job, taken
    from the first one: of a large model, hundreds of megabytes."""
    same = {name: getattr(first.book, name) for name in ("first", "size", "tensor")}
    return machine._replace(book=machine.book._replace(**same))


def _switch(experiment: Experiment, name: str, compiled: Compiled, seed: int) -> Switch:
    ports = experiment.topology_object().ports(name)
    switch = Switch(
        compiled,
        ports=sorted(ports),
        seed=seed,
        timestamp_unit_ns=experiment.timestamp_unit_ns,
    )
    dataplane.shape_links(experiment, name, switch, experiment.virtual.switch_latency_ns)
    dataplane.install(experiment, name, switch)
    # A packet's arrival at the far end is known when its transmission begins, and arrivals of a
    # link come in order, unless some of them are held up on the way.
    leaving = [experiment.link(link)[end].reorder for _, link, end in ports.values()]
    switch.early(not any(leaving))
    return switch


def _inboxes(
    topology: Topology, nodes: list[Node]
) -> tuple[dict[tuple[str, int], int], list[tuple[int, int]]]:
    """Which inbox a switch's port leads to, by (switch, port); and the trunks, as (switch, port)
    that they lead into."""
    hosts = {node.spec["host"]: number for number, node in enumerate(nodes)}
    numbers = {name: number for number, name in enumerate(topology.switches)}
    leads: dict[tuple[str, int], int] = {}
    trunks: list[tuple[int, int]] = []
    for name in topology.switches:
        for port, (neighbour, link, _) in topology.ports(name).items():
            if neighbour in hosts:
                leads[name, port] = hosts[neighbour]
            elif neighbour in numbers:
                there = topology.ports(neighbour).items()
                far = next(p for p, (o, i, _) in there if i == link and o == name)
                leads[name, port] = len(nodes) + len(trunks)
                trunks.append((numbers[neighbour], far))
    return leads, trunks


def _world(
    experiment: Experiment,
    seed: int,
    nodes: list[Node],
    switches: dict[str, Switch],
    batches: tuple[Placed, Placed],
    inboxes: dict[tuple[str, int], int],
    trunks: list[tuple[int, int]],
) -> w.World:
    topology = experiment.topology_object()
    frame_bytes = sizes.frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    ports = max(port for _, port in inboxes) + 1
    width = -(-frame_bytes // 64) * 64
    world = w.new_world(len(nodes), len(trunks), len(switches), ports, width)
    numbers = {name: number for number, name in enumerate(switches)}
    for (name, port), inbox in inboxes.items():
        world.leads[numbers[name], port] = inbox
    for number, switch in enumerate(switches.values()):
        world.switches[number] = _functions(switch)
    world.trunks[:] = np.array(trunks, np.int64).reshape(-1, 2)

    headers: list[bytes] = []
    for row, mine, node in zip(world.hosts, world.identity, nodes, strict=True):
        name = node.spec["host"]
        number = topology.number(name)
        ours, ip = _mac(host_mac(number)), socket.inet_aton(host_ip(number))
        mine[:] = np.frombuffer(ours + ip + struct.pack("!H", wire.PORT), np.uint8)
        gateway = switch_of(topology, name)
        row[w.SWITCH] = numbers[gateway]
        row[w.PORT] = next(p for p, (o, _, _) in topology.ports(gateway).items() if o == name)
        row[w.STEP] = node.stepper.address
        row[w.MACHINE] = node.placed.address
        row[w.STATUS] = node.machine.status.ctypes.data
        row[w.IS_WORKER] = int(node.is_worker)
        role = "worker" if node.is_worker else "server"
        delay, jitter, packet_time = (
            getattr(experiment.virtual, f"{role}_{name}_ns")
            for name in ("delay", "jitter", "packet_time")
        )
        row[w.DELAY_NS], row[w.SPREAD_NS] = delay - jitter, 2 * jitter
        row[w.COST_NS] = packet_time
        row[w.STREAM] = mix2(mix2(seed, HOST_STREAM), number)
        row[w.HEADER] = len(headers)
        there = _mac(switch_mac(topology.number(gateway)))
        headers += [_header(there, ours, ip, peer) for peer in node.spec["peers"]]

    world.s[w.OPEN] = int(world.hosts[:, w.IS_WORKER].sum())
    for number in range(len(nodes)):
        ag.put(world.agenda, number, 0)
    table = np.frombuffer(b"".join(headers), np.uint8).reshape(-1, sizes.FRAME_OVERHEAD).copy()
    arrived, out = batches
    world.places[:] = arrived.address, out.address, world.deadline.ctypes.data
    return world._replace(
        headers=table,
        partial=table[:, 14:34].copy().view(">u2").astype(np.int64).sum(axis=1),
        pauses=_pauses(experiment, nodes),
        arrived=arrived.part,
        out=out.part,
    )


def _pauses(experiment: Experiment, nodes: list[Node]) -> np.ndarray:
    """World.pauses of the experiment's faults."""
    rows = [
        (fault.at_ns, fault.end_ns, number)
        for fault in experiment.faults
        if fault.kind == "pause"
        for number, node in enumerate(nodes)
        if node.spec["host"] in befallen(experiment, fault)[0]
    ]
    return np.array(sorted(rows), np.int64).reshape(-1, 3)


def _functions(switch: Switch) -> list[int]:
    """A row of World.switches."""
    entry = switch.entry_points()
    names = "receive", "advance", "next_event", "outputs", "outputs_clear"
    return [switch.address, *(entry[name] for name in names)]


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _header(there: bytes, ours: bytes, ip: bytes, peer: str) -> bytes:
    """Ethernet, IPv4 and UDP as a host's kernel makes them, with lengths and checksums of 0."""
    address = socket.inet_aton(peer)
    ethernet = there + ours + b"\x08\x00"
    network = struct.pack("!BBHHHBBH4s4s", 0x45, IP_TOS_ECT0, 0, 0, 0x4000, 64, 17, 0, ip, address)
    return ethernet + network + struct.pack("!HHHH", wire.PORT, wire.PORT, 0, 0)
