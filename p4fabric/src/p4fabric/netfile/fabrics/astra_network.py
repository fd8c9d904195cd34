"""Networks of ASTRA-sim's analytical backend, as YAML:

    topology: [Switch, Ring]     a building block per dimension: Ring, FullyConnected or Switch
    npus_count: [8, 4]           NPUs along each dimension; NPU i has the digits of i, first first
    bandwidth: [50, 25]          of each link, GB/s
    latency: [500, 500]          of each link, ns

NPUs that differ in one digit alone are neighbours along that dimension: with a switch each has a
link to it, fully connected one to each other, in a ring one to the next and one to the last. NPUs
forward packets of others there, so one with several links has a switch here.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.netfile.fabrics.fabric import Fabric, Line

KINDS = ("Ring", "FullyConnected", "Switch")
KEYS = ("topology", "npus_count", "bandwidth", "latency")
MAX_NPUS = 65_000


def is_network(data: dict[str, Any]) -> bool:
    """True if the keys are those of such a file."""
    return {"topology", "npus_count"} <= data.keys()


def read(data: dict[str, Any], path: Path) -> Fabric:
    """The network of a file. Raises UserError."""
    for key in KEYS:
        if not isinstance(data.get(key), list):
            raise UserError(f"{path}: the key {key} is no list with a value per dimension")
    kinds, counts = data["topology"], data["npus_count"]
    if len({len(data[key]) for key in KEYS}) > 1 or not kinds:
        raise UserError(f"{path}: {', '.join(KEYS)} are of different lengths, or empty")
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"{path}: topology: {kind!r} is none of {', '.join(KINDS)}")
    if not all(type(count) is int and count > 0 for count in counts):
        raise UserError(f"{path}: npus_count: a count is a whole number above 0")
    if math.prod(counts) > MAX_NPUS:
        raise UserError(f"{path}: npus_count: {math.prod(counts)} NPUs; at most {MAX_NPUS}")
    fabric = Fabric()
    npus = list(itertools.product(*map(range, reversed(counts))))  # the first digit is the last
    for npu in npus:
        fabric.ranks[_name(npu)] = "machine " + "-".join(map(str, npu[:-1]))
    for dimension, kind in enumerate(kinds):
        rate = _number(data["bandwidth"][dimension], f"{path}: bandwidth", above=0)
        delay = _number(data["latency"][dimension], f"{path}: latency")
        _connect(fabric, npus, dimension, kind, (round(rate * 8 * 10**9), round(delay)))
    if ignored := sorted(data.keys() - {*KEYS}):
        fabric.notes.append(f"not taken over: {', '.join(map(str, ignored))}")
    return fabric


def _connect(
    fabric: Fabric,
    npus: list[tuple[int, ...]],
    dimension: int,
    kind: str,
    settings: tuple[int, int],
) -> None:
    place = -1 - dimension
    groups: dict[tuple[int, ...], list[str]] = {}
    for npu in npus:
        rest = tuple(digit for at, digit in enumerate(npu) if at != len(npu) + place)
        groups.setdefault(rest, []).append(_name(npu))
    for rest, members in groups.items():
        if kind == "Switch":
            switch = f"switch {dimension + 1} of {'-'.join(map(str, rest))}"
            fabric.switches[switch] = fabric.ranks[members[0]] if dimension == 0 else ""
            fabric.lines += [Line(member, switch, *settings) for member in members]
        elif kind == "FullyConnected":
            fabric.lines += [Line(*pair, *settings) for pair in itertools.combinations(members, 2)]
        elif len(members) > 1:
            last = [] if len(members) == 2 else [(members[-1], members[0])]
            pairs = [*itertools.pairwise(members), *last]
            fabric.lines += [Line(*pair, *settings) for pair in pairs]


def _name(npu: tuple[int, ...]) -> str:
    return "NPU " + "-".join(map(str, npu))


def _number(value: object, where: str, above: int = -1) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < 1e9:
        raise UserError(f"{where}: {value!r} is no number {'above' if above == 0 else 'from'} 0")
    return Fraction(str(value))
