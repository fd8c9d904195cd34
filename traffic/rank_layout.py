"""Neighbours of ranks in the dimensions of parallelism, and programs in which all
ranks of a pipeline stage do the same.

Megatron-LM's order of ranks, the fastest dimension first: tp, cp, ep, dp, pp. A *template* is the
graph of a stage. Its nodes name a kind of group (`tp`), and its transfers a dimension and a
distance in it. A rank's graph has the group that the rank belongs to, and the rank at that
distance. Nodes that are equal are one object, and a rank's graph is made when it is asked for, so a
program of thousands of ranks stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.rank_graph import RECV, SEND, Node, Program

DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")
# Kinds of groups: the dimensions in which their ranks differ.
GROUPS = {
    "tp": ("tp",),
    "cp": ("cp",),
    "ep": ("ep",),
    "dp": ("cp", "ep", "dp"),  # they hold the same parameters, except of experts
    "dp_ep": ("cp", "dp"),  # they hold the same experts
    "ends": ("pp",),  # the first and the last stage, which share the embedding
}


@dataclass(frozen=True)
class Layout:
    """The sizes of the dimensions. `dp`: replicas with the same experts, so `ep` times `dp`
    replicas of everything else."""

    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1

    @property
    def ranks(self) -> int:
        return math.prod(self.size(each) for each in DIMENSIONS)

    def size(self, dimension: str) -> int:
        return int(getattr(self, dimension))

    def group_size(self, kind: str) -> int:
        """Number of ranks of a kind's groups."""
        if kind == "ends":
            return min(self.pp, 2)
        return math.prod(self.size(each) for each in GROUPS[kind])

    def stride(self, dimension: str) -> int:
        """Distance of ranks that are neighbours in a dimension."""
        before = DIMENSIONS[: DIMENSIONS.index(dimension)]
        return math.prod(self.size(each) for each in before)

    def place(self, rank: int, dimension: str) -> int:
        """Place of a rank in a dimension."""
        return rank // self.stride(dimension) % self.size(dimension)

    def neighbour(self, rank: int, dimension: str, distance: int) -> int:
        """The rank at a distance in a dimension, which is a ring."""
        place, size = self.place(rank, dimension), self.size(dimension)
        return rank + ((place + distance) % size - place) * self.stride(dimension)

    def group_of(self, rank: int, kind: str) -> tuple[int, ...]:
        """The ranks of a rank's group, in their order."""
        found = [rank]
        for dimension in GROUPS[kind]:
            found = [
                self.neighbour(each, dimension, distance)
                for each in found
                for distance in range(self.size(dimension))
            ]
        found = sorted(found)
        return (found[0], found[-1]) if kind == "ends" and len(found) > 1 else tuple(found)

    def name_of(self, rank: int, kind: str) -> str:
        """The name of a rank's group: its number among those of its kind, in the order of ranks."""
        number, stride = 0, 1
        for dimension in DIMENSIONS:
            if dimension not in GROUPS[kind]:
                number += self.place(rank, dimension) * stride
                stride *= self.size(dimension)
        return f"{kind}.{number}"

    def groups(self, kinds: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """All groups of these kinds by name."""
        found: dict[str, tuple[int, ...]] = {}
        for kind in kinds:
            for rank in range(self.ranks):
                if (name := self.name_of(rank, kind)) not in found:
                    found[name] = self.group_of(rank, kind)
        return found


@dataclass(frozen=True)
class Exchange:
    """An all_to_all that brings a rank's tokens to their experts, or with `combine` the answers
    back. tokens: of each rank of the group; which: numbers that its routing has in common with the
    other one, the layer first; alike: neighbouring ranks that have the same tokens."""

    combine: bool
    tokens: tuple[int, ...]
    token_bytes: int
    which: tuple[int, ...]
    alike: int = 1


class Template:
    """The graph of a stage under construction. Nodes are numbered from 0."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.steps: dict[int, tuple[str, int]] = {}  # of a transfer: its dimension and distance
        self.exchanges: dict[int, Exchange] = {}

    def add(self, kind: str, after: Sequence[int] = (), group: str = "", **fields: Any) -> int:
        """Add a node; returns its number. group: a kind of group."""
        number = len(self.nodes)
        self.nodes.append(Node(kind, tuple(after), group=group, id=number, **fields))
        return number

    def transfer(
        self,
        kind: str,
        after: Sequence[int],
        step: tuple[str, int],
        size: int,
        tag: int,
        dtype: str = "",
    ) -> int:
        """Add a send or receive. step: the dimension, and the distance of the peer in it."""
        number = self.add(kind, after, bytes=size, tag=tag, dtype=dtype)
        self.steps[number] = step
        return number

    def changed(self, change: Callable[[Node], Node]) -> Template:
        """The same with other nodes in their places."""
        made = Template()
        made.nodes = [change(node) for node in self.nodes]
        made.steps, made.exchanges = self.steps, self.exchanges
        return made


def smaller(program: Program) -> Program:
    """The same templates for at most two ranks of each dimension but cp and pp. All ranks of a
    stage do the same, so what is true of its order of nodes is true of the whole."""
    ranks = program.ranks
    if not isinstance(ranks, StagedRanks):
        return program
    layout = ranks.layout
    fewer = replace(layout, **{each: min(layout.size(each), 2) for each in ("tp", "ep", "dp")})
    return staged(fewer, ranks.templates, program.about)


class StagedRanks(Sequence[tuple[Node, ...]]):
    """The graphs of all ranks: `templates` has those of as many neighbouring ranks each, which are
    a stage, or in it a place in ep."""

    def __init__(self, layout: Layout, templates: Sequence[Template]) -> None:
        self.layout, self.templates = layout, templates
        self._nodes: dict[tuple[int, int, str | int], Node] = {}
        self._ranks: dict[int, tuple[Node, ...]] = {}

    def __len__(self) -> int:
        return self.layout.ranks

    @property
    def sizes(self) -> dict[str, int]:
        """Ranks of a group, by the kind that a template's node names."""
        return {kind: self.layout.group_size(kind) for kind in GROUPS}

    def number_of(self, rank: int) -> int:
        """Of a rank's template."""
        return rank * len(self.templates) // len(self)

    def changed(self, change: Callable[[Node], Node]) -> StagedRanks:
        """The same with other nodes in the templates."""
        return StagedRanks(self.layout, [each.changed(change) for each in self.templates])

    @overload
    def __getitem__(self, rank: int) -> tuple[Node, ...]: ...

    @overload
    def __getitem__(self, rank: slice) -> Sequence[tuple[Node, ...]]: ...

    def __getitem__(self, rank: int | slice) -> tuple[Node, ...] | Sequence[tuple[Node, ...]]:
        if isinstance(rank, slice):
            return [self[each] for each in range(*rank.indices(len(self)))]
        if not 0 <= rank < len(self):
            raise IndexError(rank)
        if rank not in self._ranks:
            self._ranks[rank] = self._of_rank(rank)
        return self._ranks[rank]

    def _of_rank(self, rank: int) -> tuple[Node, ...]:
        layout, stage = self.layout, self.number_of(rank)
        template, known = self.templates[stage], self._nodes
        used = {node.group for node in template.nodes if node.kind in COLLECTIVES}
        names = {kind: layout.name_of(rank, kind) for kind in used}
        found = []
        for number, node in enumerate(template.nodes):
            if node.kind in COLLECTIVES:
                name = names[node.group]
                key: tuple[int, int, str | int] = (stage, number, name)
                if key not in known:
                    known[key] = replace(node, group=name)
                node = known[key]
            elif node.kind in (SEND, RECV):
                peer = layout.neighbour(rank, *template.steps[number])
                key = (stage, number, peer)
                if key not in known:
                    known[key] = replace(node, peer=peer)
                node = known[key]
            found.append(node)
        return tuple(found)


def staged(layout: Layout, templates: Sequence[Template], about: dict[str, str]) -> Program:
    """The program in which ranks do what their templates say (StagedRanks)."""
    used = {node.route for each in templates for node in each.nodes if node.kind in COLLECTIVES}
    ways = sorted(used, key=lambda way: ([*GROUPS].index(way.group), *way[1:]))
    groups = {way.group: layout.groups([way.group]) for way in ways}
    return Program(
        {name: ranks for of_kind in groups.values() for name, ranks in of_kind.items()},
        StagedRanks(layout, templates),
        about=about,
        routes=tuple(way._replace(group=name) for way in ways for name in groups[way.group]),
    )
