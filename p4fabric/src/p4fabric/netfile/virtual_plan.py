"""Checks of a network file with `runtime: virtual`, and its flows."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from p4fabric.base.config.lossless_settings import CREDITS, settings_of
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.problems import Problem
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.flow import Flow
from p4fabric.base.topology import Topology, host_mac
from p4fabric.netfile.host_routes import KNOWN, Routes, routes_of
from p4fabric.netfile.network_schema import Check, Net, NetworkFile
from p4fabric.netfile.virtual_schema import ALL, CONDITIONS, MAX_FLOWS, FlowEntry, condition

OF_KERNELS = {
    "ping": "a flow to a host with `answer`, and a check of this flow,",
    "run": "flows, or a host's `class`,",
    "start": "flows, or a host's `class`,",
}
VIRTUAL_KEYS = ("virtual", "flows", "readings", "changes")


def mac_of(net: Net, host: str) -> str:
    """A host's MAC address, as on Mininet."""
    return net.hosts[host].mac or host_mac(list(net.hosts).index(host) + 1)


def flows_of(file: NetworkFile) -> list[Flow[FlowEntry]]:
    """All flows of a file."""
    net = file.network
    found: list[Flow[FlowEntry]] = []
    for place, keys in enumerate(file.flows):
        pairs = _pairs(keys, tuple(net.hosts))
        for source, target in pairs:
            name = keys.name or f"flow-{place}"
            if len(pairs) > 1:
                name += f"-{source}" + (f"-{target}" if target else "")
            mac, address = (None, None) if keys.is_own else _destination(net, keys, source, target)
            found.append(Flow(len(found), place, name, keys, source, target, mac, address))
    return found


def _destination(
    net: Net, keys: FlowEntry, source: str, target: str
) -> tuple[str | None, str | None]:
    """MAC and IPv4 address to which a flow's packets go."""
    address, mac = keys.address, keys.mac
    if address is None and target:
        address = net.hosts[target].ip.partition("/")[0]
    if mac is None and address is not None:
        routes = routes_of(net.hosts[source].commands)
        mac = routes.mac_of(address, net.hosts[source].ip)
    if mac is None and target:
        mac = mac_of(net, target)
    return mac, address


def _pairs(keys: FlowEntry, hosts: tuple[str, ...]) -> list[tuple[str, str]]:
    sources = hosts if keys.sources == (ALL,) else keys.sources
    if keys.targets is None:
        return [(source, "") for source in sources]
    targets = hosts if keys.targets == (ALL,) else keys.targets
    return [(source, target) for source in sources for target in targets if source != target]


