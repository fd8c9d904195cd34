"""Checks of lab 9: plan who aggregates whose gradient, in networks of several kinds.

What would be the solution of a task is in the teacher's part (labs/_teacher/lab9_routing/judge.py).
A kit for students does not have it, and values their plans with their own `rate`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from testbed.labs.grader.bench import Bench, Failure, Python
from testbed.labs.grader.lab import Lab
from testbed.labs.lab9_routing.networks import (
    Network,
    any_network,
    check_plan,
    leaf_spine,
    mesh,
    triangle,
)

LAB = Lab(
    title="Gradient routing",
    hand_in=("planner.py",),
    module="planner.py",
    packages=("numpy", "networkx", "scipy"),
    judged=True,
)
NEARLY = 1 - 1e-6
PLAN_S = 1.2  # of processor time for a plan; the hand-out says one second
PRACTICE = Path(__file__).with_name("practice.json")


def hops(network: Network, source: str, target: str) -> int:
    """Links of a shortest path through switches."""
    ends = [(a, b) for a, b, _ in network["links"]]
    seen, front, count = {source}, {source}, 0
    while target not in front:
        count += 1
        near = {b for a, b in ends if a in front} | {a for a, b in ends if b in front}
        front = {n for n in near - seen if n in network["switches"] or n == target}
        seen |= front
        if not front:
            raise AssertionError(f"{source} and {target} are not connected")
    return count


def worth(p: Python, network: Network, plan: Any) -> tuple[float, str]:
    """The rate of a plan that can be run, and its bottleneck. In a kit for students both are what
    their own program says."""
    judge = LAB.judge()
    if judge is not None:
        return judge.bottleneck(network, plan)
    return float(p.function("rate", network, plan)), "see your rate()"


def checked(p: Python, name: str, network: Network) -> tuple[dict[str, Any], tuple[float, str]]:
    """A planner's plan, what it is worth, and its bottleneck. Raises Failure for one that cannot be
    run."""
    plan = p.function(name, network, limit_s=PLAN_S)
    try:
        check_plan(network, plan)
    except Failure as failure:
        text = f"{name} makes no plan that can be run"
        raise Failure(f"{text}: {failure.message}", case=text) from None
    return plan, worth(p, network, plan)


def told(network: Network, plan: Any, text: str) -> list[str]:
    """The details of a failure."""
    return [f"bottleneck: {text}", f"network: {network}", f"plan: {plan}"]


def reached(t: Bench, p: Python, kind: str, network: Network, best: float) -> None:
    """The planner finds a plan as good as the best one. Raises Failure, with the bottleneck."""
    t.case = kind
    plan, (got, text) = checked(p, "plan", network)
    t.note(f"{kind} of {len(network['switches'])} switches: {got:.4g} of {best:.4g} Gbit/s")
    if got < best * NEARLY:
        why = f"the plan allows {got:.4g} Gbit/s; {best:.4g}, the workers' own links, is possible"
        case = "the plan is slower than the best one"
        raise Failure(why, details=told(network, plan, text), case=case)


@LAB.check(15, "The rate of a plan is right")
def rates(t: Bench) -> None:
    p, judge = t.python(), LAB.judge()
    cases: Iterable = json.loads(PRACTICE.read_text())
    if judge is not None:
        cases = judge.cases(t.random, 8)
    for t.case, network, plan, want, text in cases:
        got = float(p.function("rate", network, plan))
        if not abs(got - want) <= 1e-6 * want:
            why = f"the rate of this plan is {want:.6g}, not {got:.6g}"
            raise Failure(why, details=told(network, plan, text))


def baseline(
    t: Bench, name: str, right: Callable[[dict, str, str], bool], on_triangle: float
) -> None:
    """True if a baseline's workers all have the node that is `right`; and the known rate."""
    p = t.python()
    example = triangle(t.random)
    some = [mesh(t.random)[0], leaf_spine(t.random)[0], any_network(t.random)]
    for network in (example, *some):
        plan, (got, _) = checked(p, name, network)
        for worker in network["workers"]:
            node, path = plan["workers"][worker]
            if not right(network, worker, node):
                text = f"{name}: {node} is not the node of worker {worker}"
                raise Failure(text, case=f"{name}: a worker has the wrong node")
        paths = [path for _, path in plan["workers"].values()]
        for path in (*paths, *plan["aggregates"].values()):
            if len(path) > hops(network, path[0], path[-1]) + 1:
                text = f"{name}: the path {path} is not a shortest one"
                raise Failure(text, case=f"{name}: a path is not a shortest one")
        if network is example and abs(got - on_triangle) > 1e-6:
            raise Failure(f"{name} on the triangle has rate {on_triangle}, not {got:.6g}")


@LAB.check(10, "Without aggregation all gradients go to the server over a shortest path")
def none(t: Bench) -> None:
    baseline(t, "plan_none", lambda network, _, node: node == network["ps"], 0.75)


@LAB.check(10, "The nearest switch of every worker aggregates")
def nearest(t: Bench) -> None:
    baseline(t, "plan_nearest", lambda network, w, node: hops(network, w, node) == 1, 2.25)


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
        judge = LAB.judge()
        if judge is None:
            plain = [p.function(name, network) for name in ("plan_none", "plan_nearest")]
        else:
            plain = judge.baselines(network)
        floor = max(worth(p, network, each)[0] for each in plain)
        better += got > floor / NEARLY
        if got < floor * NEARLY:
            why, case = (
                f"the plan allows {got:.4g}, a baseline {floor:.4g}",
                "worse than a baseline",
            )
            raise Failure(why, details=told(network, plan, text), case=f"the plan is {case}")
        if network is networks[0] and not better:
            why = "the plan is no better than the baselines on a mesh, where it can be"
            raise Failure(why, details=told(network, plan, text), case=why)
    t.note(f"better than both on {better} of {len(networks)} networks")
