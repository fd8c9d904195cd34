"""Infrastructures of InfraGraph, as YAML; the package `infragraph` expands them.

A device with components of the type xpu is a machine, and its xpus are ranks; one without xpus and
with network cards has a rank per card; one without both is a switch. The network cards of a machine
belong to its xpus in the order of both, and so do their links; a port that leads out of a machine
is a card, too, since a card may be a device of its own. A machine's switch stands for what connects
xpus alone: links between them, and switches that lead only to xpus and switches, such as
NVSwitches; one that leads to CPUs or cards is PCI. Where there is nothing of this kind, and not
every xpu has a card, it stands for PCI.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.base.program import pip_install
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
    kind = {
        name: str(attributes.get("type") or "untyped")
        for name, attributes in graph.nodes(data=True)
    }

    def leads_out(part: str) -> bool:
        return any(_machine(other) != _machine(part) for other in graph.neighbors(part))

    for name in graph.nodes:
        machines.setdefault(_machine(name), []).append(name)
    rank_of: dict[str, str] = {}  # of a component with links to the outside
    for machine, parts in machines.items():
        xpus = [part for part in parts if kind[part] == "xpu"]
        nics = [part for part in parts if kind[part] == "nic"]
        ranks = xpus or nics
        fabric.ranks |= dict.fromkeys(ranks, machine)
        if not ranks:
            fabric.switches[machine] = ""
            continue
        cards = [part for part in parts if kind[part] in ("nic", "port") and leads_out(part)]
        for place, card in enumerate(cards):
            rank_of[card] = (
                card if card in nics == ranks else ranks[place * len(ranks) // len(cards)]
            )
    inside = {each["name"]: _settings(each, fabric.notes) for each in data["devices"]}
    carded = {*rank_of.values(), *(rank for rank in fabric.ranks if leads_out(rank))}
    _add_inner(graph, kind, machines, inside, carded, fabric)
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
    alone = Counter(kind[name] for name, degree in graph.degree if not degree)
    fabric.notes += [f"{n} components of the type {what} have no link" for what, n in alone.items()]
    if others := sorted({*kind.values()} - {"xpu", "nic", "port", "switch"}):
        fabric.notes.append(f"not taken over: what is inside machines: {', '.join(others)}")
    return fabric


def _add_inner(
    graph: Any,
    kind: dict[str, str],
    machines: dict[str, list[str]],
    rates: dict[str, dict[str, Settings]],
    carded: set[str],
    fabric: Fabric,
) -> None:
    """Add a switch for each machine whose xpus are connected inside, and the xpus' links to it;
    their rates add up. rates: of links inside devices, {device: {link: settings}}. carded: ranks
    with links to the outside."""
    notes: dict[str, None] = {}
    for machine, parts in machines.items():
        xpus = [part for part in parts if kind[part] == "xpu"]
        inner = {
            part
            for part in parts
            if kind[part] == "switch"
            and {kind[n] for n in graph.neighbors(part)} <= {"xpu", "switch"}
        }
        ends = {xpu: {*graph.neighbors(xpu)} & {*xpus, *inner} for xpu in xpus}
        if len(xpus) < 2 or not any(ends.values()) and carded >= {*xpus}:
            continue
        switch, device = f"switch of {machine}", graph.nodes[xpus[0]]["device"]
        fabric.switches[switch] = machine
        for xpu in xpus:
            names = [graph.edges[xpu, each]["link"] for each in ends[xpu]]
            found = [rates[device].get(name, (None, 0)) for name in names]
            known = [rate for rate, _ in found if rate is not None]
            rate = sum(known) if known and len(known) == len(found) else None
            fabric.lines.append(Line(xpu, switch, rate, max((d for _, d in found), default=0)))
            if not any(ends.values()):
                notes[
                    f"not every xpu of device {device} has a card: a switch stands for its PCI"
                ] = None
            elif rate is None:
                notes[
                    f"device {device} gives the links of xpus to their switches no rate: they are"
                    " unlimited"
                ] = None
            if ends[xpu] & {*xpus}:
                notes[f"a switch stands for links between xpus of device {device}"] = None
    fabric.notes += notes


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
            f"{path}: an InfraGraph needs the package infragraph: {pip_install()} infragraph"
        ) from None
    service = InfraGraphService()
    try:
        made = Infrastructure()
        made.deserialize(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of components without links: see notes
            service.set_graph(made)
    except Exception as error:  # the package raises many kinds
        raise UserError(f"{path}: this is no valid InfraGraph: {error}") from None
    return service.get_networkx_graph()


def _machine(name: str) -> str:
    """`dgx.0` of `dgx.0.xpu.1`."""
    return ".".join(name.split(".")[:2])