class VirtualProblems:
    """The problems of a file with its runtime: of keys that it cannot honour, and across keys."""

    def __init__(self, file: NetworkFile, topology: Topology) -> None:
        self.file = file
        self.net = file.network
        self.topology = topology
        self.names: tuple[str, ...] | None = None  # of flows, None: not known

    def found(self) -> Iterator[Problem]:
        """All of them; the file's other sections are sound."""
        if self.file.runtime == "mininet":
            yield from self._on_mininet()
            return
        for name, host in self.net.hosts.items():
            where: KeyPath = ("network", "hosts", name)
            routes = Routes()
            for place, command in enumerate(host.commands):
                if not routes.learn(command):
                    yield Problem(
                        (*where, "commands", place),
                        "a host has no shell in virtual time; of commands, these are understood:"
                        f" {KNOWN}; give the host flows, `answer` or a `class` for what it does",
                    )
            if host.class_ is not None and host.answer is not None:
                yield Problem((*where, "answer"), "a host with a `class` answers by itself")
            try:
                ipaddress.IPv4Interface(host.ip)
            except ValueError:
                yield Problem((*where, "ip"), f"found {host.ip!r}; no address has such numbers")
                return
        for name, switch in self.net.switches.items():
            if switch.p4runtime is not None:
                yield Problem(
                    ("network", "switches", name, "p4runtime"),
                    "controllers need a real clock; take it out, and give entries, commands, or"
                    " `changes` at given times; or take `runtime: virtual` out",
                )
        yield from self._of_lossless_links()
        yield from self._of_flows()
        yield from self._of_switches()
        for place, check in enumerate(self.file.checks):
            yield from self._of_check(("checks", place), check)

    def _on_mininet(self) -> Iterator[Problem]:
        alone = "means something in virtual time alone; add `runtime: virtual`, or take it out"
        for key in VIRTUAL_KEYS:
            if key in self.file.model_fields_set:
                yield Problem((key,), alone)
        if settings_of(self.net.lossless) is not None:
            yield Problem(("network", "lossless"), alone)
        for name, host in self.net.hosts.items():
            for key, value in (("answer", host.answer), ("class", host.class_)):
                if value is not None:
                    yield Problem(("network", "hosts", name, key), alone)
        for place, check in enumerate(self.file.checks):
            for key in CONDITIONS:
                if given(check, key):
                    yield Problem(("checks", place, key), alone)

    def _of_lossless_links(self) -> Iterator[Problem]:
        given = settings_of(self.net.lossless)
        if given is None:
            return
        for number, link in enumerate(self.net.links):
            place = ("network", "links", number)
            if link.bandwidth_bps is None:
                yield Problem((*place, "bandwidth"), "is missing; pauses are counted in it")
            if link.reorder or link.loss and given.control == CREDITS:
                key = "reorder" if link.reorder else "loss"
                yield Problem((*place, key), f"allowed: 0 with lossless links ({given.control})")
        for name, switch in self.net.switches.items():
            if switch.priority_queues > 1:
                at = ("network", "switches", name, "priority_queues")
                yield Problem(at, "allowed: 1 with lossless links, which have one class here")

    def _of_flows(self) -> Iterator[Problem]:
        hosts, sound = self.topology.hosts, True
        for place, entry in enumerate(self.file.flows):
            for key, names in (("from", entry.sources), ("to", entry.targets or ())):
                for name in names:
                    if name not in hosts and name != "all":
                        sound = False
                        message = sentence(f"there is no host {name}", did_you_mean(name, hosts))
                        yield Problem(("flows", place, key), message)
                    elif key == "from" and name != "all" and self.net.hosts[name].class_:
                        sound = False
                        message = f"{name} is a `class`, which sends by itself; take one of both"
                        yield Problem(("flows", place, key), message)
            if (
                entry.targets == entry.sources
                and len(entry.sources) == 1
                and "all" not in (entry.sources)
            ):
                sound = False
                yield Problem(("flows", place, "to"), f"{entry.sources[0]} cannot send to itself")
            if entry.start_ns >= self.file.virtual.duration_ns:
                yield Problem(
                    ("flows", place, "start"),
                    "the flow begins after the end of the run; give virtual.duration a longer time",
                )
        if not sound:
            return
        flows = flows_of(self.file)
        if len(flows) > MAX_FLOWS:
            yield Problem(("flows",), f"found {len(flows)} flows; allowed: {MAX_FLOWS}")
        seen: set[str] = set()
        for flow in flows:
            place = flow.place
            if flow.name in seen:
                yield Problem(("flows", place, "name"), f"there are two flows {flow.name}")
            seen.add(flow.name)
            if not flow.keys.is_own and flow.mac is None:
                yield Problem(
                    ("flows", place, "mac"),
                    "the destination's MAC address is missing: the sender's commands name no"
                    " gateway, and there is no receiver `to`",
                )
            if flow.keys.has_ends and flow.target and self.net.hosts[flow.target].class_:
                message = f"{flow.target} is a `class`, which does not know the model of TCP"
                yield Problem(("flows", place, "to"), message)
        self.names = tuple(flow.name for flow in flows)
        for host, settings in self.net.hosts.items():
            for place, name in enumerate((settings.answer and settings.answer.flows) or ()):
                if name not in self.names:
                    message = sentence(f"there is no flow {name}", did_you_mean(name, self.names))
                    yield Problem(("network", "hosts", host, "answer", "flows", place), message)

    def _of_switches(self) -> Iterator[Problem]:
        switches = self.topology.switches
        for key, entries in (("readings", self.file.readings), ("changes", self.file.changes)):
            for place, each in enumerate(entries):
                word = "of" if key == "readings" else "on"
                name = getattr(each, word)
                if name is not None and name not in switches:
                    message = sentence(f"there is no switch {name}", did_you_mean(name, switches))
                    yield Problem((key, place, word), message)
        for place, change in enumerate(self.file.changes):
            if change.link is not None and not any(
                set(change.link) == set(ends) for ends in self.topology.links
            ):
                message = f"there is no link between {change.link[0]} and {change.link[1]}"
                yield Problem(("changes", place, "link"), message)

    def _of_check(self, path: KeyPath, check: Check) -> Iterator[Problem]:
        for key, instead in OF_KERNELS.items():
            if getattr(check, key) is not None:
                yield Problem(
                    (*path, key),
                    f"`{key}` needs hosts with a kernel, which virtual time has not; take"
                    f" {instead} or take `runtime: virtual` out",
                )
                return
        kinds = [key for key in CONDITIONS if given(check, key)]
        if len(kinds) != 1:
            yield Problem(path, f"a check has one of the keys {', '.join(CONDITIONS)}")
            return
        kind = kinds[0]
        every = {key for keys in CONDITIONS.values() for key in keys}
        wanted = {key for key in every if condition(check, key) is not None}
        if not wanted & set(CONDITIONS[kind]):
            listed = ", ".join(CONDITIONS[kind])
            yield Problem(path, f"what must hold of the {kind} is missing; one or more of {listed}")
        for key in sorted(wanted - set(CONDITIONS[kind])):
            yield Problem((*path, key), f"`{key}` does not go with `{kind}`")
        if kind == "flow" and self.names is not None and check.flow not in self.names:
            hint = did_you_mean(str(check.flow), self.names)
            yield Problem((*path, "flow"), sentence(f"there is no flow {check.flow}", hint))
        if kind in ("register", "counter"):
            if check.of not in self.topology.switches:
                what = "needs its switch: `of`" if check.of is None else f"there is no {check.of}"
                yield Problem((*path, "of"), what)
        elif check.of is not None:
            yield Problem((*path, "of"), f"`of` does not go with `{kind}`")
        if kind == "port":
            switch = str(check.port).partition("-")[0]
            if switch not in self.topology.switches:
                yield Problem((*path, "port"), f"there is no switch {switch}")


def given(check: Check, key: str) -> bool:
    """True if a check has one of the keys of CONDITIONS."""
    return getattr(check, "register_" if key == "register" else key) is not None
