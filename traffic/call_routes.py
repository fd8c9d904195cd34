"""Algorithms of hosts for the calls of a program of ranks, by kind and size.

A program says so by the names of its groups: calls that an algorithm carries are those of a group
of their own with the same ranks, such as `tp.0 by ring`, which has a communicator of its own. Calls
of one group still follow each other, whatever carries them (testbed/workload/rank_program.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.algorithms.choice import SYSTEM, Network
from testbed.algorithms.registry import USE_OF
from testbed.traffic.rank_graph import Node, Program
from testbed.traffic.rank_layout import BY, StagedRanks, staged
from testbed.traffic.server_steps import in_steps

AUTO = "auto"
ANY = 0  # size


@dataclass(frozen=True)
class Routes:
    """rules: (collective, largest size in bytes or ANY, algorithm, SYSTEM or AUTO, algorithm inside
    servers or ""), of which the first one that fits counts. network: for AUTO. per_server:
    neighbouring ranks that share a server, for algorithms inside servers."""

    rules: tuple[tuple[str, int, str, str], ...]
    network: Network | None = None
    per_server: int = 1

    def algorithm_of(self, collective: str, size: int, ranks: int) -> str:
        """Carrier of a call of so many bytes, of all ranks' parts together."""
        return self._chosen(collective, size, ranks)[0]

    def steps_of(self, node: Node, ranks: Sequence[int]) -> tuple[str, str] | None:
        """The algorithms inside servers and across them of an all_reduce that goes in steps."""
        algorithm, inside = self._chosen(node.kind, node.bytes, len(ranks))
        return (inside, algorithm) if inside else None

    def _chosen(self, collective: str, size: int, ranks: int) -> tuple[str, str]:
        for kind, most, use, inside in self.rules:
            if kind == collective and (most == ANY or size <= most):
                if use != AUTO:
                    return use, inside
                assert self.network is not None
                return self.network.fastest(collective, max(size, 1), ranks), inside
        return SYSTEM, ""


def of_json(given: dict | None) -> Routes | None:
    """The routes in a source's text."""
    if given is None:
        return None
    network = given["network"] and Network(**given["network"])
    return Routes(tuple(map(tuple, given["rules"])), network, given["per_server"])


def base_of(group: str) -> str:
    """The name of a group without the algorithm of its calls."""
    return group.partition(BY)[0]


def algorithm_of(group: str) -> str:
    """The algorithm of a group's calls; SYSTEM: what the experiment's system does."""
    return group.partition(BY)[2]


def routed(program: Program, routes: Routes | None) -> Program:
    """The program with calls in the groups of the algorithms that carry them."""
    if routes is None:
        return program
    known = {*program.groups}
    if any(inside for *_, inside in routes.rules):
        program = in_steps(program, routes.per_server, routes.steps_of)
    ranks = program.ranks
    sizes = {name: len(each) for name, each in program.groups.items()}
    if isinstance(ranks, StagedRanks):
        sizes = ranks.sizes

    def change(node: Node) -> Node:
        if node.kind not in USE_OF or sizes[node.group] < 2:
            return node
        if not isinstance(ranks, StagedRanks) and node.group not in known:
            return node  # a step, whose way is chosen
        own = sizes[node.group] if node.kind == "all_gather" else 1
        algorithm = routes.algorithm_of(node.kind, own * node.bytes, sizes[node.group])
        return replace(node, group=f"{node.group}{BY}{algorithm}") if algorithm else node

    if isinstance(ranks, StagedRanks):
        return staged(ranks.layout, ranks.changed(change).templates, program.about)
    changed = tuple(tuple(map(change, nodes)) for nodes in ranks)
    groups = dict(program.groups)
    for nodes in changed:
        for node in nodes:
            if BY in node.group and node.group not in groups:
                groups[node.group] = program.groups[base_of(node.group)]
    return replace(program, groups=groups, ranks=changed)
