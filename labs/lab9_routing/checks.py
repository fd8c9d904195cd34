"""Checks of lab 9: plan who aggregates whose gradient, in networks of several kinds.

What would be the solution of a task is in the teacher's part (labs/_teacher/lab9_routing/judge.py).
A kit for students does not have it, and values their plans with their own `rate`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from labs.grader.bench import Bench, Failure, Python
from labs.grader.lab import Lab
from labs.lab9_routing.networks import SETS, Network, Rated, check_plan, triangle

LAB = Lab(
    title="Gradient routing",
    hand_in=("planner.py",),
    module="planner.py",
    packages=("numpy", "networkx", "scipy"),
    seconds=120.0,  # a planner may use a second for each of 70 plans
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


def reached(t: Bench, rated: Iterable[Rated]) -> None:
    """The planner finds plans as good as the best ones, which are given with the networks. Its
    share of the points is what it gains on average over the better baseline, of what can be gained.
    Raises Failure, with the bottleneck of its worst plan."""
    p, shares, worst = t.python(), [], None
    for network, best in rated:
        plan, (got, text) = checked(p, "plan", network)
        floor = min(best, plain(p, network))
        gained = 1.0 if got >= best * NEARLY else max(0.0, got - floor) / max(best - floor, 1e-9)
        shares.append(min(1.0, gained))
        if worst is None or gained < worst[0]:
            worst = (gained, network, plan, got, best, text)
    t.share = sum(shares) / len(shares)
    optimal = sum(share == 1 for share in shares)
    t.note(f"{optimal} of {len(shares)} plans are as good as the best, and all together have")
    t.note(f"{t.share:.0%} of what can be gained over the better baseline")
    if optimal < len(shares) and worst is not None:
        _, network, plan, got, best, text = worst
        why = f"the plan allows {got:.4g} Gbit/s; {best:.4g}, the workers' own links, is possible"
        case = "some plans are slower than the best ones"
        raise Failure(why, details=told(network, plan, text), case=case)


def plain(p: Python, network: Network) -> float:
    """The rate of the better baseline."""
    judge = LAB.judge()
    if judge is None:
        plans = [p.function(name, network) for name in ("plan_none", "plan_nearest")]
    else:
        plans = judge.baselines(network)
    return max(worth(p, network, each)[0] for each in plans)


def networks(t: Bench, name: str) -> list[Rated]:
    """The networks of a test, by their name in SETS. The teacher's are always the same ones, in
    another scale, so that a mark does not depend on which ones are drawn. In a kit for students
    they are drawn."""
    judge = LAB.judge()
    return SETS[name](t.random) if judge is None else judge.networks(t.random, name)


@LAB.check(15, "The rate of a plan is right")
def rates(t: Bench) -> None:
    p, judge = t.python(), LAB.judge()
    cases: Iterable = json.loads(PRACTICE.read_text())
    if judge is not None:
        cases = judge.hidden_cases(t.random)
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
    for network in (example, *(network for network, _ in networks(t, "baselines"))):
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
    for network, _ in networks(t, "valid"):
        plan, _ = checked(p, "plan", network)
        if set(plan["workers"]) != set(network["workers"]):
            text = "a plan has exactly the network's workers"
            raise Failure(text, case=text)


@LAB.check(15, "In a mesh of switches every worker sends at its link's rate", limit_s=45)
def on_mesh(t: Bench) -> None:
    reached(t, networks(t, "meshes"))


@LAB.check(10, "In a leaf-spine every worker sends at its link's rate", limit_s=45)
def on_leaf_spine(t: Bench) -> None:
    reached(t, networks(t, "leaf_spines"))


@LAB.check(10, "The planner is never worse than nearest switch or no aggregation")
def never_worse(t: Bench) -> None:
    """The share of the points: how much of the better baseline's rate the plans have on average, at
    most all of it. Nothing where the baselines are the plans."""
    p, shares, worst = t.python(), [], None
    better = meshes = 0
    for network, best in networks(t, "both"):
        plan, (got, text) = checked(p, "plan", network)
        floor = plain(p, network)
        better += got > floor / NEARLY and best > 0
        meshes += best > 0
        shares.append(1.0 if got >= floor * NEARLY else got / floor)
        if worst is None or shares[-1] < worst[0]:
            worst = (shares[-1], network, plan, got, floor, text)
    assert worst is not None
    share, network, plan, got, floor, text = worst
    if not better:
        why = "the plans are no better than the baselines on meshes, where they can be"
        raise Failure(why, details=told(network, plan, text), case=why)
    t.share = sum(shares) / len(shares)
    t.note(f"better than both on {better} of {meshes} meshes")
    if share < 1:
        why = f"the plan allows {got:.4g}, a baseline {floor:.4g}"
        case = "some plans are worse than a baseline"
        raise Failure(why, details=told(network, plan, text), case=case)
