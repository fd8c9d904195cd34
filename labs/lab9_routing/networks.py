"""Networks for lab 9, as the students' planners get them, and whether a plan can be run in them.

Names, sizes and capacities are drawn at random, so that a solution cannot depend on them. `mesh`
and `leaf_spine` are made so that a plan exists in which nothing is slower than the workers' links:
each switch that has too many workers finds room elsewhere.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

from labs.grader.bench import Failure

Network = dict[str, Any]
Rated = tuple[Network, float]
"""A network, and the rate of its best plan; 0: not known."""


def triangle(rng: random.Random) -> Network:
    """GRID's example: three switches, W1 to W4, W5 and W6, W7 and W8 on them, the PS on the third.

    All links have 3 Gbit/s, the PS takes in 9, every switch can aggregate 9.
    """
    links = [["s1", "s3", 3.0], ["s1", "s2", 3.0], ["s2", "s3", 3.0], ["ps", "s3", 9.0]]
    homes = ["s1"] * 4 + ["s2"] * 2 + ["s3"] * 2
    switches = {"s1": 9.0, "s2": 9.0, "s3": 9.0}
    return _named(rng, links, homes, switches, 9.0)


# The kinds of meshes, (switches, workers too many), and of leaf-spines, (spines, leaves, of which
# have a worker too many). Some are harder than others, so a fair test has all equally often.
MESHES = ((3, 1), (4, 1), (4, 2), (5, 1), (5, 2))
LEAF_SPINES = tuple((s, n, m) for s in (2, 3) for n in (3, 4) for m in range(2, n))


def mesh(rng: random.Random, kind: tuple[int, int] | None = None) -> tuple[Network, float]:
    """Three to five switches, each linked with each, and the rate that its best plan has. `kind`:
    one of MESHES; None: drawn.

    One switch has one or two workers more than it can aggregate. The link to the PS's switch is
    taken by the switch's own sum, so they have to go to other switches, of which some have room.
    """
    count, rate = rng.randrange(3, 6), float(rng.randrange(2, 7))
    count = count if kind is None else kind[0]
    names = [f"s{n}" for n in range(count)]
    full, *others, last = names  # the PS is at the last one
    surplus = rng.randrange(1, min(2, len(others)) + 1) if kind is None else kind[1]
    homes, room = {full: rng.randrange(3, 6)}, {}
    for name in [*others, last]:
        homes[name] = rng.randrange(1, 4)
    room[full] = homes[full] - surplus
    for number, name in enumerate(others):
        room[name] = homes[name] + (1 if number < surplus else rng.randrange(2))
    room[last] = homes[last] + rng.randrange(2)
    links = [[a, b, rate] for a, b in itertools.combinations(names, 2)]
    ingress = rate * count
    links.append(["ps", last, ingress])
    workers = [name for name in names for _ in range(homes[name])]
    switches = {name: rate * room[name] for name in names}
    return _named(rng, links, workers, switches, ingress, rate), rate


def leaf_spine(
    rng: random.Random, kind: tuple[int, int, int] | None = None
) -> tuple[Network, float]:
    """Two or three spines, leaves with workers, one more with the PS; and the best plan's rate.
    `kind`: one of LEAF_SPINES; None: drawn.

    Some leaves can aggregate all of their workers but one. A leaf's uplinks have room for one flow
    each: its sum, and the worker that has to go elsewhere. The spines have room for these workers,
    and the PS for the sums of the spines.
    """
    if kind is None:
        drawn = rng.randrange(2, 4), rng.randrange(3, 5)
        kind = (*drawn, rng.randrange(2, drawn[1]))
    spines = [f"spine{n}" for n in range(kind[0])]
    leaves = [f"leaf{n}" for n in range(kind[1])]
    surplus = rng.sample(leaves, kind[2])
    rate, last = float(rng.randrange(2, 7)), "leaf with the PS"
    homes = {leaf: rng.randrange(3, 5) for leaf in leaves} | {last: rng.randrange(2, 4)}
    links = [[leaf, spine, rate] for leaf in leaves for spine in spines]
    links += [[last, spine, rate * (len(leaves) + 1)] for spine in spines]
    ingress = rate * (len(leaves) + 1 + min(len(spines), len(surplus)))
    links.append(["ps", last, ingress])
    switches = {leaf: rate * (homes[leaf] - (leaf in surplus)) for leaf in homes}
    switches |= {spine: rate * len(surplus) for spine in spines}
    workers = [leaf for leaf in homes for _ in range(homes[leaf])]
    return _named(rng, links, workers, switches, ingress, rate), rate


def any_network(rng: random.Random) -> Network:
    """A ring of switches with chords and capacities drawn at random."""
    count = rng.randrange(3, 6)
    names = [f"s{n}" for n in range(count)]
    pairs = {(names[n], names[(n + 1) % count]) for n in range(count)}
    pairs |= {(a, b) for a, b in (rng.sample(names, 2) for _ in range(2))}
    unique = {tuple(sorted(pair)) for pair in pairs}
    links = [[a, b, float(rng.randrange(2, 9))] for a, b in sorted(unique)]
    ingress = float(rng.randrange(4, 16))
    links.append(["ps", rng.choice(names), ingress])
    homes = [rng.choice(names) for _ in range(rng.randrange(5, 10))]
    switches = {name: float(rng.randrange(4, 16)) for name in names}
    return _named(rng, links, homes, switches, ingress)


# The networks of each test, from a source of randomness.
SETS: dict[str, Callable[[random.Random], list[Rated]]] = {
    "baselines": lambda rng: [mesh(rng), leaf_spine(rng), (any_network(rng), 0.0)],
    "valid": lambda rng: [mesh(rng), *((any_network(rng), 0.0) for _ in range(2))],
    "meshes": lambda rng: [mesh(rng, kind) for kind in MESHES * 6],
    "leaf_spines": lambda rng: [leaf_spine(rng, kind) for kind in LEAF_SPINES * 4],
    "both": lambda rng: [
        *(mesh(rng, kind) for kind in MESHES),
        *((any_network(rng), 0.0) for _ in range(8)),
    ],
}


def _named(
    rng: random.Random,
    links: list,
    homes: list[str],
    switches: dict[str, float],
    ingress: float,
    rate: float = 3.0,
) -> Network:
    """The network with names drawn at random; `rate` is that of the workers' links."""
    workers = [f"w{n}" for n in range(1, len(homes) + 1)]
    links = [*links, *([w, home, rate] for w, home in zip(workers, homes, strict=True))]
    plain = [*switches, *workers, "ps"]
    name = dict(zip(plain, rng.sample([f"n{k:02}" for k in range(99)], len(plain)), strict=True))
    rng.shuffle(links)
    return {
        "links": [[name[a], name[b], capacity] for a, b, capacity in links],
        "switches": {name[s]: capacity for s, capacity in switches.items()},
        "workers": [name[w] for w in workers],
        "ps": name["ps"],
        "ps_ingress": ingress,
    }


