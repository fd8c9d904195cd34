"""The network of a network file in virtual time: switches, links, and hosts as machines.

Switches run in this process and are filled as on Mininet. A host is a generator
(testbed/workload/generator.py) of its flows, or a Python class of the file's. Nothing here knows
what happens when (virtual_run.py) or what is made of it (virtual_tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from p4engine.switch.library import Switch

from testbed.netfile.flow_packets import acknowledgement, frames_of
from testbed.netfile.host_routes import routes_of
from testbed.netfile.install_entries import install
from testbed.netfile.load_network import NetworkPlan
from testbed.netfile.network_schema import LinkEntry
from testbed.netfile.python_host import Address, PythonHost
from testbed.netfile.virtual_plan import Flow, flows_of, mac_of
from testbed.protocols.records import new_table
from testbed.protocols.values import mix2
from testbed.routing.tree import next_hops
from testbed.simulate.frame_world import FrameNodes, Turns
from testbed.topology import Topology
from testbed.workload import background, generator

GENERATOR_STREAM = 0xB6F4  # distinguishes flows' random numbers from others of the same seed
TCP_STREAM = 0xB6F3
USUAL_BYTES = 1514  # of a frame
ADDED_BYTES = 512  # that programs may add
SLICE_FRAMES = 32  # of a host's link, in a turn
SLICE_BYTES = 1000
LONGEST_SLICE_NS = 1 << 40
NOMINAL_RATE_BPS = 100 * 10**9  # of links without a rate, for timeouts of TCP
TIMEOUT_PACKETS = 400


class NumberedTopology(Topology):
    """The topology of a network file, with the file's numbers of ports."""

    _numbers: dict[tuple[str, int], int]

    @classmethod
    def of(cls, plan: NetworkPlan) -> NumberedTopology:
        """A port without a number gets the one behind the largest so far, as on Mininet."""
        made = cls()
        made._numbers = {}
        for host in plan.topology.hosts:
            made.add_host(host)
        for switch in plan.topology.switches:
            made.add_switch(switch)
        last = dict.fromkeys(plan.topology.switches, 0)
        for index, (ends, ports) in enumerate(zip(plan.topology.links, plan.ports, strict=True)):
            made.add_link(*ends)
            for name, port in zip(ends, ports, strict=True):
                number = last.get(name, 0) + 1 if port is None else port
                made._numbers[name, index] = number
                if name in last:
                    last[name] = max(last[name], number)
        return made

    def ports(self, node: str) -> dict[int, tuple[str, int, int]]:
        found = super().ports(node).values()
        return {self._numbers[node, leads[1]]: leads for leads in found}


