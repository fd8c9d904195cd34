"""The network of a run: a Mininet object made from a `Topology`, in three steps, not thousands.

Mininet builds a network by typing commands into the shells of its nodes, one after the other. Here
all namespaces are forked first, then one batch makes all veth pairs directly inside them (no
interface ever appears in the machine's own namespace), then one batch per host sets addresses. The
result is a Mininet object: `net["h1"].cmd("ip addr")`, `net.pingAll()` and Mininet's CLI work on
it.

Addresses: a host has its address as a /32, and its switch's address as gateway with a permanent
neighbour entry, so that a host sends no ARP and all its traffic goes through the switch's L3
forwarding.

The hosts of a server share a namespace, in which each has its own interface and address. Rules of
policy routing (server_routes.py) keep them apart.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from p4fabric.base import topology as addresses
from p4fabric.base.errors import RunError
from p4fabric.emulate.mininet_parts import Mininet, Node
from p4fabric.emulate.nodes import BuiltIntf, BuiltLink, FabricHost, P4Switch
from p4fabric.emulate.run_records import DIRECTORY
from p4fabric.emulate.server_routes import Nic, server_commands
from p4fabric.emulate.source_address import build_library
from p4fabric.emulate.spawner import Process, Spawner

# A packet with 2,048 values of 4 bytes, all headers, the largest bitmap, and room to spare.
MTU_BYTES = 9000


class Network(Mininet):
    """A built network; its switches wait for `start`.

    topology: hosts, switches and links; `holders`: the process that holds the namespace of each of
    them, of the hosts of a server the same one. spawner: forks the processes that hold the
    namespaces. logs: folder for what those write. sockets: folder for the switches' control sockets
    (a short path). launch: starts a switch process, see `P4Switch`. mtu_bytes: of every interface.
    qdiscs: commands for `tc -batch`, by the node in whose namespace they are carried out. trains:
    the interfaces pass UDP packets in trains; all switches must take them apart.
    """

    icmp_errors = False  # nodes do not answer packets that nobody receives

    def __init__(
        self,
        topology: addresses.Topology,
        spawner: Spawner,
        logs: Path,
        sockets: Path,
        launch: Callable[[P4Switch], None] | None = None,
        mtu_bytes: int | None = None,
        qdiscs: Mapping[str, Sequence[str]] | None = None,
        trains: bool = False,
    ) -> None:
        """Build everything. Raises RunError if the kernel refuses something, naming the command."""
        # Mininet would raise limits of the whole machine here and never put them back.
        was, Mininet.inited = Mininet.inited, True
        try:
            super().__init__(build=False, controller=None, intf=BuiltIntf, link=BuiltLink)
        finally:
            Mininet.inited = was
        self.topology = topology
        self.spawner = spawner
        self.mtu_bytes = mtu_bytes or MTU_BYTES
        self.qdiscs = qdiscs or {}
        self.holders = self._hold(logs, sockets)
        for number, name in enumerate(topology.hosts, 1):
            ip = addresses.host_ip(number)
            self.addHost(name, cls=FabricHost, namespace=self.holders[name].pid, ip=f"{ip}/32")
        for name in topology.switches:
            self.addSwitch(
                name,
                cls=P4Switch,
                dpid="1",  # means nothing here, but Mininet wants a number in every switch's name
                namespace=self.holders[name].pid,
                control_path=sockets / f"{name}.sock",
                launch=launch,
            )
        links = [self._link_command(*ends[:2]) for ends in topology.links]
        nodes = [self._description(node) for node in (*self.hosts, *self.switches)]
        arguments = {"links": links, "nodes": nodes, "trains": trains}
        log = logs / "network.log"
        process = spawner.spawn("build", "p4fabric.emulate.namespace:build", arguments, log)
        spawner.wait_ended([process], 60, "building the network")
        if process.code != 0:
            self.check()
            raise process.failure("cannot build the network: the process that makes it")
        self.built = True

    def check(self) -> None:
        """Raises RunError that names a node whose namespace has ended."""
        self.spawner.pump()
        for name, holder in self.holders.items():
            if holder.code is not None:
                raise holder.failure(f"the process that holds the namespace of {name}")

    def take_down(self) -> None:
        """Stop everything and give the namespaces up, with which the links go."""
        self.stop()
        holders = list({holder.key: holder for holder in self.holders.values()}.values())
        for holder in holders:
            self.spawner.signal(holder, signal.SIGKILL)
        self.spawner.wait_ended(holders, 30, "end of the network")
        self.spawner.pump()  # nobody is to be surprised later that they have ended

    def _hold(self, logs: Path, scratch: Path) -> dict[str, Process]:
        """A namespace per server and switch, each held by a process; by name of the node. scratch:
        folder for a file that they read."""
        topology = self.topology
        server_of = {name: topology.server_of(name) for name in topology.hosts}
        names = [*dict.fromkeys(server_of.values()), *topology.switches]
        shared = {server for server, ranks in topology.servers.items() if len(ranks) > 1}
        library = str(build_library(scratch)) if shared and DIRECTORY.is_dir() else None
        hosts = logs / "hosts"
        known = []
        for name, server in server_of.items():
            alias = "" if server == name else f" {server}"
            known.append(f"{self._address(name)[0]} {name}{alias}")
        hosts.write_text("\n".join(["127.0.0.1 localhost", *known, ""]))
        hosts.chmod(0o644)
        ready, theirs = os.pipe()
        try:
            target = "p4fabric.emulate.namespace:hold"
            holders = {
                name: self.spawner.spawn(
                    f"{name}-net",
                    target,
                    {
                        "name": name,
                        "hosts": str(hosts.absolute()),
                        "several_addresses": name in shared,
                        "icmp_errors": self.icmp_errors,
                        "library": library if name in shared else None,
                    },
                    logs / "namespaces.log",
                    descriptors=[theirs],
                    title=f"namespace {name}",
                )
                for name in names
            }
            waiting = len(names)
            deadline = time.monotonic() + 30
            sources: list[int | Spawner] = [ready, self.spawner]
            while waiting:
                readable, _, _ = select.select(sources, [], [], 1)
                if ready in readable:
                    waiting -= len(os.read(ready, waiting))
                for ended in self.spawner.pump():
                    name = ended.key.removesuffix("-net")
                    raise ended.failure(f"the process that makes the namespace of {name}")
                if time.monotonic() > deadline:
                    raise RunError("making network namespaces took longer than 30 s")
        finally:
            os.close(ready)
            os.close(theirs)
        self.spawner.wait_started(list(holders.values()))
        of_hosts = {name: holders[server] for name, server in server_of.items()}
        return of_hosts | {name: holders[name] for name in topology.switches}

    def _link_command(self, first: str, second: str) -> str:
        """Add a link to Mininet's books; returns the `ip` command that makes it."""
        link = self.addLink(first, second, **self._link_options(first, second))
        described = []
        for end, intf in enumerate((link.intf1, link.intf2)):
            if isinstance(intf.node, FabricHost):
                intf.ip, intf.prefixLen = self._address(intf.node.name)
            # The kernel is in no hurry (up to a second) to take notice of a link whose two ends
            # have the same interface number, each in its own namespace: so they get different ones.
            described.append(
                f"name {intf.name} index {2 * len(self.links) + end + 10} mtu {self.mtu_bytes}"
                f" address {intf.mac} netns {intf.node.pid}"
            )
        return f"link add {described[0]} type veth peer {described[1]}"

    def _description(self, node: Node) -> dict:
        """One node as `namespace.build` takes it."""
        commands = self._ip_commands(node) if isinstance(node, FabricHost) else []
        interfaces = [intf.name for intf in node.intfList()]
        return {
            "name": node.name,
            "pid": node.pid,
            "interfaces": interfaces,
            "commands": commands,
            "qdiscs": list(self.qdiscs.get(node.name, ())),
        }

    # ---- what another kind of network has differently ----

    def _link_options(self, first: str, second: str) -> dict:
        """Arguments of Mininet's `addLink` for the next link."""
        return {"addr1": self._mac(first), "addr2": self._mac(second)}

    def _address(self, host: str) -> tuple[str, int]:
        """IPv4 address and prefix length of a host."""
        return addresses.host_ip(self.topology.number(host)), 32

    def _ip_commands(self, host: Node) -> list[str]:
        """Lines for `ip -batch` in a host."""
        own = self._nic(host.name)
        commands = [
            f"addr add {own.address}/32 dev {own.interface}",
            f"neigh add {own.gateway} lladdr {own.mac} dev {own.interface} nud permanent",
        ]
        topology = self.topology
        ranks = topology.servers.get(topology.server_of(host.name), (host.name,))
        if host.name == ranks[0]:
            commands.append(f"route add default via {own.gateway} dev {own.interface} onlink")
        if len(ranks) > 1 and host.name == ranks[-1]:  # all interfaces of the server are up
            places = {
                self._address(name)[0]: topology.local_rank(name)
                for name in topology.hosts
                if name not in ranks
            }
            commands += server_commands([self._nic(name) for name in ranks], places)
        return commands

    def _nic(self, host: str) -> Nic:
        """A host's interface."""
        neighbour = self.topology.number(self.topology.switch_of(host))
        gateway, mac = addresses.switch_ip(neighbour), addresses.switch_mac(neighbour)
        return Nic(self[host].defaultIntf().name, self._address(host)[0], gateway, mac)

    def _mac(self, name: str) -> str:
        """A host's address. A switch's interfaces get others than the switch has as a gateway: the
        kernel then sees packets to the gateway as addressed elsewhere, and leaves them to the
        switch."""
        number = self.topology.number(name)
        if name in self.topology.hosts:
            return addresses.host_mac(number)
        port = self[name].newPort()
        return f"02:00:{number >> 8 | 0x80:02x}:{number & 255:02x}:{port >> 8:02x}:{port & 255:02x}"
