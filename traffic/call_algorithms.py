"""Algorithms of hosts for the calls of a program of ranks, by kind and size.

A program's nodes say so. The calls of a group that an algorithm carries have a communicator of
their own with the group's ranks, such as `tp.0 by ring` (rank_graph.GroupRoute). Calls of a group
still follow each other, whatever carries them (testbed/workload/rank_program.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.algorithms.by_name import USE_OF
from testbed.algorithms.choice import SYSTEM, Network
from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.rank_graph import Node, Program
from testbed.traffic.rank_layout import StagedRanks, staged
from testbed.traffic.server_steps import in_steps

AUTO = "auto"
ANY = 0  # size


@dataclass(frozen=True)
class AlgorithmRules:
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


def of_json(given: dict | None) -> AlgorithmRules | None:
    """The routes in a source's text."""
    if given is None:
        return None
    network = given["network"] and Network(**given["network"])
    return AlgorithmRules(tuple(map(tuple, given["rules"])), network, given["per_server"])


def with_algorithms(program: Program, routes: AlgorithmRules | None) -> Program:
    """The program with the algorithms that carry its calls."""
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
        if node.kind not in USE_OF or sizes[node.group] < 2 or node.algorithm:
            return node
        if not isinstance(ranks, StagedRanks) and node.group not in known:
            return node  # a step, whose way is chosen
        members = sizes[node.group]
        size = COLLECTIVES[node.kind].array_size(node.bytes, members)
        algorithm = routes.algorithm_of(node.kind, size, members)
        return replace(node, algorithm=algorithm) if algorithm else node

    if isinstance(ranks, StagedRanks):
        return staged(ranks.layout, ranks.changed(change).templates, program.about)
    changed = tuple(tuple(map(change, nodes)) for nodes in ranks)
    found = (node.route for nodes in changed for node in nodes if node.algorithm)
    return replace(program, ranks=changed, routes=program.routes_with(found))