class VirtualNetwork:
    """All nodes at time 0.

    Attributes: `plan`; `topology` (a NumberedTopology); `flows`; `nodes` (FrameNodes); `machines`,
    a Generator by host, which of a class only
    counts; `classes`, a PythonHost by host; `receptions` (generator.Receptions)."""

    def __init__(self, plan: NetworkPlan, compiled: dict[Path, Any]) -> None:
        """`compiled`: each program, as `compile_all` gives it. Raises UserError."""
        self.plan = plan
        self.topology = NumberedTopology.of(plan)
        self.flows = flows_of(plan.file)
        self._frames = {flow.number: frames_of(plan, flow) for flow in self.flows}
        self._early = not any(change.link for change in plan.file.changes)
        self._early = self._early and not any(link.reorder for link in plan.net.links)
        switches = {
            name: self._switch(name, compiled[plan.programs[name]], number)
            for number, name in enumerate(self.topology.switches)
        }
        self.nodes = FrameNodes(self.topology, switches, self._longest())
        self.receptions = generator.new_receptions(self._rows())
        self.machines: dict[str, generator.Generator] = {}
        self.classes: dict[str, PythonHost] = {}
        addresses = {
            name: Address(mac_of(plan.net, name), host.ip.partition("/")[0])
            for name, host in plan.net.hosts.items()
        }
        for name, host in plan.net.hosts.items():
            self.machines[name] = machine = self._machine(name)
            if host.class_ is None:
                self.nodes.add_machine(name, machine)
            else:
                batches = self.nodes.batches
                self.classes[name] = made = PythonHost(plan, name, addresses, batches, machine)
                self.nodes.add_step(name, made, made.status)
        if self._early and plan.net.hosts:
            self.nodes.take_turns(self._turns())

    def _longest(self) -> int:
        """Room for the bytes of a frame."""
        given = self.plan.file.virtual.longest_frame_bytes
        longest = max((len(frame) for each in self._frames.values() for frame in each), default=0)
        return max(given or max(longest, USUAL_BYTES) + ADDED_BYTES, longest)

    def _rows(self) -> int:
        """Pairs of a flow and a host that are counted: all, or four for each flow."""
        flows = len(self.flows)
        return min(2 * flows * len(self.topology.hosts), 4 * flows + 4096)

    # -- switches and links

    def link_at(self, switch: str, port: int) -> LinkEntry:
        """The link of a port."""
        return self.plan.net.links[self.topology.ports(switch)[port][1]]

    def _switch(self, name: str, compiled: Any, number: int) -> Switch:
        settings, virtual = self.plan.net.switches[name], self.plan.file.virtual
        ports = self.topology.ports(name)
        made = Switch(
            compiled,
            ports=sorted(ports),
            seed=virtual.seed * 1000 + number,
            timestamp_unit_ns=1,
            priority_queues=settings.priority_queues,
        )
        for port, (neighbour, link, _) in ports.items():
            entry = self.plan.net.links[link]
            made.port_shape(port, "egress", *entry.shape(virtual.switch_latency_ns))
            if self.topology.is_host(neighbour):
                made.port_shape(port, "ingress", *entry.shape())
        install(name, settings, made)
        made.output_early(self._early)
        return made

    def _turns(self) -> Turns:
        latency_ns = self.plan.file.virtual.switch_latency_ns
        links = [self._link_of(host) for host in self.topology.hosts]
        least = min(link.delay_ns - link.jitter_ns for link in links)
        slices = [
            SLICE_FRAMES * 8 * SLICE_BYTES * 10**9 // link.bandwidth_bps
            for link in links
            if link.bandwidth_bps
        ]
        return Turns(least, least + latency_ns, max(min(slices, default=LONGEST_SLICE_NS), 200))

    def _port(self, host: str) -> int:
        return self.topology.port_to(self.topology.switch_of(host), host)

    # -- hosts

    def _machine(self, name: str) -> generator.Generator:
        templates: list[tuple[int, int, int]] = []
        content: list[bytes] = []
        senders = []
        ends: list[tuple[int, int, np.ndarray]] = []
        length = 0

        def add(frame: bytes, share: int = 0) -> int:
            nonlocal length
            templates.append((length, len(frame), share))
            content.append(frame)
            length += len(frame)
            return len(templates) - 1

        for flow in self.flows:
            if flow.is_tcp and name in (flow.source, flow.target):
                frame = self._frames[flow.number][0]
                sends = name == flow.source
                template = add(frame if sends else self._acknowledgement(flow))
                ends.append((flow.number, template, self._end(flow, len(frame), sends)))
            elif name == flow.source:
                frames = self._frames[flow.number]
                first = len(templates)
                weights = [1] * len(frames) if flow.is_own else [w for _, w in flow.entry.size[1]]
                total, so_far = sum(weights), 0
                for frame, weight in zip(frames, weights, strict=True):
                    so_far += weight
                    add(frame, (so_far << 32) // total)
                senders.append(self._sender(flow, first, len(frames)))
        answer = self.plan.net.hosts[name].answer
        return generator.new_generator(
            list(self.plan.net.hosts).index(name),
            np.concatenate(senders) if senders else np.zeros(0, generator.SENDER),
            ends,
            _table(generator.TEMPLATE, templates),
            np.frombuffer(b"".join(content) or b"\0", np.uint8),
            len(self.flows),
            self.receptions,
            -1 if answer is None else answer.delay_ns,
            np.array([self._is_answered(flow, name) for flow in self.flows], np.int8),
            self.nodes.frame_bytes,
        )

    def _is_answered(self, flow: Flow, host: str) -> bool:
        """True if a host that answers does it for this flow."""
        answer = self.plan.net.hosts[host].answer
        return answer is None or answer.flows is None or flow.name in answer.flows

    def _stream(self, flow: Flow, purpose: int) -> int:
        return int(mix2(mix2(self.plan.file.virtual.seed, purpose), flow.number))

    def _sender(self, flow: Flow, first: int, templates: int) -> np.ndarray:
        entry = flow.entry
        rate_pmps = round((entry.packet_rate or 0) * 1000)
        made = new_table(
            generator.SENDER,
            flow=flow.number,
            tagged=int(flow.tagged),
            first=first,
            templates=templates,
            drawn=int(entry.size[0] and not flow.is_own),
            rate_bps=entry.rate_bps or 0,
            rate_pmps=rate_pmps,
            exponential=int(entry.gaps == "exponential"),
            burst=entry.burst,
            on_ps=1000 * (entry.on_ns or 0),
            off_ps=1000 * (entry.off_ns or 0),
            drawn_periods=int(entry.periods == "exponential"),
            silent_ps=-1,
            due_ps=1000 * entry.start_ns,
            end_ps=1000 * flow.stop_ns,
            left=generator.UNTIL_END if entry.count is None else entry.count,
            stream=self._stream(flow, GENERATOR_STREAM),
        )
        if not self.plan.file.virtual.is_exact:
            bits = 8 * len(self._frames[flow.number][0])
            gap_ps = 10**12 * bits // entry.rate_bps if entry.rate_bps else 10**15 // rate_pmps
            background.take_phase(made, entry.burst * gap_ps)
            if entry.gaps == "exponential":
                made["jitter_ps"] = 0
        return made

    def _acknowledgement(self, flow: Flow) -> bytes:
        assert flow.target is not None
        hosts = self.plan.net.hosts
        routes = routes_of(hosts[flow.target].commands)
        address = hosts[flow.source].ip.partition("/")[0]
        mac = routes.mac_of(address, hosts[flow.target].ip) or mac_of(self.plan.net, flow.source)
        return acknowledgement(self.plan, flow, mac)

    def _path(self, source: str, target: str) -> list[LinkEntry]:
        """The links of a shortest path; of all, if there is none."""
        hops = next_hops(self.topology, target)
        here, found = self.topology.switch_of(source), [self._link_of(source)]
        while here != target:
            if here not in hops:
                return list(self.plan.net.links)
            port, here_next = hops[here]
            found.append(self.link_at(here, port))
            here = here_next
        return found

    def _link_of(self, host: str) -> LinkEntry:
        return self.link_at(self.topology.switch_of(host), self._port(host))

    def _end(self, flow: Flow, length: int, sends: bool) -> np.ndarray:
        """An end of a flow of TCP, a row of background.END."""
        assert flow.target is not None
        rate_bps = self._link_of(flow.source).bandwidth_bps
        links = self._path(flow.source, flow.target)
        slowest_bps = min(link.bandwidth_bps or NOMINAL_RATE_BPS for link in links)
        delay_ns = sum(link.delay_ns for link in links)
        delay_ns += (len(links) - 1) * self.plan.file.virtual.switch_latency_ns
        # 400 packets' times on the slowest link, and four round trips, as testbed/simulate has it
        timeout_ns = TIMEOUT_PACKETS * 8 * length * 10**9 // slowest_bps + 8 * delay_ns
        made = new_table(
            background.END,
            sending=int(sends),
            tcp=1,
            length=length,
            interval_ps=-(-8 * length * 10**12 // rate_bps) if rate_bps else 0,
            stream=self._stream(flow, TCP_STREAM),
            start_ns=flow.entry.start_ns,
            end_ns=flow.stop_ns,
            due_ps=1000 * flow.entry.start_ns,
            window=background.FIRST_WINDOW * background.UNIT,
            threshold=background.RING * background.UNIT,
            furthest=-1,
            least_timeout_ns=timeout_ns,
            timeout_at_ns=background.NEVER,
        )
        if sends and not self.plan.file.virtual.is_exact:
            background.take_phase(made, int(made["interval_ps"][0]))
        return made


def _table(kind: np.dtype, rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    made = np.zeros(len(rows), kind)
    for number, row in enumerate(rows):
        made[number] = row
    return made
