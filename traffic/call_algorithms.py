"""Algorithms of hosts for the calls of a program of ranks, by kind and size, and formats of their
sums, by group and type.

A program's nodes say so. The calls of a group that an algorithm carries have a communicator of
their own with the group's ranks, such as `tp.0 by ring` (rank_graph.GroupRoute), and so have those
that are added in a format of their own. Calls of a group still follow each other, whatever carries
them (testbed/workload/rank_program.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from testbed.algorithms.by_name import USE_OF
from testbed.algorithms.choice import SYSTEM, Network
from testbed.collective_kinds import CARRIED, COLLECTIVES
from testbed.traffic.rank_counts import kind_of_group
from testbed.traffic.rank_graph import GroupRoute, Node, Program
from testbed.traffic.rank_layout import StagedRanks, staged
from testbed.traffic.server_steps import ACROSS, IN, in_steps

AUTO = "auto"
ANY = 0  # size


@dataclass(frozen=True)
class AlgorithmRules:
    """rules: (collective, largest size in bytes or ANY, algorithm, SYSTEM or AUTO, algorithm inside
    servers or ""), of which the first one that fits counts. network: for AUTO. per_server:
    neighbouring ranks that share a server, for algorithms inside servers. sums: (group, kind of
    group or type, format or "" for the system's)."""

    rules: tuple[tuple[str, int, str, str], ...] = ()
    network: Network | None = None
    per_server: int = 1
    sums: tuple[tuple[str, str], ...] = ()

    def algorithm_of(self, collective: str, size: int, ranks: int) -> str:
        """Carrier of a call of so many bytes, of all ranks' parts together."""
        return self._chosen(collective, size, ranks)[0]

    def steps_of(self, node: Node, ranks: Sequence[int]) -> tuple[str, str] | None:
        """The algorithms inside servers and across them of an all_reduce that goes in steps."""
        algorithm, inside = self._chosen(node.kind, node.bytes, len(ranks))
        return (inside, algorithm) if inside else None

    def sum_of(self, node: Node) -> str:
        """Format of a call, the one for its group before that for its type; "": the system's."""
        given = dict(self.sums)
        names = _names(_base(node.group), node.dtype)
        return next((given[each] for each in names if each in given), "")

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
    rules, sums = (tuple(map(tuple, given[name])) for name in ("rules", "sums"))
    return AlgorithmRules(rules, network, given["per_server"], sums)


def _base(group: str) -> str:
    """The group of a step's group."""
    return group.partition(IN)[0].partition(ACROSS)[0]


def _names(group: str, dtype: str) -> tuple[str, str, str]:
    """The names by which a format of a call can be given."""
    return group, kind_of_group(GroupRoute(group)), dtype


def names_of_sums(program: Program) -> list[str]:
    """All of these names that a program's calls have: of groups and their kinds, then of types."""
    ranks: Iterable[Sequence[Node]] = program.ranks
    if isinstance(program.ranks, StagedRanks):
        ranks = (each.nodes for each in program.ranks.templates)
    used = {(_base(n.group), n.dtype) for nodes in ranks for n in nodes if n.kind in CARRIED}
    names = zip(*(_names(*each) for each in sorted(used)), strict=True)
    return [name for name in dict.fromkeys(chain(*names)) if name]


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
        if node.kind in CARRIED and sizes[node.group] > 1:
            node = replace(node, sum=routes.sum_of(node)) if routes.sums else node
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
    found = (node.route for nodes in changed for node in nodes if node.algorithm or node.sum)
    return replace(program, ranks=changed, routes=program.routes_with(found))
