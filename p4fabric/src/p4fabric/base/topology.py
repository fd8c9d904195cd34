"""A topology: which hosts and switches there are, and which are linked. Pure data.

A topology knows nothing of Mininet, processes or time. Its users (the network builder, the
control plane, virtual time, a planner) read the same lists, so all agree on the same numbering:
hosts and switches are numbered from 1 in order of creation, links from 0, and the ports of a node
from 1 in the order of its links. Addresses follow from the numbers.

A topology of one's own is a subclass that adds nodes and links in `__init__`:

    class Pair(Topology):
        def __init__(self, hosts: int = 2):
            self.add_switch("s1")
            for number in range(1, hosts + 1):
                self.add_link(self.add_host(f"h{number}"), "s1", bandwidth="10 Mbit/s")

A host is a rank with a network card (NIC) of its own. Hosts may belong to one machine, a *server*
with several GPUs and NICs. That changes neither links nor addresses: it says which hosts share a
network namespace on Mininet, and by a host's place in its server, its *local rank*, routes choose
among equally short paths.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from p4fabric.base.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Self

Derived = TypeVar("Derived")

# Linux limits interface names to 15 characters, and `<node>-eth<port>` has to fit.
NAME = re.compile(r"[a-z][a-z0-9]{0,7}")
_ALLOWED_NAME = "a name is a small letter and up to 7 small letters or digits"
MAX_PORTS = 510  # of a switch: port numbers of v1model have 9 bits, ours begin at 1, and 511 drops
MAX_PER_SERVER = 64
FRAME_OVERHEAD = 14 + 20 + 8  # bytes in front of UDP's payload: Ethernet, IPv4, UDP
MAX_NODES = 65_000  # numbers have 16 bits in addresses, and of all nodes as replication ids


class TopologyError(UserError):
    """A topology that cannot be. `option` names the constructor's argument at fault, if it is
    one."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


def within(option: str, value: int, low: int, high: int) -> None:
    """Raises TopologyError unless `value` of the key `option` lies from low to high."""
    if not low <= value <= high:
        raise TopologyError(
            f"found {value}; allowed: a whole number from {low} to {high}", option=option
        )


