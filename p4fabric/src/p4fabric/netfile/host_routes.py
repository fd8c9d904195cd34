"""Routes and neighbours of a host, from the commands that set them.

In virtual time hosts have no kernel. What matters of these commands is the MAC address to which a
host sends packets for an IPv4 address: that of the neighbour, or of the gateway.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_IP = r"(?P<ip>\d{1,3}(?:\.\d{1,3}){3})"
_MAC = r"(?P<mac>(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2})"
_GATEWAY = (
    re.compile(rf"route add default gw {_IP}(?: (?:dev )?eth0)?"),
    re.compile(rf"ip route (?:add|replace) default via {_IP}(?: dev eth0)?(?: onlink)?"),
)
_NEIGHBOUR = (
    re.compile(rf"arp(?: -i eth0)? -s {_IP} {_MAC}"),
    re.compile(
        rf"ip neigh(?:bour)? (?:add|replace) {_IP} lladdr {_MAC} dev eth0(?: nud permanent)?"
    ),
)
KNOWN = (
    "route add default gw IP; ip route add default via IP; arp -s IP MAC; ip neigh add IP lladdr"
    " MAC dev eth0"
)


@dataclass
class Routes:
    """Routes of a host. `gateway`: an address, "": none. `neighbours`: MAC by address."""

    gateway: str = ""
    neighbours: dict[str, str] = field(default_factory=dict)

    def learn(self, command: str) -> bool:
        """Take note of a command; False: it is none of these."""
        command = " ".join(command.split())
        for pattern in _GATEWAY:
            if found := pattern.fullmatch(command):
                self.gateway = found["ip"]
                return True
        for pattern in _NEIGHBOUR:
            if found := pattern.fullmatch(command):
                self.neighbours[found["ip"]] = found["mac"]
                return True
        return False

    def mac_of(self, address: str, own: str) -> str | None:
        """The MAC address for packets to `address`, from a host with the address and prefix `own`;
        None: nothing says."""
        near = ipaddress.IPv4Address(address) in ipaddress.IPv4Interface(own).network
        if address in self.neighbours:
            return self.neighbours[address]
        return None if near or not self.gateway else self.neighbours.get(self.gateway)


def routes_of(commands: Iterable[str]) -> Routes:
    """Routes that these commands set, of which all are known."""
    routes = Routes()
    for command in commands:
        routes.learn(command)
    return routes