def check_plan(network: Network, plan: Any) -> None:
    """Raises Failure for a plan that cannot be run, with what is wrong with it."""
    known = {(a, b) for a, b, _ in network["links"]}
    known |= {(b, a) for a, b in known}
    workers, aggregates = _parts(plan)
    missing = [w for w in network["workers"] if w not in workers]
    if missing:
        raise Failure(f"the plan says nothing about worker {missing[0]}")
    ends = {*network["switches"], network["ps"]}
    used = set()
    for worker in network["workers"]:
        node, path = _entry(workers[worker], worker)
        if node not in ends:
            raise Failure(f"worker {worker}: {node!r} is neither a switch nor the PS")
        _check_path(network, known, path, worker, node)
        used.add(node)
    for switch in network["switches"]:
        if switch in used:
            if switch not in aggregates:
                raise Failure(f"switch {switch} aggregates, and the sum's path is missing")
            _check_path(network, known, aggregates[switch], switch, network["ps"])


def _parts(plan: Any) -> tuple[dict, dict]:
    if not isinstance(plan, dict) or not isinstance(plan.get("workers"), dict):
        raise Failure('a plan is a dictionary with "workers" and "aggregates"')
    aggregates = plan.get("aggregates", {})
    if not isinstance(aggregates, dict):
        raise Failure('a plan\'s "aggregates" is a dictionary: switch to path')
    return plan["workers"], aggregates


def _entry(entry: Any, worker: str) -> tuple[str, Any]:
    if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
        raise Failure(f"worker {worker}: {entry!r} is not [node, path]")
    return entry[0], entry[1]


def _check_path(
    network: Network, known: set[tuple[str, str]], path: Any, source: str, target: str
) -> None:
    """A path leads from one node to the other, through switches only."""
    shown = f"the path {path!r}"
    if not isinstance(path, list) or not all(isinstance(node, str) for node in path):
        raise Failure(f"{shown} is no list of names")
    if not path or path[0] != source or path[-1] != target:
        raise Failure(f"{shown} does not lead from {source} to {target}")
    if len(set(path)) < len(path):
        raise Failure(f"{shown} passes a node twice")
    for node in path[1:-1]:
        if node not in network["switches"]:
            raise Failure(f"{shown} passes through {node}, which is no switch")
    for step in itertools.pairwise(path):
        if step not in known:
            raise Failure(f"{shown}: there is no link from {step[0]} to {step[1]}")
