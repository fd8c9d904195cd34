"""Network files out of p4-utils' p4app.json.

The network file stands by itself. A p4app.json names hosts, switches and links, and a *strategy*
that gives hosts their addresses: all hosts in one subnet (`l2`), those of a switch in one
(`mixed`), each in its own (`l3`), or as the file says (`manual`). What p4-utils works out from that
(addresses, gateways, entries for ARP) is written out in the network file. Ports of a switch are
counted in the order of links, as p4-utils does, because command files name them by number.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from reprlib import repr as brief
from typing import NamedTuple

from p4fabric.base.config.data_files import read_text
from p4fabric.base.config.yaml_document import Inline
from p4fabric.base.errors import UserError
from p4fabric.netfile.json_parts import LARGEST, JsonObject, T, list_of, near, only

TOP = (
    *("program", "p4_src", "topology", "cli", "pcap_dump", "enable_log", "cpu_port"),
    *("switch", "switch_cli", "compiler", "options", "exec_scripts", "tasks_file"),
    *("switch_node", "host_node", "compiler_module", "client_module", "topo_module"),
    *("mininet_module", "topodb_module", "controller_module"),
)
# Only a choice of p4-utils' own parts, which others take the place of here.
TOOLS = ("switch", "switch_cli", "compiler", "options", "cli")
NOTES = {
    "pcap_dump": "run tcpdump in a host or switch (`exec`)",
    "enable_log": "the engine traces packets (p4engine/docs/trace.md)",
    "weight": "it is for routing by a controller of yours",
}
TOPOLOGY = (
    *("hosts", "switches", "links", "assignment_strategy", "default"),
    *("auto_arp_tables", "auto_gw_arp"),
    *("default_bw", "default_delay", "default_loss", "default_queue_length", "default_weight"),
)
LINK = ("bw", "delay", "loss", "queue_length", "max_queue_size", "weight", "port1", "port2")
HOST = ("ip", "mac", "gw", "defaultRoute", "commands")
SWITCH = ("cli_input", "p4_src", "program", "cpu_port")
STRATEGIES = ("l2", "mixed", "l3", "manual")


def program_of(data: JsonObject, path: Path) -> Path:
    """The P4 program of all switches. Raises UserError."""
    named = data.get("p4_src", data.get("program"))
    if named is None:
        raise UserError(f"{path}: which P4 program the switches run is not said: give --program")
    if not isinstance(named, str):
        raise UserError(f"{path}: found {brief(named)} as the P4 program; allowed: a file's name")
    return near(named, path)


class _Address(NamedTuple):
    """A host's: with prefix, MAC, gateway, and the MAC of the switch's port that is its gateway."""

    ip: ipaddress.IPv4Interface
    mac: str
    gateway: str | None
    port_mac: str


class P4App:
    """One p4app.json on its way into a network file that will lie in `folder`. `notes`: parts that
    were not taken over, a line each."""

    def __init__(self, data: JsonObject, path: Path, program: Path, folder: Path) -> None:
        self.data = data
        self.path = path
        self.program = program
        self.folder = folder
        self._notes: dict[str, str] = {}

    @property
    def notes(self) -> list[str]:
        return [f"not taken over: {key}: {why}" for key, why in self._notes.items()]

    def network(self) -> JsonObject:
        """The key `network` of the network file. Raises UserError for what cannot be imported."""
        only(self.data, TOP, self.path)
        self._check_top()
        topology = only(_get(self.data, "topology", dict, self.path), TOPOLOGY, self.path)
        hosts = _get(topology, "hosts", dict, self.path)
        switches = _get(topology, "switches", dict, self.path)
        for name, host in hosts.items():
            only(host, HOST, f"{self.path}: host {name}")
        for name, switch in switches.items():
            only(switch, SWITCH, f"{self.path}: switch {name}")
        links = [self._link(each, topology) for each in _get(topology, "links", list, self.path)]
        at = self._attached(links, hosts, switches)
        addresses = self._addresses(topology, hosts, at)
        return {
            "program": self._relative(self.program),
            "hosts": {
                name: self._host(name, host, topology, addresses) for name, host in hosts.items()
            },
            "switches": {name: self._switch(name, each) for name, each in switches.items()},
            "links": self._numbered(links, switches),
        }

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path.absolute(), self.folder)

    def _check_top(self) -> None:
        for key, value in self.data.items():
            if key in NOTES and value:
                self._notes[key] = NOTES[key]
            if key == "cpu_port" and value:
                raise UserError(
                    f"{self.path}: 'cpu_port' cannot be imported: a switch's CPU port is that of"
                    " P4Runtime here; give the switch `p4runtime` and `cpu_port` afterwards"
                )
            if key in ("exec_scripts", "tasks_file") and value:
                raise UserError(
                    f"{self.path}: {key!r} cannot be imported; use `start` and `run` of checks"
                )
            if key.endswith(("_node", "_module")) and value is not None:
                name = value.get("module_name", "p4utils.") if isinstance(value, dict) else ""
                if not isinstance(name, str) or not name.startswith("p4utils."):
                    raise UserError(
                        f"{self.path}: {key!r} cannot be imported: it is Python code of its own"
                    )

    # ---- links ----

    def _link(self, link: object, topology: JsonObject) -> tuple[str, str, JsonObject]:
        """Both ends and the settings of a link, with defaults."""
        if (
            not isinstance(link, list)
            or not 2 <= len(link) <= 3
            or not all(isinstance(end, str) for end in link[:2])
            or not (len(link) == 2 or isinstance(link[2], dict))
        ):
            raise UserError(
                f"{self.path}: {brief(link)} is not a link: two ends, and an object with settings"
            )
        defaults = _get(topology, "default", dict, self.path) if "default" in topology else {}
        kept = {key: value for key, value in defaults.items() if not key.startswith("auto_")}
        old = {key[len("default_") :]: topology[key] for key in topology if key[:8] == "default_"}
        given = link[2] if len(link) == 3 else {}
        only(given, LINK, f"{self.path}: link {link[:2]}")
        only(kept, LINK, f"{self.path}: default")
        return link[0], link[1], {**old, **kept, **given}

    def _numbered(
        self, links: list[tuple[str, str, JsonObject]], switches: JsonObject
    ) -> list[JsonObject]:
        """The links with the ports of their switches: the next number, unless the link has one."""
        last = dict.fromkeys(switches, 0)
        made = []
        for a, b, settings in links:
            ends = []
            for name, key in ((a, "port1"), (b, "port2")):
                if name not in switches:
                    ends.append(name)
                    continue
                port = settings.get(key, last[name] + 1)
                if isinstance(port, bool) or not isinstance(port, int):
                    raise UserError(f"{self.path}: link {[a, b]}: {key} {brief(port)} is no number")
                last[name] = max(last[name], port)
                ends.append(f"{name}-p{port}")
            made.append({"between": Inline(ends), **self._settings(settings, [a, b])})
        return made

    def _settings(self, settings: JsonObject, ends: list[str]) -> JsonObject:
        where = f"{self.path}: link {ends}"
        made: JsonObject = {}
        numbers = ("bw", "loss", "queue_length", "max_queue_size")
        for key in numbers:
            value = settings.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(f"{where}: {key} {brief(value)} is no number")
            if abs(value) > LARGEST:
                raise UserError(f"{where}: {key} {brief(value)} is too large")
        if settings.get("bw") is not None:
            made["bandwidth"] = f"{settings['bw']:g} Mbit/s"
        if settings.get("delay") is not None:
            try:
                delay = _latency(settings["delay"])
            except ValueError:
                raise UserError(f"{where}: {brief(settings['delay'])} is no delay") from None
            if delay != "0 ms":
                made["delay"] = delay
        if settings.get("loss"):
            made["loss"] = f"{settings['loss']:g} %"
        queue = settings.get("max_queue_size", settings.get("queue_length"))
        if queue is not None:
            made["queue"] = f"{queue:g} packets"
        if settings.get("weight", 1) != 1:
            self._notes["weight"] = NOTES["weight"]
        return made

    # ---- hosts ----

    def _attached(
        self,
        links: list[tuple[str, str, JsonObject]],
        hosts: JsonObject,
        switches: JsonObject,
    ) -> dict[str, str]:
        """The switch of each host, in the order of links."""
        at: dict[str, str] = {}
        for a, b, _ in links:
            for name in (a, b):
                if name not in hosts and name not in switches:
                    raise UserError(f"{self.path}: link {[a, b]}: there is no node {name}")
            host, other = (a, b) if a in hosts else (b, a)
            if host not in hosts:
                continue
            if other in hosts:
                raise UserError(f"{self.path}: link {[a, b]}: one end of a link is a switch")
            if host in at:
                raise UserError(f"{self.path}: host {host} has two links; hosts have one here")
            at[host] = other
        if missing := [name for name in hosts if name not in at]:
            raise UserError(f"{self.path}: host {missing[0]} has no link")
        return at

    def _addresses(
        self, topology: JsonObject, hosts: JsonObject, at: dict[str, str]
    ) -> dict[str, _Address]:
        strategy = topology.get("assignment_strategy", "mixed")
        if strategy not in STRATEGIES:
            allowed = ", ".join(STRATEGIES)
            raise UserError(
                f"{self.path}: assignment_strategy {brief(strategy)}; allowed: {allowed}"
            )
        taken: set[str] = set()
        found = {}
        for name, switch in at.items():
            if strategy == "manual":
                found[name] = self._manual(name, hosts[name])
                continue
            address = self._assigned(strategy, name, switch, taken)
            taken.add(str(address.ip.ip))
            mac = hosts[name].get("mac")
            found[name] = address._replace(mac=mac) if isinstance(mac, str) else address
        return found

    def _assigned(self, strategy: str, host: str, switch: str, taken: set[str]) -> _Address:
        number = _number(host)
        if strategy == "l2":
            network = ipaddress.IPv4Network("10.0.0.0/16")
            wanted, gateway = number, None
        elif strategy == "mixed":
            network = _subnet(_of_switch(switch, self.path))
            wanted, gateway = number, str(network[254])
        else:
            id_ = _of_switch(switch, self.path)
            if number is None or not 0 < number < 256 or not 0 < id_ < 256:
                raise UserError(f"{self.path}: host {host} at {switch}: l3 needs names h1 and s1")
            network = ipaddress.IPv4Network(f"10.{id_}.{number}.0/24")
            wanted, gateway = 2, str(network[1])
        last = network.num_addresses - 2 if gateway is None else 253
        free = (n for n in range(1, last + 1) if str(network[n]) not in taken)
        if wanted is None or not 0 < wanted <= last or str(network[wanted]) in taken:
            wanted = next(free, None)
            if wanted is None:
                raise UserError(f"{self.path}: the subnet of host {host} is full")
        ip = ipaddress.IPv4Interface(f"{network[wanted]}/{network.prefixlen}")
        return _Address(ip, _mac(ip, 0), gateway, _mac(ip, 1))

    def _manual(self, name: str, host: JsonObject) -> _Address:
        where = f"{self.path}: host {name}"
        text = _get(host, "ip", str, where)
        try:
            ip = ipaddress.IPv4Interface(text)
        except ValueError:
            raise UserError(f"{where}: {brief(text)} is no address such as 10.0.1.1/24") from None
        route = host.get("gw", host.get("defaultRoute"))
        gateway = str(route).split()[-1] if route else None
        mac = host.get("mac")
        return _Address(ip, mac if isinstance(mac, str) else _mac(ip, 0), gateway, _mac(ip, 1))

    def _host(
        self, name: str, host: JsonObject, topology: JsonObject, addresses: dict[str, _Address]
    ) -> JsonObject:
        own = addresses[name]
        commands = [*self._entries(name, topology, addresses)]
        commands += list_of(host, "commands", str, f"{self.path}: host {name}")
        made: JsonObject = {"ip": str(own.ip), "mac": own.mac}
        return made | ({"commands": commands} if commands else {})

    def _entries(
        self, name: str, topology: JsonObject, addresses: dict[str, _Address]
    ) -> Iterator[str]:
        """The commands for a host's route and its neighbours."""
        own = addresses[name]
        if own.gateway is not None:
            yield f"ip route add default via {own.gateway}"
            if _is_set(topology, "auto_gw_arp"):
                yield _neighbour(own.gateway, own.port_mac)
        if _is_set(topology, "auto_arp_tables"):
            for other, address in addresses.items():
                if other != name and address.ip.network == own.ip.network:
                    yield _neighbour(str(address.ip.ip), address.mac)

    # ---- switches ----

    def _switch(self, name: str, switch: JsonObject) -> JsonObject:
        where = f"{self.path}: switch {name}"
        if switch.get("cpu_port"):
            raise UserError(
                f"{where}: 'cpu_port' cannot be imported: a switch's CPU port is that of P4Runtime"
                " here; give the switch `p4runtime` and `cpu_port` afterwards"
            )
        made: JsonObject = {}
        named = switch.get("p4_src", switch.get("program"))
        if named is not None:
            if not isinstance(named, str):
                raise UserError(f"{where}: found {brief(named)} as a P4 program")
            made["program"] = self._relative(near(named, self.path))
        if switch.get("cli_input"):
            file = near(_get(switch, "cli_input", str, where), self.path)
            lines = read_text(file).splitlines()
            made["commands"] = [line for line in lines if line.split("#")[0].strip()]
        return made


