"""The network of a network file in virtual time: switches, links, and hosts as machines.

Switches run in this process and are filled as on Mininet. A host is a generator
(generator.py) of its flows, or a Python class of the file's. Nothing here knows
what happens when (virtual_run.py) or what is made of it (virtual_tables.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from p4engine.switch.library import Switch

from p4fabric.base.config.link_settings import NOMINAL_RATE_BPS
from p4fabric.base.config.lossless_settings import settings_of
from p4fabric.base.errors import UserError
from p4fabric.base.flow import Flow
from p4fabric.base.hops import links_between
from p4fabric.base.lossless_buffers import BufferPlan, make_lossless, plan_buffers
from p4fabric.base.topology import Topology
from p4fabric.netfile.flow_packets import acknowledgement, frames_of
from p4fabric.netfile.host_routes import routes_of
from p4fabric.netfile.install_entries import install
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.network_schema import LinkEntry
from p4fabric.netfile.python_host import Address, PythonHost
from p4fabric.netfile.virtual_plan import flows_of, mac_of
from p4fabric.netfile.virtual_schema import FlowEntry
from p4fabric.simulate.flow_machine import HostFlows, Way
from p4fabric.simulate.frame_world import FrameNodes
from p4fabric.simulate.generator import HOST, UNTIL_END, Generator, new_receptions
from p4fabric.simulate.records import new_table
from p4fabric.simulate.state import SHORTEST_NS, set_turns

Row: TypeAlias = dict[str, Any]  # of a table of the run: values by their columns
STREAM = 0xB6F4  # distinguishes senders' random numbers from others of the same seed
USUAL_BYTES = 1514  # of a frame
ADDED_BYTES = 512  # that programs may add
SLICE_FRAMES = 32  # of a host's link, in a turn
SLICE_BYTES = 1000
LONGEST_SLICE_NS = 1 << 40


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
    a Generator by host, which of a class only counts; `buffers` (of lossless links, by switch);
    `classes`, a PythonHost by host; `receptions` (generator.Receptions)."""

    def __init__(self, plan: NetworkPlan, compiled: dict[Path, Any]) -> None:
        """`compiled`: each program, as `compile_all` gives it. Raises UserError."""
        self.plan = plan
        self.topology = NumberedTopology.of(plan)
        self.flows = flows_of(plan.file)
        self._frames = {flow.number: frames_of(plan, flow) for flow in self.flows}
        self._early = not any(change.link for change in plan.file.changes)
        self._early = self._early and not any(link.reorder for link in plan.net.links)
        self.buffers = self._plan_buffers()
        switches = {
            name: self._switch(name, compiled[plan.programs[name]], number)
            for number, name in enumerate(self.topology.switches)
        }
        self.nodes = FrameNodes(self.topology, switches, self._longest())
        self.nodes.world.state[0].controls = int(bool(self.buffers))
        self.receptions = new_receptions(self._rows())
        self.machines: dict[str, Generator] = {}
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
            self._take_turns()

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

    def _plan_buffers(self) -> dict[str, BufferPlan]:
        """Buffers of lossless links by switch; empty: links lose packets. Raises UserError for what
        cannot be lossless."""
        given, links = settings_of(self.plan.net.lossless), self.plan.net.links
        if given is None:
            return {}
        latency_ns = self.plan.file.virtual.switch_latency_ns
        ends = (self.topology, lambda index: (links[index], links[index]))
        plans = dict(plan_buffers(given, *ends, self._longest(), latency_ns))
        for name, plan in plans.items():
            if plan.too_small:
                key = f"network.lossless.{plan.too_small_key}"
                raise UserError(f"{self.plan.path}: {key}: {name}, {plan.too_small}")
        return plans

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
        if self.buffers:
            make_lossless(self.buffers[name], self.topology, name, made)
        made.output_early(self._early)
        return made

    def _take_turns(self) -> None:
        """Let hosts and switches take turns (loop.py), if links are long enough."""
        latency_ns = self.plan.file.virtual.switch_latency_ns
        links = [self._link_of(host) for host in self.topology.hosts]
        least = min(link.delay_ns - link.jitter_ns for link in links)
        slices = [
            SLICE_FRAMES * 8 * SLICE_BYTES * 10**9 // link.bandwidth_bps
            for link in links
            if link.bandwidth_bps
        ]
        slice_ns = max(min(slices, default=LONGEST_SLICE_NS), SHORTEST_NS)
        between = [
            link.delay_ns - link.jitter_ns
            for ends, link in zip(self.topology.links, self.plan.net.links, strict=True)
            if not any(self.topology.is_host(end) for end in ends)
        ]
        back_ns = 2 * (min(between, default=LONGEST_SLICE_NS) + latency_ns)
        set_turns(self.nodes.world, least, least + latency_ns, slice_ns, back_ns)

    def _port(self, host: str) -> int:
        return self.topology.port_to(self.topology.switch_of(host), host)

    # -- hosts

    def _machine(self, name: str) -> Generator:
        virtual = self.plan.file.virtual
        made = HostFlows(virtual.seed, virtual.duration_ns, virtual.is_exact)
        for flow in self.flows:
            if name == flow.source and not flow.keys.has_ends:
                self._add_sender(made, flow)
        for flow in self.flows:
            if name in (flow.source, flow.target) and flow.keys.has_ends:
                data, sends = self._frames[flow.number][0], name == flow.source
                content = data if sends else self._acknowledgement(flow)
                made.add_end(flow, sends, content, len(data), self._way(flow))
        answer = self.plan.net.hosts[name].answer
        number = list(self.plan.net.hosts).index(name)
        return made.machine(
            new_table(HOST, number=number, answer_ns=-1 if answer is None else answer.delay_ns),
            len(self.flows),
            self.receptions,
            np.array([self._is_answered(flow, name) for flow in self.flows], np.int8),
            self.nodes.frame_bytes,
        )

    def _add_sender(self, made: HostFlows, flow: Flow[FlowEntry]) -> None:
        keys, frames = flow.keys, self._frames[flow.number]
        weights = [1] * len(frames) if keys.is_own else [weight for _, weight in keys.size[1]]
        made.add_sender(
            flow,
            list(zip(frames, weights, strict=True)),
            len(frames[0]),
            STREAM,
            packet_part=0 if keys.rate_bps else 10**15,
            byte_part=8 * 10**12 if keys.rate_bps else 0,
            divisor=keys.rate_bps or round((keys.packet_rate or 0) * 1000),
            tagged=int(keys.tagged),
            drawn=int(keys.size[0] and not keys.is_own),
            exponential=int(keys.gaps == "exponential"),
            burst=keys.packet_burst,
            drawn_periods=int(keys.periods == "exponential"),
            left=UNTIL_END if keys.count is None else keys.count,
        )

    def _is_answered(self, flow: Flow[FlowEntry], host: str) -> bool:
        """True if a host that answers does it for this flow."""
        answer = self.plan.net.hosts[host].answer
        return answer is None or answer.flows is None or flow.name in answer.flows

    def _acknowledgement(self, flow: Flow[FlowEntry]) -> bytes:
        hosts = self.plan.net.hosts
        routes = routes_of(hosts[flow.target].commands)
        address = hosts[flow.source].ip.partition("/")[0]
        mac = routes.mac_of(address, hosts[flow.target].ip) or mac_of(self.plan.net, flow.source)
        return acknowledgement(self.plan, flow, mac)

    def _link_of(self, host: str) -> LinkEntry:
        return self.link_at(self.topology.switch_of(host), self._port(host))

    def _way(self, flow: Flow[FlowEntry]) -> Way:
        path = links_between(self.topology, flow.source, flow.target)
        links = [self.plan.net.links[link] for link, _ in path] or self.plan.net.links
        slowest_bps = min(link.bandwidth_bps or NOMINAL_RATE_BPS for link in links)
        delay_ns = sum(link.delay_ns for link in links)
        delay_ns += (len(links) - 1) * self.plan.file.virtual.switch_latency_ns
        first_bps = self._link_of(flow.source).bandwidth_bps or 0
        unsafe = any(link.loss or link.duplicate for link in self.plan.net.links)
        loses = unsafe or settings_of(self.plan.net.lossless) is None
        return Way(first_bps, slowest_bps, 2 * delay_ns, len(links), loses)
