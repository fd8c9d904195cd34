"""The network of a network file: a plain one, with the file's addresses and port numbers.

Hosts look as the P4 tutorials' scripts make them: their interface is eth0, there is no IPv6, and
frames keep the ordinary size.
"""

from __future__ import annotations

from pathlib import Path

from p4fabric.base.topology import Topology
from p4fabric.emulate.mininet_network import Network
from p4fabric.emulate.mininet_parts import Node
from p4fabric.emulate.nodes import P4Switch, controller_options
from p4fabric.emulate.spawner import Spawner
from p4fabric.netfile.load_network import NetworkPlan

MTU_BYTES = 1500


class PlainNetwork(Network):
    """A built network; `start` starts the switches."""

    icmp_errors = True

    def __init__(
        self, topology: Topology, spawner: Spawner, logs: Path, sockets: Path, plan: NetworkPlan
    ) -> None:
        self.plan = plan
        super().__init__(topology, spawner, logs, sockets, mtu_bytes=MTU_BYTES)

    def _link_options(self, first: str, second: str) -> dict:
        options = super()._link_options(first, second)
        ports = self.plan.ports[len(self.links)]
        for end, (name, port) in enumerate(zip((first, second), ports, strict=True), 1):
            if name in self.topology.hosts:
                options[f"intfName{end}"] = "eth0"
            else:
                options[f"port{end}"] = self[name].newPort() if port is None else port
        return options

    def _address(self, host: str) -> tuple[str, int]:
        ip, _, length = self.plan.net.hosts[host].ip.partition("/")
        return ip, int(length)

    def _ip_commands(self, host: Node) -> list[str]:
        return [f"addr add {self.plan.net.hosts[host.name].ip} dev eth0"]

    def _mac(self, name: str) -> str:
        mac = self.plan.net.hosts[name].mac if name in self.topology.hosts else None
        return mac or super()._mac(name)

    def start_switches(self) -> None:
        """Start each switch and shape its links. Raises RunError."""
        for switch in self.switches:
            settings = self.plan.net.switches[switch.name]
            program = self.plan.programs[switch.name]
            switch.program, switch.defines = program, dict(self.plan.net.defines)
            options = controller_options(settings.p4runtime, settings.device_id, settings.cpu_port)
            options += ["--priority-queues", str(settings.priority_queues)]
            switch.arguments = ("-I", str(program.parent), *options)
            switch.start()
            shape(self, switch)

    def configure_hosts(self) -> dict[str, str]:
        """Run the hosts' own commands. Returns their output, by command."""
        printed = {}
        for name, host in self.plan.net.hosts.items():
            for command in host.commands:
                said = self[name].cmd(command).strip()
                if said:
                    printed[f"{name}: {command}"] = said
        return printed


def shape(network: PlainNetwork, switch: P4Switch) -> None:
    """Shape a switch's links as the file says: packets that leave its ports, and those of hosts."""
    calls: list[tuple] = []
    for link, settings in zip(network.links, network.plan.net.links, strict=True):
        ends = link.intf1, link.intf2
        for ours, theirs in (ends, ends[::-1]):
            if ours.node is not switch:
                continue
            port = switch.ports[ours]
            calls.append(("port_shape", port, "egress", *settings.shape()))
            if theirs.node.name in network.plan.net.hosts:
                calls.append(("port_shape", port, "ingress", *settings.shape()))
    assert switch.client is not None, "the switch has been started"
    switch.client.batch(calls)
