"""Infrastructures of InfraGraph, as YAML; the package `infragraph` expands them.

A device with components of the type xpu is a machine, and its xpus are ranks; one without xpus and
with network cards has a rank per card; one without both is a switch. The network cards of a machine
belong to its xpus in the order of both, and so do their links. A machine's switch stands for all
components of the type switch that xpus are linked to and CPUs are not, such as NVSwitches: what
xpus share with CPUs is PCI.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.netfile.fabrics.fabric import Fabric, Line

_GIGABITS = re.compile(r"\b\d*\s*(gbps|gbit/s|gb/s|gigabits?)\b")
_UNITS = {"gigabits_per_second": 10**9, "gigabytes_per_second": 8 * 10**9}
_TIMES_NS = {"ns": 1, "us": 10**3, "ms": 10**6}
Settings = tuple["int | None", int]  # rate in bit/s, or None if the file has none; delay in ns


def is_infrastructure(data: dict[str, Any]) -> bool:
    """True if the keys are those of such a file."""
    return {"devices", "instances"} <= data.keys()


def read(data: dict[str, Any], path: Path) -> Fabric:
    """The network of a file. Raises UserError, also if the package is missing."""
    graph = _graph(data, path)
    fabric = Fabric()
    machines: dict[str, list[str]] = {}
    kind = {name: str(attributes.get("type")) for name, attributes in graph.nodes(data=True)}
    for name in graph.nodes:
        machines.setdefault(_machine(name), []).append(name)
    rank_of: dict[str, str] = {}  # of a component with links to the outside
    for machine, parts in machines.items():
        xpus = [part for part in parts if kind[part] == "xpu"]
        cards = [part for part in parts if kind[part] == "nic"]
        ranks = xpus or cards
        fabric.ranks |= dict.fromkeys(ranks, machine)
        if not ranks:
            fabric.switches[machine] = ""
            continue
        for place, card in enumerate(cards):
            rank_of[card] = ranks[place * len(ranks) // len(cards)]
    inside = {each["name"]: _settings(each, fabric.notes) for each in data["devices"]}
    _add_inner(graph, kind, machines, inside, fabric)
    rates, ignored = _settings(data, fabric.notes), Counter[str]()
    for a, b, attributes in graph.edges(data=True):
        if _machine(a) == _machine(b):
            continue
        ends = [rank_of.get(end, end if end in fabric.ranks else _machine(end)) for end in (a, b)]
        if all(end in fabric.ranks or end in fabric.switches for end in ends):
            rate, delay = rates.get(str(attributes.get("link")), (None, 0))
            fabric.lines.append(Line(ends[0], ends[1], rate, delay))
        else:
            ignored[f"{kind[a]} to {kind[b]}"] += 1
    fabric.notes += [f"not taken over: {n} links, {what}" for what, n in ignored.items()]
    if others := sorted({*kind.values()} - {"xpu", "nic", "port", "switch"}):
        fabric.notes.append(f"not taken over: what is inside machines: {', '.join(others)}")
    return fabric


def _add_inner(
    graph: Any,
    kind: dict[str, str],
    machines: dict[str, list[str]],
    rates: dict[str, dict[str, Settings]],
    fabric: Fabric,
) -> None:
    """Add a switch for each machine that has some for xpus alone, and the xpus' links to it; their
    rates add up. rates: of links inside devices, {device: {link: settings}}."""
    unlimited = set()
    for machine, parts in machines.items():
        inner = {
            part
            for part in parts
            if kind[part] == "switch"
            and any(kind[other] == "xpu" for other in graph.neighbors(part))
            and all(kind[other] != "cpu" for other in graph.neighbors(part))
        }
        xpus = [part for part in parts if kind[part] == "xpu"]
        if len(xpus) < 2 or not inner:
            continue
        switch = f"switch of {machine}"
        fabric.switches[switch] = machine
        for xpu in xpus:
            device = graph.nodes[xpu]["device"]
            names = [graph.edges[xpu, each]["link"] for each in inner & {*graph.neighbors(xpu)}]
            found = [rates[device].get(name, (None, 0)) for name in names]
            known = [rate for rate, _ in found if rate is not None]
            rate = sum(known) if known and len(known) == len(found) else None
            fabric.lines.append(Line(xpu, switch, rate, max((d for _, d in found), default=0)))
            unlimited |= {device} if rate is None else set()
    fabric.notes += [
        f"device {device} gives the links of xpus to their switches no rate: they are unlimited"
        for device in sorted(unlimited)
    ]


def _settings(data: dict[str, Any], notes: list[str]) -> dict[str, Settings]:
    """{link: settings} of the links of a device, or of the whole."""
    made: dict[str, Settings] = {}
    for link in data.get("links") or []:
        name = link["name"]
        physical = link.get("physical") or {}
        bandwidth, latency = physical.get("bandwidth") or {}, physical.get("latency") or {}
        made[name] = _first(bandwidth, _UNITS), _first(latency, _TIMES_NS) or 0
        said = f"{name} {link.get('description') or ''}".lower()
        if bandwidth.get("gigabytes_per_second") and _GIGABITS.search(said):
            notes.append(
                f"link {name}: its text says gigabits and its key gigabytes per second; the key"
                f" counts: {bandwidth['gigabytes_per_second']} GB/s"
            )
        if bandwidth.get("gigatransfers_per_second"):
            notes.append(f"not taken over: the rate of link {name}, gigatransfers per second")
    return made


def _first(data: dict[str, Any], units: dict[str, int]) -> int | None:
    """The first of the values that there are, in the unit whose powers are given."""
    found = (round(Fraction(str(data[unit])) * by) for unit, by in units.items() if data.get(unit))
    return next(found, None)


def _graph(data: dict[str, Any], path: Path) -> Any:
    """A networkx graph of all components."""
    try:
        from infragraph import Infrastructure
        from infragraph.infragraph_service import InfraGraphService
    except ImportError:
        raise UserError(
            f"{path}: reading an InfraGraph needs the package infragraph: pip install infragraph"
        ) from None
    service = InfraGraphService()
    try:
        made = Infrastructure()
        made.deserialize(data)
        service.set_graph(made)
    except Exception as error:  # the package raises many kinds
        raise UserError(f"{path}: this is no valid InfraGraph: {error}") from None
    return service.get_networkx_graph()


def _machine(name: str) -> str:
    """`dgx.0` of `dgx.0.xpu.1`."""
    return ".".join(name.split(".")[:2])
