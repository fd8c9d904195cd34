"""What lab 9 must do: plan who aggregates whose gradient, in networks of several kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.labs.grader.bench import Bench, Failure, Python
from testbed.labs.grader.lab import Lab
from testbed.labs.lab9_routing.networks import (
    any_network,
    bottleneck,
    leaf_spine,
    mesh,
    triangle,
    value,
)

LAB = Lab(
    title="Gradient routing",
    hand_in=("planner.py",),
    module="planner.py",
    packages=("numpy", "networkx", "scipy"),
)
NEARLY = 1 - 1e-6
PLAN_S = 1.2  # of processor time for a plan; the hand-out says one second


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


def checked(
    p: Python, name: str, network: dict[str, Any]
) -> tuple[dict[str, Any], tuple[float, str]]:
    """A planner's plan, what it is worth, and its bottleneck. Raises Failure for one that cannot be
    run."""
    plan = p.function(name, network, limit_s=PLAN_S)
    try:
        return plan, bottleneck(network, plan)
    except Failure as failure:
        text = f"{name} makes no plan that can be run"
        raise Failure(f"{text}: {failure.message}", case=text) from None


def reached(t: Bench, p: Python, kind: str, network: dict[str, Any], best: float) -> None:
    """The planner finds a plan as good as the best one. Raises Failure, with the bottleneck."""
    t.case = kind
    plan, (got, text) = checked(p, "plan", network)
    t.note(f"{kind} of {len(network['switches'])} switches: {got:.4g} of {best:.4g} Gbit/s")
    if got < best * NEARLY:
        told = f"the plan allows {got:.4g} Gbit/s; {best:.4g}, the workers' own links, is possible"
        details = [f"bottleneck: {text}", f"network: {network}", f"plan: {plan}"]
        raise Failure(told, details=details, case="the plan is slower than the best one")


@LAB.check(15, "The rate of a plan is right")
def rates(t: Bench) -> None:
    p = t.python()
    some = [triangle(t.random), mesh(t.random)[0], leaf_spine(t.random)[0]]
    some += [any_network(t.random) for _ in range(8)]
    for drawn in some:
        plan = some_plan(t, drawn)
        scarce = dict.fromkeys(drawn["switches"], 0.25)
        for case, changed in (
            ("any bottleneck", {}),
            ("the server is the bottleneck", {"ps_ingress": 0.2}),
            ("a switch is the bottleneck", {"switches": scarce, "ps_ingress": 100.0}),
        ):
            t.case, network = case, {**drawn, **changed}
            want, text = bottleneck(network, plan)
            got = float(p.function("rate", network, plan))
            if not abs(got - want) <= 1e-6 * want:
                details = [f"bottleneck: {text}", f"network: {network}", f"plan: {plan}"]
                told = f"the rate of this plan is {want:.6g}, not {got:.6g}"
                raise Failure(told, details=details)


def baseline(t: Bench, name: str, right: Callable[[dict, str], str], on_triangle: float) -> None:
    """A baseline's workers all have the node that `right` says; and the known rate."""
    p = t.python()
    example = triangle(t.random)
    some = [mesh(t.random)[0], leaf_spine(t.random)[0], any_network(t.random)]
    for network in (example, *some):
        plan, (got, _) = checked(p, name, network)
        for worker in network["workers"]:
            node, path = plan["workers"][worker]
            if node != right(network, worker):
                text = f"{name}: worker {worker}'s node is {right(network, worker)}, not {node}"
                raise Failure(text, case=f"{name}: a worker has the wrong node")
            if len(path) > len(shortest(network, worker, node)):
                text = f"{name}: the path {path} is not a shortest one"
                raise Failure(text, case=f"{name}: a path is not a shortest one")
        if network is example and abs(got - on_triangle) > 1e-6:
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
    for network in (mesh(t.random)[0], any_network(t.random), any_network(t.random)):
        plan, _ = checked(p, "plan", network)
        if set(plan["workers"]) != set(network["workers"]):
            text = "a plan has exactly the network's workers"
            raise Failure(text, case=text)


@LAB.check(15, "In a mesh of switches every worker sends at its link's rate")
def on_mesh(t: Bench) -> None:
    p = t.python()
    for _ in range(2):
        reached(t, p, "mesh", *mesh(t.random))


@LAB.check(10, "In a leaf-spine every worker sends at its link's rate")
def on_leaf_spine(t: Bench) -> None:
    reached(t, t.python(), "leaf-spine", *leaf_spine(t.random))


@LAB.check(10, "The planner is never worse than nearest switch or no aggregation")
def never_worse(t: Bench) -> None:
    p, better = t.python(), 0
    networks = [mesh(t.random)[0], any_network(t.random), any_network(t.random)]
    for network in networks:
        plan, (got, text) = checked(p, "plan", network)
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
            told = f"the plan allows {got:.4g}, a baseline {floor:.4g}"
            details = [f"bottleneck: {text}", f"network: {network}", f"plan: {plan}"]
            raise Failure(told, details=details, case="the plan is worse than a baseline")
        if network is networks[0] and not better:
            told = "the plan is no better than the baselines on a mesh, where it can be"
            details = [f"bottleneck: {text}", f"network: {network}", f"plan: {plan}"]
            raise Failure(told, details=details, case=told)
    t.note(f"better than both on {better} of {len(networks)} networks")