def _is_set(topology: JsonObject, key: str) -> bool:
    """A switch of p4-utils that is on unless it is turned off; older files have texts."""
    value = topology.get(key, topology.get("default", {}).get(key, True))
    return str(value).lower() != "false"


def _neighbour(ip: str, mac: str) -> str:
    return f"ip neigh replace {ip} lladdr {mac} dev eth0 nud permanent"


def _number(name: str) -> int | None:
    """The number of a host that is called h1; None of others."""
    found = re.fullmatch(r"h(\d{1,5})", name)
    return int(found[1]) if found else None


def _of_switch(name: str, path: Path) -> int:
    numbers = re.findall(r"\d+", name)
    if not numbers or not 0 < int(numbers[-1]) < 1 << 16:
        raise UserError(f"{path}: switch {name} has no number in its name, such as s1")
    return int(numbers[-1])


def _subnet(id_: int) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(f"10.{id_ >> 8}.{id_ & 255}.0/24")


def _mac(ip: ipaddress.IPv4Interface, second: int) -> str:
    """The MAC address that p4-utils makes of an IP address: of a host, or of the port before it."""
    return ":".join(f"{byte:02x}" for byte in (0, second, *ip.ip.packed))


def _get(data: JsonObject, key: str, kind: type[T], where: object) -> T:
    """The value of a key that must be there. Raises UserError."""
    found = data.get(key) if isinstance(data, dict) else None
    if not isinstance(found, kind):
        raise UserError(f"{where}: there is no {key!r} as these topologies have it")
    return found


def _latency(value: object) -> str:
    """A link's latency with its unit: a number is milliseconds, text is what Mininet takes. Raises
    ValueError."""
    if isinstance(value, int | float):
        try:
            return f"{value:g} ms"
        except OverflowError:  # an integer of hundreds of digits
            raise ValueError("too large") from None
    text = str(value).strip()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(number) :].strip() or "us"  # as tc reads it
    if float(number) == 0:
        return "0 ms"
    return f"{number} {unit}"