class Topology:
    """Hosts, switches and links; see the module's text.

    `hosts`, `switches`: tuples of names. `links`: tuple of (a, b). `link_options`: one dict per
    link, with the keys of `links:` in a file that uses the topology (bandwidth, delay, ..., forward
    = a to b, backward), which override the file's; they are checked when it is used.
    `switch_options`: {switch: keys of `switches:`}, likewise. `failed`: indices of links that are
    known to be down. `forwarding`: switches that only forward and do nothing else. `servers`:
    {server: its hosts, by local rank}, of those that the topology names. `ps_hosts`: hosts that
    placements by word keep for servers. `tiers`: one word per link, for what it is in the network
    ("host", "fabric", or the topology's own words).
    """

    _hosts: dict[str, int]
    _switches: dict[str, int]
    _links: list[tuple[str, str]]
    _link_options: list[dict[str, Any]]
    _switch_options: dict[str, dict[str, Any]]
    _ports: dict[str, list[tuple[str, int, int]]]
    _servers: dict[str, list[str]]
    _server_of: dict[str, str]
    _ps_hosts: set[str]
    _tiers: list[str]
    _failed: frozenset[int]
    _forwarding: frozenset[str]
    _derived: dict[Hashable, Any]
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    # Made here and not in __init__, so that a subclass need not call super().__init__().
    def __new__(cls, *args: Any, **options: Any) -> Self:
        self = super().__new__(cls)
        self._hosts = {}
        self._switches = {}
        self._links = []
        self._link_options = []
        self._switch_options = {}
        self._ports = {}
        self._servers = {}
        self._server_of = {}
        self._ps_hosts = set()
        self._tiers = []
        self._failed = frozenset()
        self._forwarding = frozenset()
        self._derived = {}
        self._made_with = args, options
        return self

    def add_host(self, name: str, server: str = "", ps: bool = False) -> str:
        """Add a host; returns its name. server: the name of the machine that it is a part of, after
        the hosts that were added to it before; "": it is a machine by itself. ps: it is kept for
        a server, and others get it only if no other host is free. Raises TopologyError if a name is
        taken or malformed."""
        added = self._add(name, self._hosts, "host")
        if ps:
            self._ps_hosts.add(name)
        if server:
            if not isinstance(server, str) or not NAME.fullmatch(server):
                raise TopologyError(f"server {server!r}: {_ALLOWED_NAME}")
            self._servers.setdefault(server, []).append(name)
            self._server_of[name] = server
        return added

    def add_hosts(self, switch: str, count: int, per_server: int = 1) -> None:
        """Add `count` hosts of a switch, named h and the next number. per_server: how many
        neighbouring ones are a server (n1, n2, ...; the last one of a switch may have fewer); 1:
        each host is one by itself. Raises TopologyError."""
        within("per_server", per_server, 1, MAX_PER_SERVER)
        server = ""
        for place in range(count):
            if per_server > 1 and place % per_server == 0:
                server = f"n{len(self._servers) + 1}"
            self.add_link(self.add_host(f"h{len(self._hosts) + 1}", server), switch)

    def add_switch(self, name: str, **options: Any) -> str:
        """Add a switch; returns its name. Raises TopologyError if the name is taken or
        malformed."""
        added = self._add(name, self._switches, "switch")
        if options:
            self._switch_options[added] = dict(options)
        return added

    def add_link(self, a: str, b: str, tier: str = "", **options: Any) -> int:
        """Link two nodes that exist; returns the link's index. Parallel links are allowed between
        switches. tier: a word for what the link is in the network; "": "host" for a host's link,
        else "fabric". Raises TopologyError."""
        for name in (a, b):
            if name not in self._ports:
                raise TopologyError(
                    f"link {a}-{b}: there is no node {name!r}; add it before its links"
                )
        if a == b:
            raise TopologyError(f"link {a}-{b}: a node cannot be linked to itself")
        index = len(self._links)
        self._derived.clear()
        self._links.append((a, b))
        self._link_options.append(dict(options))
        self._tiers.append(tier or self.usual_tier(a, b))
        self._ports[a].append((b, index, 0))
        self._ports[b].append((a, index, 1))
        return index

    def _add(self, name: str, kind: dict[str, int], word: str) -> str:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise TopologyError(f"{word} {name!r}: {_ALLOWED_NAME}")
        if name in self._ports:
            raise TopologyError(f"{word} {name!r}: the name is already taken")
        if len(self._ports) == MAX_NODES:
            raise TopologyError(f"more than {MAX_NODES} nodes")
        kind[name] = len(kind) + 1
        self._derived.clear()
        self._ports[name] = []
        return name

    @property
    def hosts(self) -> tuple[str, ...]:
        return self.derived("hosts", lambda: tuple(self._hosts))

    @property
    def switches(self) -> tuple[str, ...]:
        return self.derived("switches", lambda: tuple(self._switches))

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._links)

    @property
    def link_options(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._link_options)

    @property
    def switch_options(self) -> dict[str, dict[str, Any]]:
        return {name: dict(options) for name, options in self._switch_options.items()}

    @property
    def servers(self) -> dict[str, tuple[str, ...]]:
        return {server: tuple(hosts) for server, hosts in self._servers.items()}

    @property
    def ps_hosts(self) -> frozenset[str]:
        return frozenset(self._ps_hosts)

    @property
    def tiers(self) -> tuple[str, ...]:
        return tuple(self._tiers)

    def usual_tier(self, a: str, b: str) -> str:
        """The tier of a link between two nodes that has no word of its own."""
        return "host" if self.is_host(a) or self.is_host(b) else "fabric"

    @property
    def failed(self) -> frozenset[int]:
        return self._failed

    @property
    def forwarding(self) -> frozenset[str]:
        return self._forwarding

    @property
    def made_with(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that the class was called with, by position and by name."""
        return self._made_with

    def is_host(self, name: str) -> bool:
        """True if there is a host of this name."""
        return name in self._hosts

    def server_of(self, host: str) -> str:
        """The server that a host is a part of; the host's own name if it is one by itself."""
        return self._server_of.get(host, host)

    def local_rank(self, host: str) -> int:
        """The place of a host among the hosts of its server, from 0."""
        server = self._server_of.get(host)
        return 0 if server is None else self._servers[server].index(host)

    def number(self, name: str) -> int:
        """The number of a host among the hosts, or of a switch among the switches, from 1."""
        return self._hosts[name] if name in self._hosts else self._switches[name]

    def ports(self, node: str) -> Mapping[int, tuple[str, int, int]]:
        """{port number: (neighbour, link index, end)}; `end` is 0 if `node` is the link's a, else
        1. Links that have failed keep their numbers and are left out."""
        return self.derived(("ports", node), lambda: self._ports_of(node))

    def _ports_of(self, node: str) -> dict[int, tuple[str, int, int]]:
        return {
            port: leads
            for port, leads in enumerate(self._ports[node], 1)
            if leads[1] not in self._failed
        }

    def port_to(self, node: str, neighbour: str) -> int:
        """The first port of a node that leads to a neighbour."""
        return self.derived(("ports to", node), lambda: self._ports_to(node))[neighbour][0]

    def ports_to(self, node: str, neighbour: str) -> tuple[int, ...]:
        """The ports of a node that lead to a neighbour over links that are up, in order."""
        return self.derived(("ports to", node), lambda: self._ports_to(node))[neighbour]

    def port_of(self, node: str, link: int) -> int:
        """The port of a node at one of its links."""
        return next(port for port, leads in enumerate(self._ports[node], 1) if leads[1] == link)

    def is_linked(self, node: str, neighbour: str) -> bool:
        """True if a link between two nodes is up."""
        return neighbour in self.derived(("ports to", node), lambda: self._ports_to(node))

    def _ports_to(self, node: str) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for port, (neighbour, _, _) in self.ports(node).items():
            found[neighbour] = (*found.get(neighbour, ()), port)
        return found

    def switch_of(self, host: str) -> str:
        """The switch that a host hangs on."""
        return self._ports[host][0][0]

    def failing(self, links: Iterable[int]) -> Topology:
        """A copy in which these links are down, and no others."""
        copy = self.plain()
        copy._failed = frozenset(links)
        return copy

    def only_forwarding(self, switches: Iterable[str]) -> Topology:
        """A copy in which these switches only forward, and no others."""
        copy = self.plain()
        copy._forwarding = frozenset(switches)
        return copy

    def derived(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """A value that follows from the topology, made once for each `key` as long as nothing is
        added."""
        if key not in self._derived:
            self._derived[key] = make()
        found: Derived = self._derived[key]
        return found

    def check(self, several_links: str = "") -> None:
        """Raises TopologyError unless every host has exactly one link, to a switch, no switch has
        more links than ports, and all nodes are connected. several_links: what can be done with a
        host that has several."""
        if not self._hosts or not self._switches:
            missing = "hosts" if not self._hosts else "switches"
            raise TopologyError(f"it has no {missing}; it needs at least one host and one switch")
        for host in self._hosts:
            neighbours = [neighbour for neighbour, _, _ in self._ports[host]]
            if len(neighbours) != 1:
                raise TopologyError(
                    f"host {host} has {len(neighbours)} links; a host of an experiment has exactly"
                    f" 1{several_links and f' ({several_links})'}"
                )
            if neighbours[0] in self._hosts:
                raise TopologyError(
                    f"host {host} is linked to host {neighbours[0]}, not to a switch"
                )
        for switch in self._switches:
            if len(self._ports[switch]) > MAX_PORTS:
                raise TopologyError(
                    f"switch {switch} has {len(self._ports[switch])} links; a switch has at most"
                    f" {MAX_PORTS} ports, whose numbers have 9 bits in P4's v1model; spread the"
                    " links over several switches"
                )
        for server in self._servers:
            if server in self._ports:
                raise TopologyError(f"{server} is the name of a node and of a server")
        start = next(iter(self._ports))
        reached, queue = {start}, deque([start])
        while queue:
            for neighbour, _, _ in self._ports[queue.popleft()]:
                if neighbour not in reached:
                    reached.add(neighbour)
                    queue.append(neighbour)
        lost = [name for name in self._ports if name not in reached]
        if lost:
            raise TopologyError(f"{lost[0]} is not connected to {start}; add the missing link")

    def plain(self) -> Topology:
        """A copy without the subclass: nothing but the data, so it can be compared and pickled."""
        copy = Topology()
        for host in self._hosts:
            copy.add_host(host, self._server_of.get(host, ""), host in self._ps_hosts)
        for switch in self._switches:
            copy.add_switch(switch, **self._switch_options.get(switch, {}))
        links = zip(self._links, self._tiers, self._link_options, strict=True)
        for (a, b), tier, options in links:
            copy.add_link(a, b, tier, **options)
        copy._failed = self._failed
        copy._forwarding = self._forwarding
        return copy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def _parts(self) -> tuple[Any, ...]:
        options = self.link_options, self.switch_options
        down = self.failed, self.forwarding
        hosts = self.hosts, self.servers, self.ps_hosts
        return *hosts, self.switches, self.links, *options, self.tiers, *down

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {len(self._hosts)} hosts, {len(self._switches)} switches,"
            f" {len(self._links)} links>"
        )


def host_ip(number: int) -> str:
    """IPv4 address of host `number` (from 1): 10.0.x.y."""
    return f"10.0.{number >> 8}.{number & 255}"


def host_mac(number: int) -> str:
    """MAC address of host `number` (from 1)."""
    return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def switch_ip(number: int) -> str:
    """IPv4 address of switch `number` (from 1): 10.255.x.y, its hosts' gateway."""
    return f"10.255.{number >> 8}.{number & 255}"


def switch_mac(number: int) -> str:
    """MAC address of switch `number` (from 1), the same on all its ports."""
    return f"02:00:00:01:{number >> 8:02x}:{number & 255:02x}"
