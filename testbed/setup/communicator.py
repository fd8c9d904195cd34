"""A communicator, the unit of aggregation, and the ports through which its packets come.

A host's packets come through its own port. Between switches packets follow the routes from each
switch that has something to send for the job (its hosts' switches, and those that aggregate) to
each of the others, the links of the job's tree, and with a plan the paths of its tags and of its
results; where packets choose among equal paths, all of these. When routes change, packets on the
old paths go on from wherever they are, so every switch on the old paths has something to send; and
the old ports stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from p4fabric.base.hops import hops_towards, switch_of
from p4fabric.base.topology import Topology

from testbed.algorithms.chunk import Group
from testbed.protocols.sizes import Part
from testbed.routing.forest import Tree
from testbed.routing.job_tree import JobTree
from testbed.routing.plan import JobPlan
from testbed.routing.sum_paths import SumPaths
from testbed.setup.plan_entries import aggregating_switches, next_nodes_by_tag

Ports = Mapping[str, frozenset[int]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Communicator:
    """An ordered group of a job's workers whose gradients are added up together, and its way
    through the network. It is the unit of aggregation: `number` is what packets and switches call
    a job."""

    number: int
    topology: Topology  # with the links that are up
    workers: tuple[str, ...]  # hosts by rank
    servers: tuple[str, ...]
    algorithm: str = ""  # of hosts, where they add up
    roots: int = 0  # of its workers that complete sums; 0: all
    slots: Part | None = None  # its part of every switch's memory, where the system divides it
    tree: JobTree | None = None  # None without switch memory, or with a plan or several trees
    over: SumPaths | None = None  # of sums that are not pinned to `tree`
    spread: bool = False  # packets may take any of equal paths
    trees: tuple[Tree, ...] = ()  # of a system with a manager of trees
    plan: JobPlan | None = None  # of a system that plans
    # The switches that a server may have to remind at any time of a run, those of its first routes
    # first. With several trees, those that may be roots.
    reminded: tuple[str, ...] = ()
    former: frozenset[str] = frozenset()  # switches of plans before links failed
    ports_before: Ports = field(default_factory=dict)  # before links failed

    @cached_property
    def ports(self) -> Ports:
        """{switch: the ports through which its packets may come}; without switches that none
        passes. Raises UserError if a worker has no path to its server."""
        return _ports_of(self)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Workers, then servers."""
        return (*self.workers, *self.servers)

    @cached_property
    def ranks(self) -> Group:
        """The workers as algorithms of hosts see them."""
        names = [self.topology.server_of(worker) for worker in self.workers]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        channels = max(names.count(name) for name in numbers)
        return Group(tuple(numbers[name] for name in names), channels, self.roots)

    @property
    def ps(self) -> str:
        """The only server."""
        (server,) = self.servers
        return server

    @property
    def routed_tree(self) -> JobTree:
        """The tree, which must exist."""
        assert self.tree is not None, self.number
        return self.tree

    @property
    def shapes(self) -> tuple[JobTree, ...]:
        """All of its trees."""
        if self.over is not None:
            return self.over.trees
        if self.tree is not None:
            return (self.tree,)
        return tuple(tree.shape for tree in self.trees)

    @property
    def tree_roots(self) -> str:
        """The roots of its trees, in words; "" for a communicator that has none of a manager."""
        return ", ".join(tree.shape.target for tree in self.trees)

    @property
    def shares(self) -> tuple[tuple[JobTree, Fraction], ...]:
        """All of its trees, each with its share of the fragments."""
        if self.over is not None:
            return tuple((tree, Fraction(1, len(self.shapes))) for tree in self.shapes)
        if self.tree is not None:
            return ((self.tree, Fraction(1)),)
        slots = sum(tree.slots for tree in self.trees)
        return tuple((tree.shape, Fraction(tree.slots, slots)) for tree in self.trees)

    @cached_property
    def whole_sums(self) -> Mapping[str, Fraction]:
        """By switch that aggregates, the share of the sums completed there that have all workers;
        the others are parts of a sum. Where sums of several trees, or of several groups of a plan,
        meet at a switch, it follows from their shares of the fragments."""
        found: dict[str, list[Fraction]] = {}
        for switch, share, is_whole in self._sums():
            sums = found.setdefault(switch, [Fraction(0), Fraction(0)])
            sums[0] += share
            sums[1] += share * is_whole
        return {switch: whole / all_ for switch, (all_, whole) in found.items() if all_}

    def _sums(self) -> Iterator[tuple[str, Fraction, bool]]:
        """(switch, share of the fragments, whether it adds up all workers) of each sum."""
        for group in self.plan.groups if self.plan is not None else ():
            yield group.node, group.range.share, len(group.workers) == len(self.workers)
        if (over := self.over) is not None:
            for switch in over.aggregating:
                yield switch, Fraction(1), len(over.below[switch]) == len(self.workers)
            return
        for tree, share in self.shares if self.plan is None and self.shapes else ():
            for switch in tree.switches:
                everyone = len(tree.below[switch]) == len(self.workers)
                at_root = tree.target == switch or tree.target not in tree.switches
                yield switch, share, everyone and at_root

    def part(self, switch: str, tree: int) -> Part | None:
        """Its slots at a switch, for packets of a tree; None if it has none there."""
        found = next((each for each in self.trees if each.number == tree), None)
        return found.part(switch) if found is not None else self.slots if not self.trees else None

    @property
    def routed_plan(self) -> JobPlan:
        """The plan, which must exist."""
        assert self.plan is not None, self.number
        return self.plan

    def on_tree(self, tree: JobTree) -> Communicator:
        """The same with a new tree, which knows the switches of the old one."""
        old = self.routed_tree
        former = (old.former | set(old.switches)) - set(tree.switches)
        return replace(self, tree=replace(tree, former=frozenset(former)))


