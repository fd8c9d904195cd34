"""Topologies of SimAI (and of ASTRA-sim's ns-3 backend where it has the same six columns), as text:

    18 8 1 9 24 H100            nodes, GPUs per server, NVSwitches, other switches, links, GPU type
    8 9 10 11 12 13 14 15 16 17   the numbers of the switches, NVSwitches first
    0 8 2880Gbps 0.000025ms 0     a link: its ends, rate, delay, share of packets that are lost
    ...

Nodes that are no switches are GPUs, in servers of equal size by their numbers.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from p4fabric.base.config.units import decimal
from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology
from p4fabric.netfile.fabrics.fabric import IN_MACHINE, Fabric, Line

MAX_NODES = 65_000
_HEAD = re.compile(r"\s*\d+\s+\d+\s+\d+\s+\d+\s+\d+(\s+\S+)?\s*$")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)(bps|Bps)")
_DELAY = re.compile(r"(\d+(?:\.\d+)?(?:[eE]-?\d+)?)(ns|us|ms|s)")
_POWERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMES_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def is_topology(text: str) -> bool:
    """True if the first line is that of such a file."""
    first = text.lstrip().split("\n", 1)[0]
    return bool(_HEAD.match(first))


def read(text: str, path: Path) -> Fabric:
    """The network of a file. Raises UserError."""
    rows = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
    rows = [(number, words) for number, words in rows if words]
    nodes, per_server, nv, others, links = (int(word) for word in rows[0][1][:5])
    if nodes > MAX_NODES:
        raise UserError(f"{path}, line {rows[0][0]}: {nodes} nodes; at most {MAX_NODES}")
    if not nv + others:
        rows.insert(1, (2, []))  # an empty line
    if len(rows) < 2:
        raise UserError(f"{path}: the second line, with the switches' numbers, is missing")
    line, words = rows[1]
    numbers = [_whole(word, nodes, f"{path}, line {line}") for word in words]
    if len({*numbers}) != nv + others:
        raise UserError(
            f"{path}, line {line}: {len({*numbers})} switches, but the first line says"
            f" {nv} + {others}"
        )
    gpus = [number for number in range(nodes) if number not in {*numbers}]
    if per_server < 1 or len(gpus) % per_server:
        raise UserError(f"{path}, line 1: {len(gpus)} GPUs cannot be in servers of {per_server}")
    fabric = Fabric()
    machines = {gpu: f"server {place // per_server}" for place, gpu in enumerate(gpus)}
    fabric.ranks = {str(gpu): machines[gpu] for gpu in gpus}
    if len(rows[2:]) != links:
        raise UserError(f"{path}: {len(rows[2:])} links, but the first line says {links}")
    read = [_link(words, nodes, f"{path}, line {line}") for line, words in rows[2:]]
    fabric.switches = _switches(numbers, nv, read, machines, path)
    fabric.lines = read
    if len(rows[0][1]) > 5:
        fabric.notes.append(f"not taken over: the type of the GPUs, {rows[0][1][5]}")
    return fabric


def _switches(
    numbers: list[int], nv: int, lines: list[Line], machines: dict[int, str], path: Path
) -> dict[str, str]:
    """{switch: its machine}; an NVSwitch is a part of the one whose GPUs it has."""
    at: dict[str, Counter[str]] = {str(number): Counter() for number in numbers[:nv]}
    for line in lines:
        for switch, gpu in ((line.a, line.b), (line.b, line.a)):
            if switch in at and int(gpu) in machines:
                at[switch][machines[int(gpu)]] += 1
    several = [switch for switch, found in at.items() if len(found) > 1]
    if several:
        raise UserError(f"{path}: NVSwitch {several[0]} has GPUs of several servers")
    return {
        str(number): next(iter(at.get(str(number), ())), "")
        for number in numbers
        if str(number) not in at or at[str(number)]
    }


def _link(words: list[str], nodes: int, where: str) -> Line:
    if len(words) != 5:
        raise UserError(f"{where}: a link has two ends, a rate, a delay and a share of losses")
    rate, delay = _RATE.fullmatch(words[2]), _DELAY.fullmatch(words[3])
    if not rate:
        raise UserError(f"{where}: {words[2]} is no rate such as 400Gbps")
    if not delay:
        raise UserError(f"{where}: {words[3]} is no delay such as 0.0005ms")
    bits = Fraction(rate[1]) * _POWERS[rate[2]] * (8 if rate[3] == "Bps" else 1)
    try:
        loss = float(words[4])
    except ValueError:
        loss = -1.0
    if not 0 <= loss <= 0.99:
        raise UserError(f"{where}: {words[4]} is no share of lost packets from 0 to 0.99")
    a, b = (str(_whole(word, nodes, where)) for word in words[:2])
    return Line(a, b, round(bits), round(Fraction(delay[1]) * _TIMES_NS[delay[2]]), loss)


def _whole(word: str, nodes: int, where: str) -> int:
    if not word.isdecimal() or int(word) >= nodes:
        raise UserError(f"{where}: {word} is no node from 0 to {nodes - 1}")
    return int(word)


def text_of(topology: Topology, lines: list[Line]) -> str:
    """The file of a topology, whose links `lines` describes, by names. Uplinks of a machine's
    switch become those of its ranks, in turn, and those of a rank's own switch the rank's, as
    `topology_of` moves them. Raises UserError."""
    own = _own_switches(topology, lines)
    lines = [
        replace(line, a=own.get(line.a, line.a), b=own.get(line.b, line.b))
        for line in lines
        if own.get(line.a) != line.b and own.get(line.b) != line.a
    ]
    sizes = {len(ranks) for ranks in topology.servers.values()} or {1}
    if topology.servers and sum(map(len, topology.servers.values())) < len(topology.hosts):
        sizes.add(1)
    if len(sizes) > 1:
        raise UserError("a topology of SimAI has servers of one size; these are of several")
    inner: dict[str, tuple[str, ...]] = {}
    for ranks in topology.servers.values():
        switch, link, _ = topology.ports(ranks[0])[1]
        if topology.tiers[link] == IN_MACHINE and switch not in own:
            inner[switch] = ranks
    switches = [*inner, *(name for name in topology.switches if name not in {*inner, *own})]
    ordered = [rank for ranks in topology.servers.values() for rank in ranks] or topology.hosts
    number = {name: str(place) for place, name in enumerate([*ordered, *switches])}
    head = [len(number), *sizes, len(inner), len(switches) - len(inner), len(lines), "GPU"]
    rows = [" ".join(map(str, head)), " ".join(number[name] for name in switches)]
    turns = {switch: itertools.cycle(ranks) for switch, ranks in inner.items()}
    for line in lines:
        if line.rate_bit_s is None:
            found = f"link {line.a}-{line.b}"
            raise UserError(f"{found}: SimAI needs a bandwidth for each link; give it one")
        ends = [line.a, line.b]
        if not any(topology.is_host(end) for end in ends):
            ends = [next(turns[end]) if end in turns else end for end in ends]
        rate = f"{decimal(Fraction(line.rate_bit_s, 10**9))}Gbps"
        delay = f"{decimal(Fraction(line.delay_ns, 10**6))}ms"
        rows.append(f"{number[ends[0]]} {number[ends[1]]} {rate} {delay} {line.loss:.10g}")
    return "\n".join(rows) + "\n"


def _own_switches(topology: Topology, lines: list[Line]) -> dict[str, str]:
    """{switch: its only host}, of those that a host has for several links: the host's link to it
    has no limits."""
    found: dict[str, str] = {}
    for line in lines:
        host, switch = sorted((line.a, line.b), key=topology.is_host, reverse=True)
        if topology.is_host(host) and line == Line(line.a, line.b):
            ports = topology.ports(switch).values()
            if sum(topology.is_host(other) for other, _, _ in ports) == 1:
                found[switch] = host
    return found
