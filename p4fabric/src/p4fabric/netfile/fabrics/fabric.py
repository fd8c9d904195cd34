"""A network of ranks, machines and switches as other simulators describe it, and the topology that
it becomes.

There a rank may have several links, and machines a switch inside, such as an NVSwitch. Here a host
has one link (p4fabric.base.topology), so

- the switches of a machine become one, with the sum of their rates;
- a rank with a link to its machine's switch becomes a host of that switch, and its other links,
  those of its network cards, become links of the machine's switch, as in the topology `rails`;
- any other rank with several links gets a switch of its own, by a link without limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from p4fabric.base.config.units import RATE, TIME, show
from p4fabric.base.config.yaml_document import Inline
from p4fabric.base.topology import Topology, host_ip, host_mac

IN_MACHINE, NIC, FABRIC = "scale_up", "nic", "fabric"


@dataclass(frozen=True)
class Line:
    """A link between two nodes, both directions alike. rate_bit_s: None without a limit.
    loss: share of packets that are lost, 0 to 0.99."""

    a: str
    b: str
    rate_bit_s: int | None = None
    delay_ns: int = 0
    loss: float = 0.0

    def settings(self) -> dict[str, Any]:
        """The keys of a link in a file."""
        made = {}
        if self.rate_bit_s is not None:
            made["bandwidth"] = show(self.rate_bit_s, RATE)
        if self.delay_ns:
            made["delay"] = show(self.delay_ns, TIME)
        if self.loss:
            made["loss"] = f"{self.loss * 100:.10g} %"
        return made


@dataclass
class Fabric:
    """`ranks`: {rank: its machine}, in the order of their numbers. `switches`: {switch: the machine
    that it is a part of, "" if of none}. `notes`: what the file says and this does not have, and
    how doubtful things were taken."""

    ranks: dict[str, str] = field(default_factory=dict)
    switches: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def topology_of(fabric: Fabric) -> tuple[Topology, list[str]]:
    """The topology, and notes on what became of nodes. Hosts are named h1, h2, ... in the order of
    ranks, machines with several ranks n1, n2, ..., switches s1, s2, ...: those of machines, those
    of ranks, then the others. Raises TopologyError."""
    fabric, notes = _merged(fabric)
    at, own, more = _attached(fabric)
    notes += more
    names = {rank: f"h{number}" for number, rank in enumerate(fabric.ranks, 1)}
    machines = _several(fabric.ranks.values())
    order = [*filter(fabric.switches.get, fabric.switches), *own]
    order += [switch for switch, machine in fabric.switches.items() if not machine]
    names |= {switch: f"s{number}" for number, switch in enumerate(order, 1)}
    made = Topology()
    for switch in order:
        made.add_switch(names[switch])
    for rank, machine in fabric.ranks.items():
        made.add_host(names[rank], machines.get(machine, ""))
    moved = {rank: switch for rank, (switch, _) in at.items()}
    for rank, (switch, line) in at.items():
        inside = fabric.switches.get(switch) in machines or switch in own
        tier = IN_MACHINE if inside else NIC
        made.add_link(names[rank], names[switch], tier, **(line.settings() if line else {}))
    held = {id(line) for _, line in at.values() if line}
    for line in fabric.lines:
        if id(line) not in held:
            of_rank = line.a in fabric.ranks or line.b in fabric.ranks
            a, b = (names[moved.get(end, end)] for end in (line.a, line.b))
            made.add_link(a, b, NIC if of_rank else FABRIC, **line.settings())
    made.check()
    return made, notes


def network_of(topology: Topology) -> dict[str, Any]:
    """Hosts, switches and links as a network file lists them. Hosts get an address each in one
    network, 10.0.0.0/8; there are no table entries."""
    hosts = {
        name: {"ip": f"{host_ip(number)}/8", "mac": host_mac(number)}
        for number, name in enumerate(topology.hosts, 1)
    }
    links = [
        {"between": Inline(ends), **settings}
        for ends, settings in zip(topology.links, topology.link_options, strict=True)
    ]
    return {"hosts": hosts, "switches": {name: {} for name in topology.switches}, "links": links}


def _merged(fabric: Fabric) -> tuple[Fabric, list[str]]:
    """The network with one switch for each machine, and a note if that changes it."""
    first: dict[str, str] = {}
    kept = {
        switch: first.setdefault(machine, switch) if machine else switch
        for switch, machine in fabric.switches.items()
    }
    if all(switch == one for switch, one in kept.items()):
        return fabric, []
    lines: dict[tuple[str, str], Line] = {}
    others = []
    for line in fabric.lines:
        a, b = (kept.get(end, end) for end in (line.a, line.b))
        if not any(fabric.switches.get(end) for end in (a, b)):
            others.append(line)
        elif a != b:
            before = lines.get((a, b), Line(a, b, 0))
            rates = before.rate_bit_s, line.rate_bit_s
            rate = None if None in rates else sum(filter(None, rates))
            delay = max(before.delay_ns, line.delay_ns)
            lines[a, b] = Line(a, b, rate, delay, max(before.loss, line.loss))
    switches = {one: fabric.switches[one] for one in dict.fromkeys(kept.values())}
    count = len(kept) - len(switches) + len(first)
    note = f"{count} switches inside machines are {len(first)}, with the sums of their rates"
    return Fabric(fabric.ranks, switches, [*lines.values(), *others]), [note]


def _attached(
    fabric: Fabric,
) -> tuple[dict[str, tuple[str, Line | None]], list[str], list[str]]:
    """{rank: (its switch, its link to it; None: one without limits)}, the switches that ranks get
    for themselves, and notes."""
    links: dict[str, list[Line]] = {rank: [] for rank in fabric.ranks}
    for line in fabric.lines:
        for end in (line.a, line.b):
            if end in links:
                links[end].append(line)
    at: dict[str, tuple[str, Line | None]] = {}
    own, shared = [], 0
    for rank, machine in fabric.ranks.items():
        ends = [(line.b if line.a == rank else line.a, line) for line in links[rank]]
        inside = [each for each in ends if fabric.switches.get(each[0]) == machine != ""]
        if inside:
            at[rank] = inside[0]
            shared += len(ends) > 1
        elif len(ends) == 1 and ends[0][0] in fabric.switches:
            at[rank] = ends[0]
        else:
            own.append(f"switch of {rank}")
            at[rank] = own[-1], None
    notes = []
    if shared:
        notes.append(f"links of network cards are links of the machines' switches ({shared} ranks)")
    if own:
        notes.append(f"{len(own)} ranks have several links, or none to a switch: each has a switch")
    return at, own, notes


def _several(machines: Iterable[str]) -> dict[str, str]:
    """Names of the machines that have several ranks."""
    counts: dict[str, int] = {}
    for machine in machines:
        counts[machine] = counts.get(machine, 0) + 1
    several = [machine for machine, count in counts.items() if machine and count > 1]
    return {machine: f"n{number}" for number, machine in enumerate(several, 1)}
