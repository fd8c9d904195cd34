"""Values of plans for lab 9, and the networks that plans are for: the part of the grader that would
be the solution of a task.

The networks are the same for all students and terms, down to their names, since a planner may well
choose by a name where others are as good. Only the scale of their capacities is drawn, in powers of
two, so that all sums and ratios stay exact. So two markings of a planner differ only by its clocks.
Another text HIDDEN makes other networks.

A kit for students does not have it. There, `rate` is tested with the plans of practice.json, which
`python -m labs._teacher.lab9_routing.judge` prints, and other plans are valued with the
student's own `rate`.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from labs.lab9_routing.networks import (
    SETS,
    Network,
    Rated,
    any_network,
    check_plan,
    leaf_spine,
    mesh,
    triangle,
)

PRACTICE_SEED, PRACTICE = 20260901, 3
HIDDEN = "the networks that lab 9 is judged with"
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
ANYWHERE = 8


def bottleneck(network: Network, plan: Any) -> tuple[float, str]:
    """The rate in Gbit/s at which all workers can send with this plan, and what limits it. Raises
    Failure for a plan that cannot be run."""
    check_plan(network, plan)
    capacity = {}
    for a, b, gbit in network["links"]:
        capacity[a, b] = capacity[b, a] = gbit
    flows: Counter = Counter()
    inputs: Counter = Counter()
    for worker in network["workers"]:
        node, path = plan["workers"][worker]
        flows.update(itertools.pairwise(path))
        inputs[node] += 1
    at_ps = inputs.pop(network["ps"], 0)
    for switch in inputs:
        flows.update(itertools.pairwise(plan["aggregates"][switch]))
        at_ps += 1
    limits = [(network["ps_ingress"] / at_ps, f"the PS takes in {_flows(at_ps)}")]
    for (a, b), count in flows.items():
        limits.append((capacity[a, b] / count, f"the link {a} to {b} carries {_flows(count)}"))
    for switch, count in inputs.items():
        text = f"switch {switch} aggregates {_flows(count)}"
        limits.append((network["switches"][switch] / count, text))
    rate, text = min(limits)
    return rate, f"{text}, {rate:.4g} Gbit/s each"


def _flows(count: int) -> str:
    return "1 flow" if count == 1 else f"{count} flows"


def shortest(network: Network, source: str, target: str) -> list[str]:
    """A shortest path through switches."""
    neighbours: dict[str, list[str]] = {}
    for a, b, _ in network["links"]:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    ways = [[source]]
    seen = {source}
    for way in ways:
        for node in neighbours[way[-1]]:
            if node == target:
                return [*way, node]
            if node in network["switches"] and node not in seen:
                seen.add(node)
                ways.append([*way, node])
    raise AssertionError(f"{source} and {target} are not connected")


def home(network: Network, host: str) -> str:
    """The switch of a host."""
    return next(b if a == host else a for a, b, _ in network["links"] if host in (a, b))


def baselines(network: Network) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plans without aggregation, and with the nearest switches."""
    ps = network["ps"]
    plain = {w: [ps, shortest(network, w, ps)] for w in network["workers"]}
    own = {w: home(network, w) for w in network["workers"]}
    near = {w: [s, [w, s]] for w, s in own.items()}
    sums = {s: shortest(network, s, ps) for s in own.values()}
    return {"workers": plain, "aggregates": {}}, {"workers": near, "aggregates": sums}


def cases(rng: random.Random, anywhere: int) -> Iterator[tuple[str, Network, dict, float, str]]:
    """Plans drawn at random: (class of case, network, plan, rate, bottleneck), in a network of each
    kind, and `anywhere` more."""
    some = [triangle(rng), mesh(rng)[0], leaf_spine(rng)[0]]
    some += [any_network(rng) for _ in range(anywhere)]
    for drawn in some:
        plan = _some_plan(rng, drawn)
        scarce = dict.fromkeys(drawn["switches"], 0.25)
        for case, changed in (
            ("any bottleneck", {}),
            ("the server is the bottleneck", {"ps_ingress": 0.2}),
            ("a switch is the bottleneck", {"switches": scarce, "ps_ingress": 100.0}),
        ):
            network = {**drawn, **changed}
            yield case, network, plan, *bottleneck(network, plan)


def _some_plan(rng: random.Random, network: Network) -> dict[str, Any]:
    """A plan drawn at random."""
    workers = {}
    for worker in network["workers"]:
        node = rng.choice([*network["switches"], network["ps"]])
        own = home(network, worker)
        path = [worker] if node == own else [worker, *shortest(network, own, node)[:-1]]
        workers[worker] = [node, [*path, node]]
    used = {node for node, _ in workers.values()} - {network["ps"]}
    return {
        "workers": workers,
        "aggregates": {s: shortest(network, s, network["ps"]) for s in sorted(used)},
    }


def networks(rng: random.Random, name: str) -> list[Rated]:
    """The networks of a test (SETS of the lab), in a scale from `rng`."""
    made = []
    for network, best in SETS[name](random.Random(f"{HIDDEN}: {name}")):
        scale = rng.choice(SCALES)
        made.append((_scaled(network, scale), best * scale))
    return made


def hidden_cases(rng: random.Random) -> Iterator[tuple[str, Network, dict, float, str]]:
    """`cases` that are always the same, in a scale from `rng`."""
    for case, network, plan, *_ in cases(random.Random(f"{HIDDEN}: rates"), ANYWHERE):
        changed = _scaled(network, rng.choice(SCALES))
        yield case, changed, plan, *bottleneck(changed, plan)


def _scaled(network: Network, scale: float) -> Network:
    """The network with all capacities times `scale`."""
    return {
        **network,
        "links": [[a, b, gbit * scale] for a, b, gbit in network["links"]],
        "switches": {name: gbit * scale for name, gbit in network["switches"].items()},
        "ps_ingress": network["ps_ingress"] * scale,
    }


def practice() -> str:
    """The text of practice.json."""
    rows = [json.dumps(row) for row in cases(random.Random(PRACTICE_SEED), PRACTICE)]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    print(practice(), end="")
