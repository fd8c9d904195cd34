"""Networks from files: GraphML, or a list of edges.

Both say the same things. A quantity carries its unit, as in an experiment. Nodes that are not said
to be a host or a switch are hosts if they have one neighbour and switches otherwise; a switch
aggregates without limit unless the file says otherwise; what has no capacity is unlimited.

    # a list of edges; names have no spaces
    switch s1 aggregation=9Gbit/s slots=1024      (aggregation: a rate, unlimited, or none)
    switch s4 failed                              is not there, nor are its links
    host ps ingress=9Gbit/s
    s1 s2 3Gbit/s                                 both directions
    s2 s3 3Gbit/s 1Gbit/s delay=10us              from s2 to s3, from s3 to s2
    s1 s3 3Gbit/s failed                          is not there
    w1 s1 3Gbit/s
    job a workers=w1,w2 ps=ps max_rate=9Gbit/s

In GraphML the same words are attributes: of nodes `kind` (host or switch), `aggregation`, `slots`,
`failed` (true), `ingress`, `worker_of` and `ps_of` (a job's name; workers are numbered in the order
of the file); of edges `capacity`, `back_capacity`, `delay`, `failed`. The edges of a directed graph
are one direction each.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx
from p4fabric.base.config.data_files import read_bytes, read_text
from p4fabric.base.config.units import RATE, TIME, Dimension, FieldError, parse
from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.routing.network import Host, Link, Network, PlanJob, Switch

GRAPHML = (".graphml", ".xml")
MAX_RATE = 100 * 10**12
MAX_TIME = 100 * 10**9

_SWITCH_KEYS = ("aggregation", "slots", "failed")
_HOST_KEYS = ("ingress",)
_NODE_KEYS = ("kind", *_SWITCH_KEYS, *_HOST_KEYS, "worker_of", "ps_of")
_EDGE_KEYS = ("capacity", "back_capacity", "delay", "failed")
_JOB_KEYS = ("workers", "ps", "max_rate")


@dataclass
class GraphFile:
    """The content of a file: nodes with their attributes, edges (a, b, attributes) in their order,
    jobs. Attributes are text. `directed`: an edge is one direction."""

    path: Path
    directed: bool = False
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    jobs: dict[str, dict[str, str]] = field(default_factory=dict)
    places: dict[Any, str] = field(default_factory=dict)

    def hosts(self) -> set[str]:
        """The nodes that are hosts."""
        neighbours: dict[str, set[str]] = {name: set() for name in self.nodes}
        for a, b, _ in self.edges:
            neighbours[a].add(b)
            neighbours[b].add(a)
        found = set()
        for name, attributes in self.nodes.items():
            kind = attributes.get("kind")
            if kind not in (None, "host", "switch"):
                found_kind = f"{self.where(name)}: found kind {kind!r}"
                hint = did_you_mean(kind, ("host", "switch"))
                raise UserError(sentence(found_kind, "allowed: host, switch", hint))
            if kind == "host" or kind is None and len(neighbours[name]) < 2:
                found.add(name)
        return found

    def where(self, key: Any) -> str:
        """The place of a node, an edge (its index) or a job, for errors."""
        return f"{self.path}{self.places.get(key, '')}"


def read_graph(path: Path) -> GraphFile:
    """Read a file: GraphML if its name ends in .graphml or .xml, else a list of edges.

    Raises UserError."""
    if path.suffix.lower() in GRAPHML:
        return _graphml(path)
    return _edge_list(path, read_text(path))


def _graphml(path: Path) -> GraphFile:
    try:
        graph = networkx.read_graphml(io.BytesIO(read_bytes(path)))
    except (ParseError, networkx.NetworkXError, LookupError, ValueError) as error:
        raise UserError(f"{path}: not a GraphML file ({error})") from None
    found = GraphFile(path, directed=graph.is_directed())
    for name, attributes in graph.nodes(data=True):
        found.nodes[str(name)] = _texts(attributes)
        found.places[str(name)] = f", node {name}"
    for number, (a, b, attributes) in enumerate(graph.edges(data=True)):
        found.edges.append((str(a), str(b), _texts(attributes)))
        found.places[number] = f", edge {a} {b}"
    for name, attributes in found.nodes.items():
        for key in ("worker_of", "ps_of"):
            for job in filter(None, attributes.get(key, "").split(",")):
                role = "workers" if key == "worker_of" else "ps"
                known = found.jobs.setdefault(job, {})
                known[role] = f"{known[role]},{name}" if role in known else name
                found.places["job", job] = f", job {job}"
    return found


def _texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    # Other tools' attributes (labels, positions) are none of our business.
    known = (*_NODE_KEYS, *_EDGE_KEYS)
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in attributes.items()
        if key in known
    }


def _edge_list(path: Path, text: str) -> GraphFile:
    found = GraphFile(path)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        place = f", line {number}"
        where = f"{path}{place}"
        if words[0] in ("switch", "host", "job") and len(words) > 1 and "=" not in words[1]:
            word, name = words[0], words[1]
            known = {"job": _JOB_KEYS, "switch": _SWITCH_KEYS, "host": _HOST_KEYS}[word]
            rest = ["failed=true" if each == "failed" else each for each in words[2:]]
            attributes = dict(_pairs(where, rest, known))
            if word == "job":
                if name in found.jobs:
                    raise UserError(f"{where}: there is a job {name} already")
                found.jobs[name] = attributes
                found.places["job", name] = place
                continue
            node = found.nodes.setdefault(name, {})
            if "kind" in node:
                raise UserError(f"{where}: {name} has a line of its own already")
            node |= {"kind": word, **attributes}
            found.places[name] = place
        elif len(words) == 1:
            raise UserError(
                f"{where}: found {line.strip()!r}; allowed: two nodes and what their link carries,"
                " such as `s1 s2 3Gbit/s`, or a line that begins with switch, host or job"
            )
        else:
            found.places[len(found.edges)] = place
            found.edges.append((words[0], words[1], _edge(where, words[2:])))
            for end in words[:2]:
                found.nodes.setdefault(end, {})
                found.places.setdefault(end, place)
    return found


def _edge(where: str, words: list[str]) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for word in words:
        if word == "failed":
            attributes["failed"] = "true"
        elif "=" in word:
            attributes |= dict(_pairs(where, [word], _EDGE_KEYS))
        elif "capacity" not in attributes:
            attributes["capacity"] = word
        elif "back_capacity" not in attributes:
            attributes["back_capacity"] = word
        else:
            raise UserError(f"{where}: found {word!r} after both capacities")
    return attributes


def _pairs(where: str, words: list[str], known: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or key not in known:
            allowed = f"allowed: {', '.join(f'{each}=...' for each in known)}"
            found = f"{where}: found {word!r}"
            raise UserError(sentence(found, allowed, did_you_mean(key, known)))
        yield key, value


def network_of(graph: GraphFile) -> tuple[Network, tuple[PlanJob, ...]]:
    """The network and the jobs that a file describes. Raises UserError."""
    hosts = graph.hosts()
    switches, host_list, failed = [], [], []
    for name, attributes in graph.nodes.items():
        where = graph.where(name)
        strange = set(attributes) & set(_SWITCH_KEYS if name in hosts else _HOST_KEYS)
        if strange:
            kind = "host" if name in hosts else "switch"
            raise UserError(f"{where}: {name} is a {kind} and has no {min(strange)}")
        if name in hosts:
            host_list.append(Host(name, _rate(where, attributes, "ingress")))
        elif is_failed(where, attributes):
            failed.append(name)
        else:
            switches.append(_switch(where, name, attributes))
    links: dict[tuple[str, str], Link] = {}
    for number, (a, b, attributes) in enumerate(graph.edges):
        where = graph.where(number)
        if a == b:
            raise UserError(f"{where}: {a} is linked to itself")
        if is_failed(where, attributes):
            failed.append(f"{a}-{b}")
        if is_failed(where, attributes) or a in failed or b in failed:
            continue
        there = _rate(where, attributes, "capacity")
        back = _rate(where, attributes, "back_capacity") if "back_capacity" in attributes else there
        delay_ns = _quantity(where, attributes, "delay", TIME, (0, MAX_TIME)) or 0
        directions = [Link(a, b, there, delay_ns)]
        if not graph.directed:
            directions.append(Link(b, a, back, delay_ns))
        for link in directions:
            if link.ends in links:
                raise UserError(f"{where}: {link.source} is linked to {link.target} already")
            links[link.ends] = link
    jobs = [_job(graph, name, attributes) for name, attributes in graph.jobs.items()]
    network = Network(
        tuple(switches), tuple(host_list), tuple(links.values()), failed=tuple(failed)
    )
    return network, tuple(jobs)


def is_failed(where: str, attributes: Mapping[str, str]) -> bool:
    """True if a switch or an edge is marked as failed. Raises UserError."""
    value = attributes.get("failed", "false").lower()
    if value not in ("true", "false"):
        raise UserError(f"{where}: found failed={value}; allowed: true, false")
    return value == "true"


def _switch(where: str, name: str, attributes: Mapping[str, str]) -> Switch:
    slots = attributes.get("slots")
    if slots is not None and not slots.isdecimal():
        raise UserError(f"{where}: found slots={slots}; allowed: a whole number from 0")
    if attributes.get("aggregation") == "none":
        return Switch(name, aggregates=False)
    rate = _rate(where, attributes, "aggregation", "none")
    return Switch(name, True, rate, None if slots is None else int(slots))


def _job(graph: GraphFile, name: str, attributes: Mapping[str, str]) -> PlanJob:
    where = graph.where(("job", name))
    for key, what in (("workers", "workers"), ("ps", "parameter server")):
        if not attributes.get(key):
            raise UserError(f"{where}: job {name} has no {what}")
    if "," in attributes["ps"]:
        raise UserError(f"{where}: job {name} has two parameter servers, {attributes['ps']}")
    workers = tuple(filter(None, attributes["workers"].split(",")))
    return PlanJob(name, workers, attributes["ps"], _rate(where, attributes, "max_rate"))


def _rate(where: str, attributes: Mapping[str, str], key: str, *words: str) -> int | None:
    """A rate above 0; None: unlimited. words: what else is allowed, for errors."""
    if attributes.get(key) == "unlimited":
        return None
    return _quantity(where, attributes, key, RATE, (1, MAX_RATE), "unlimited", *words)


def _quantity(
    where: str,
    attributes: Mapping[str, str],
    key: str,
    dimension: Dimension,
    limits: tuple[int, int],
    *words: str,
) -> int | None:
    if key not in attributes:
        return None
    try:
        return int(parse(attributes[key], dimension, *limits))
    except FieldError as error:
        allowed = ", or ".join((error.allowed, *words))
        message = str(FieldError(error.found, allowed, error.hint))
        raise UserError(f"{where}: {key}: {message}") from None
