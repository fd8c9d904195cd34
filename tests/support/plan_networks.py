"""Networks to plan for: the worked example of the GRID paper, and small random ones; and all paths
and trees in tiny networks, found without the planners' code."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import networkx
from hypothesis import strategies as st

from testbed.routing.network import Host, Link, Network, PlanJob, Switch

GBIT = 10**9


def both_ways(links: Iterable[tuple[str, str, int | None]]) -> tuple[Link, ...]:
    return tuple(each for a, b, rate in links for each in (Link(a, b, rate), Link(b, a, rate)))


def example(
    l1: int | None = 3,
    l2: int | None = 3,
    l3: int | None = 3,
    capacities: tuple[int | None, ...] = (9, 9, 9),
    ps: int = 9,
    access: int = 3,
    unit: int = GBIT,
    names: dict[str, str] | None = None,
) -> tuple[Network, tuple[PlanJob, ...]]:
    """S1, S2, S3 in a triangle (L1 = S1-S3, L2 = S1-S2, L3 = S2-S3), W1..W4 on S1, W5 and W6 on S2,
    W7, W8 and the PS on S3; rates in `unit`. A link of None is cut, a capacity of None: the switch
    does not aggregate. `names`: new names of nodes."""
    names = names or {}

    def name(node: str) -> str:
        return names.get(node, node)

    homes = dict(zip([f"W{i}" for i in range(1, 9)], [1, 1, 1, 1, 2, 2, 3, 3], strict=True))
    links = [
        (a, b, rate)
        for a, b, rate in (("S1", "S3", l1), ("S1", "S2", l2), ("S2", "S3", l3))
        if rate is not None
    ]
    links += [(worker, f"S{home}", access) for worker, home in homes.items()] + [("PS", "S3", ps)]
    network = Network(
        switches=tuple(
            Switch(name(f"S{i}"), c is not None, c * unit if c else None)
            for i, c in enumerate(capacities, 1)
        ),
        hosts=tuple(Host(name(each)) for each in (*homes, "PS")),
        links=both_ways((name(a), name(b), rate * unit) for a, b, rate in links),
    )
    return network, (PlanJob("job", tuple(name(each) for each in homes), name("PS")),)


@st.composite
def small_networks(
    draw: st.DrawFn, jobs: int = 2, workers: int = 3, max_switches: int = 4, homes: int = 1
) -> tuple[Network, tuple[PlanJob, ...]]:
    """Up to `max_switches` connected switches with directed capacities of their own, some of which
    aggregate, and up to `jobs` jobs of up to `workers` workers. Hosts are linked to up to `homes`
    switches."""
    capacity = st.integers(1, 12)
    switches = [f"s{i}" for i in range(1, draw(st.integers(1, max_switches)) + 1)]
    links: list[Link] = []
    for number, switch in enumerate(switches[1:], 1):
        # A tree first, so that everything is connected, then perhaps more.
        parent = draw(st.sampled_from(switches[:number]))
        for other in switches[:number]:
            if other == parent or draw(st.booleans()):
                links += [Link(switch, other, draw(capacity)), Link(other, switch, draw(capacity))]
    hosts, made = [], []
    for job in range(draw(st.integers(1, jobs))):
        names = [f"w{job}x{i}" for i in range(draw(st.integers(1, workers)))] + [f"p{job}"]
        for host in names:
            hosts.append(Host(host))
            at = st.sampled_from(switches)
            for home in draw(st.lists(at, min_size=1, max_size=homes, unique=True)):
                links += [Link(host, home, draw(capacity)), Link(home, host, draw(capacity))]
        made.append(PlanJob(f"job{job}", tuple(names[:-1]), names[-1]))
    nodes = tuple(
        Switch(switch, draw(st.booleans()), draw(st.one_of(st.none(), st.integers(1, 20))))
        for switch in switches
    )
    return Network(nodes, tuple(hosts), tuple(links)), tuple(made)


def all_paths(network: Network, source: str, target: str) -> list[tuple[str, ...]]:
    """All loop-free paths through switches."""
    graph = networkx.DiGraph()
    inner = {switch.name for switch in network.switches} | {source, target}
    graph.add_nodes_from(inner)
    graph.add_edges_from(
        (link.source, link.target)
        for link in network.links
        if link.source in inner and link.target in inner
    )
    if source == target:
        return [(source,)]
    return [tuple(path) for path in networkx.all_simple_paths(graph, source, target)]


def result_trees(network: Network, job: PlanJob) -> list[tuple[set[str], list[tuple[str, str]]]]:
    """Every tree from a job's PS over switches to its workers, as (nodes, links)."""
    into: dict[str, list[str]] = {}
    for link in network.links:
        into.setdefault(link.target, []).append(link.source)
    names = [switch.name for switch in network.switches]
    found = []
    for parents in product(*([None, *into.get(name, ())] for name in (*names, *job.workers))):
        parent = dict(zip((*names, *job.workers), parents, strict=True))
        links = [(source, target) for target, source in parent.items() if source is not None]
        tree = networkx.DiGraph(links)
        nodes = {job.ps, *(target for _, target in links)}
        if set(job.workers) <= nodes and job.ps in tree and networkx.is_arborescence(tree):
            inner = {source for source, _ in links}
            if inner <= {job.ps, *names} and next(networkx.topological_sort(tree)) == job.ps:
                found.append((nodes, links))
    return found