def _ports_of(group: Communicator) -> Ports:
    """See `Communicator.ports`."""
    topology, before = group.topology, group.ports_before
    found = {switch: set(ports) for switch, ports in before.items()}
    ends = _aggregating(group)
    for host in group.hosts:
        gateway = switch_of(topology, host)
        ends.add(gateway)
        if topology.is_linked(gateway, host):
            found.setdefault(gateway, set()).add(topology.port_to(gateway, host))
    # Towards a switch and towards its hosts packets may take different ones of equal paths.
    up = [host for host in group.hosts if topology.is_linked(switch_of(topology, host), host)]
    ranks = [host for host in up if topology.local_rank(host)]
    for switch, port in _leaving(group, [*ends, *ranks], {*ends, *before}):
        neighbour, link = _links(topology, switch)[port]
        there = _links(topology, neighbour).items()
        back = next(port for port, (_, other) in there if other == link)
        found.setdefault(neighbour, set()).add(back)
    return {switch: frozenset(ports) for switch, ports in found.items()}


def _aggregating(group: Communicator) -> set[str]:
    """The switches that hold sums, and those between them; of earlier routes, too."""
    if group.plan is not None:
        return {*aggregating_switches(group.plan), *group.former}
    over = group.over.below if group.over is not None else ()
    return {*over, *(each for tree in group.shapes for each in (*tree.below, *tree.former))}


def _leaving(
    group: Communicator, ends: Iterable[str], begins: Iterable[str]
) -> Iterator[tuple[str, int]]:
    """(switch, port) where packets leave for another switch: on the routes from each of the
    switches `begins` to each of the switches `ends`, on the tree, and on the paths of the plan."""
    topology = group.topology
    for end in ends:
        for switch, port, following in hops_towards(topology, begins, end, group.spread):
            if not topology.is_host(following):
                yield switch, port
    if group.plan is not None:
        ways = [(switch, node) for (switch, _), node in next_nodes_by_tag(group.plan).items()]
        for switch, following in [*ways, *group.plan.results.links]:
            if topology.is_host(following) or topology.is_host(switch):
                continue
            if topology.is_linked(switch, following):
                yield switch, topology.port_to(switch, following)
    for switch, hops in group.over.up.items() if group.over is not None else ():
        yield from ((switch, port) for port, node in hops if not topology.is_host(node))
    for tree in group.shapes:
        hops_of_tree = [*tree.parent.items()]
        for switch, found in tree.children.items():
            hops_of_tree += [(switch, hop) for hop in found]
        for switch, (port, following) in hops_of_tree:
            if not topology.is_host(following) and port in topology.ports(switch):
                yield switch, port


def _links(topology: Topology, node: str) -> Mapping[int, tuple[str, int]]:
    """{port: (neighbour, link)} of a node, of links that are up."""

    def find() -> dict[int, tuple[str, int]]:
        return {port: leads[:2] for port, leads in topology.ports(node).items()}

    return topology.derived(("links of", node), find)
