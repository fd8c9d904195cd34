"""What lab 9 must do: plan who aggregates whose gradient, on a triangle and on a leaf-spine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.labs.grader.bench import Bench, Failure, Python
from testbed.labs.grader.lab import Lab
from testbed.labs.lab9_routing.networks import any_network, leaf_spine, triangle, value

LAB = Lab(
    title="Gradient routing",
    hand_in=("planner.py",),
    module="planner.py",
    packages=("numpy", "networkx", "scipy"),
)
NEARLY = 1 - 1e-6


def shortest(network: dict[str, Any], source: str, target: str) -> list[str]:
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


def home(network: dict[str, Any], host: str) -> str:
    return next(b if a == host else a for a, b, _ in network["links"] if host in (a, b))


def some_plan(t: Bench, network: dict[str, Any]) -> dict[str, Any]:
    """A plan drawn at random."""
    workers = {}
    for worker in network["workers"]:
        node = t.random.choice([*network["switches"], network["ps"]])
        own = home(network, worker)
        path = [worker] if node == own else [worker, *shortest(network, own, node)[:-1]]
        workers[worker] = [node, [*path, node]]
    used = {node for node, _ in workers.values()} - {network["ps"]}
    return {
        "workers": workers,
        "aggregates": {s: shortest(network, s, network["ps"]) for s in sorted(used)},
    }


def checked(p: Python, name: str, network: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """A planner's plan and what it is worth. Raises Failure for one that cannot be run."""
    plan = p.function(name, network)
    try:
        return plan, value(network, plan)
    except Failure as failure:
        raise Failure(f"{name} makes no plan that can be run: {failure.message}") from None


@LAB.check(15, "The rate of a plan is right")
def rates(t: Bench) -> None:
    p = t.python()
    for make in (triangle, leaf_spine, *[any_network] * 8):
        network = make(t.random)
        plan = some_plan(t, network)
        for ingress in (network["ps_ingress"], 0.5):  # 0.5: the server is what limits
            network["ps_ingress"] = ingress
            want, got = value(network, plan), float(p.function("rate", network, plan))
            if not abs(got - want) <= 1e-6 * want:
                details = [f"network: {network}", f"plan: {plan}"]
                text = f"the rate of this plan is {want:.6g}, not {got:.6g}"
                raise Failure(text, details=details)


def baseline(t: Bench, name: str, right: Callable[[dict, str], str], on_triangle: float) -> None:
    """A baseline's workers all have the node that `right` says; and the known rate."""
    p = t.python()
    for make in (triangle, leaf_spine, any_network, any_network):
        network = make(t.random)
        plan, got = checked(p, name, network)
        for worker in network["workers"]:
            node, path = plan["workers"][worker]
            if node != right(network, worker):
                text = f"{name}: worker {worker}'s node is {right(network, worker)}, not {node}"
                raise Failure(text)
            if len(path) > len(shortest(network, worker, node)):
                raise Failure(f"{name}: the path {path} is not a shortest one")
        if make is triangle and abs(got - on_triangle) > 1e-6:
            raise Failure(f"{name} on the triangle has rate {on_triangle}, not {got:.6g}")


@LAB.check(10, "Without aggregation all gradients go to the server over a shortest path")
def none(t: Bench) -> None:
    baseline(t, "plan_none", lambda network, worker: network["ps"], 0.75)


@LAB.check(10, "The nearest switch of every worker aggregates")
def nearest(t: Bench) -> None:
    baseline(t, "plan_nearest", home, 2.25)


@LAB.check(10, "The planner's plans can be run on any network")
def valid(t: Bench) -> None:
    p = t.python()
    for make in (triangle, any_network, any_network):
        network = make(t.random)
        plan, _ = checked(p, "plan", network)
        if set(plan["workers"]) != set(network["workers"]):
            raise Failure("a plan has exactly the network's workers")


@LAB.check(15, "On the triangle every worker sends 3 Gbit/s")
def on_triangle(t: Bench) -> None:
    p = t.python()
    _, got = checked(p, "plan", triangle(t.random))
    t.note(f"triangle: {got:.4g} Gbit/s; nearest switch 2.25, no aggregation 0.75")
    if got < 3 * NEARLY:
        raise Failure(f"the plan allows {got:.4g} Gbit/s; 3, the workers' own links, is possible")


@LAB.check(10, "On the leaf-spine every worker sends 3 Gbit/s")
def on_leaf_spine(t: Bench) -> None:
    p = t.python()
    network = leaf_spine(t.random)
    _, got = checked(p, "plan", network)
    t.note(f"leaf-spine: {got:.4g} Gbit/s; nearest switch 2.25")
    if got < 3 * NEARLY:
        raise Failure(f"the plan allows {got:.4g} Gbit/s; 3, the workers' own links, is possible")


@LAB.check(10, "The planner is never worse than nearest switch or no aggregation")
def never_worse(t: Bench) -> None:
    p, better, count = t.python(), 0, 4
    for _ in range(count):
        network = any_network(t.random)
        _, got = checked(p, "plan", network)
        ps = network["ps"]
        plain = {w: [ps, shortest(network, w, ps)] for w in network["workers"]}
        own = {w: home(network, w) for w in network["workers"]}
        near = {w: [s, [w, s]] for w, s in own.items()}
        sums = {s: shortest(network, s, ps) for s in own.values()}
        floor = max(
            value(network, {"workers": plain, "aggregates": {}}),
            value(network, {"workers": near, "aggregates": sums}),
        )
        better += got > floor / NEARLY
        if got < floor * NEARLY:
            details = [f"network: {network}"]
            raise Failure(f"the plan allows {got:.4g}, a baseline {floor:.4g}", details=details)
    t.note(f"better than both on {better} of {count} networks")
    if better == 0:
        raise Failure("the plan is never better than the baselines")
