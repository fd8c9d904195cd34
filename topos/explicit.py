"""Explicit: a network that the experiment file itself lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from p4fabric.base.topology import Topology, TopologyError


class Explicit(Topology):
    """The hosts, switches and links of three lists, numbered in their order.

    hosts: names of hosts; or mappings of `name`, of `server`, the name of the machine that the host
        is a rank of ([servers](#servers)), such as {name: h1, server: n1}, and of `ps`: true if
        workers get it only when no other host is free
    switches: names of switches; or mappings of `name` and keys of
        [switches](#switches), such as {name: s1, capacity: 10 Gbit/s}
    links: pairs of names; or mappings of `between` and keys of [links](#links),
        such as {between: [s1, s2], bandwidth: 1 Gbit/s}, and `tier`, a word for what the link is
    """

    def __init__(self, hosts: list, switches: list, links: list) -> None:
        for host in _members("hosts", hosts):
            with _at("hosts"):
                if isinstance(host, dict):
                    if not {"name"} <= host.keys() <= {"name", "server", "ps"}:
                        raise TopologyError("a mapping of a host has the keys name, server and ps")
                    if not isinstance(host.get("ps", False), bool):
                        raise TopologyError(f"found ps: {host['ps']!r}; allowed: true or false")
                    self.add_host(**host)
                else:
                    self.add_host(host)
        for switch in _members("switches", switches):
            options = dict(switch) if isinstance(switch, dict) else {"name": switch}
            if "name" not in options:
                raise TopologyError("a mapping of a switch needs the key name", option="switches")
            with _at("switches"):
                self.add_switch(options.pop("name"), **options)
        for number, link in enumerate(_members("links", links)):
            options = dict(link) if isinstance(link, dict) else {"between": link}
            ends = options.pop("between", None)
            if (
                not isinstance(ends, list)
                or len(ends) != 2
                or not all(isinstance(end, str) for end in ends)
            ):
                raise TopologyError(
                    f"member {number}: allowed: two names, such as [h1, s1], or a mapping with"
                    " between: [h1, s1]",
                    option="links",
                )
            with _at("links"):
                self.add_link(*ends, **options)


def listed(topology: Topology) -> dict[str, Any]:
    """The arguments of `Explicit` that make the same topology."""
    switches = [
        {"name": name, **topology.switch_options[name]} if name in topology.switch_options else name
        for name in topology.switches
    ]
    tiers = [
        {} if tier == topology.usual_tier(*ends) else {"tier": tier}
        for ends, tier in zip(topology.links, topology.tiers, strict=True)
    ]
    links = [
        {"between": list(ends), **tier, **options} if tier or options else list(ends)
        for ends, tier, options in zip(topology.links, tiers, topology.link_options, strict=True)
    ]
    in_server = {host: server for server, ranks in topology.servers.items() for host in ranks}
    kept = {host: True for host in topology.ps_hosts}
    hosts = []
    for host in topology.hosts:
        settings = {
            name: values[host]
            for name, values in (("server", in_server), ("ps", kept))
            if host in values
        }
        hosts.append({"name": host, **settings} if settings else host)
    return {"hosts": hosts, "switches": switches, "links": links}


def _members(option: str, value: object) -> Iterator[Any]:
    if not isinstance(value, list | tuple):
        raise TopologyError("allowed: a list", option=option)
    return iter(value)


@contextmanager
def _at(option: str) -> Iterator[None]:
    """A block whose errors are those of an option."""
    try:
        yield
    except TopologyError as error:
        raise TopologyError(str(error), option) from None
