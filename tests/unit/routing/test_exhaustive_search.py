"""The best plans of tiny networks, found by trying all of them, against the planners' plans.

The search is written without the planners' code: paths from networkx, loads by counting, max-min
fair rates by asking, step by step, who can still have more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.routing import leximin
from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.routing.planners import make_plan
from tests.support.plan_networks import all_paths, result_trees, small_networks

CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}

Rates = list[Fraction]


def choices(network: Network, jobs: Sequence[PlanJob], aggregate: bool) -> Iterator[list]:
    """Every choice: for each job the workers' paths, and the aggregators' paths onward."""
    per_job = []
    for job in jobs:
        nodes = [job.ps]
        if aggregate:
            nodes += [switch.name for switch in network.switches if switch.aggregates]
        ways = [
            [path for node in nodes for path in all_paths(network, worker, node)]
            for worker in job.workers
        ]
        found = []
        for paths in product(*ways):
            used = sorted({path[-1] for path in paths} - {job.ps})
            for onward in product(*(all_paths(network, node, job.ps) for node in used)):
                found.append((paths, onward))
        per_job.append(found)
    yield from product(*per_job)


def consumers(network: Network, jobs: Sequence[PlanJob], choice) -> list[tuple[int, list[set]]]:
    """(capacity, sets of workers): a load is the sum over its sets of each one's largest rate."""
    sets: dict[tuple, list[set]] = {}
    number = 0
    for job, (paths, onward) in zip(jobs, choice, strict=True):
        groups: dict[str, set] = {path[0]: set() for path in onward}
        for path in paths:
            for ends in pairwise(path):
                sets.setdefault(ends, []).append({number})
            if path[-1] == job.ps:
                sets.setdefault(("in", job.ps), []).append({number})
            else:
                sets.setdefault(("at", path[-1]), []).append({number})
                groups[path[-1]].add(number)
            number += 1
        for path in onward:
            for ends in pairwise(path):
                sets.setdefault(ends, []).append(groups[path[0]])
            sets.setdefault(("in", job.ps), []).append(groups[path[0]])
    capacities = {(link.source, link.target): link.capacity_bps for link in network.links}
    capacities |= {("at", switch.name): switch.aggregation_bps for switch in network.switches}
    capacities |= {("in", host.name): host.ingress_bps for host in network.hosts}
    return [(capacities[key], each) for key, each in sets.items() if capacities[key] is not None]


def common(limits: list[tuple[int, list[set]]]) -> Fraction:
    return min(Fraction(capacity, len(each)) for capacity, each in limits)


def fair(limits: list[tuple[int, list[set]]], workers: int) -> Rates:
    rates: dict[int, Fraction] = {}
    while len(rates) < workers:
        level = None
        for capacity, sets in limits:
            fixed = sum(
                (max(rates[w] for w in each) for each in sets if each <= rates.keys()), Fraction(0)
            )
            growing = sum(not each <= rates.keys() for each in sets)
            if growing:
                at = (capacity - fixed) / growing
                level = at if level is None else min(level, at)
        assert level is not None
        trial = {w: rates.get(w, level) for w in range(workers)}
        for capacity, sets in limits:
            if sum((max(trial[w] for w in each) for each in sets), Fraction(0)) == capacity:
                for each in sets:
                    for worker in each - rates.keys():
                        if trial[worker] == level:
                            rates[worker] = level
    return [rates[worker] for worker in range(workers)]


def best_rate(network: Network, jobs: Sequence[PlanJob], aggregate: bool) -> Fraction:
    """The largest smallest rate of any choice."""
    return max(
        common(consumers(network, jobs, choice)) for choice in choices(network, jobs, aggregate)
    )


def best_rates(network: Network, jobs: Sequence[PlanJob], aggregate: bool) -> Rates:
    """The best sorted rates: the smallest as large as can be, then the next, and so on."""
    workers = sum(len(job.workers) for job in jobs)
    best = best_rate(network, jobs, aggregate)
    return max(
        sorted(fair(limits, workers))
        for choice in choices(network, jobs, aggregate)
        for limits in [consumers(network, jobs, choice)]
        if common(limits) == best
    )


TINY = st.one_of(
    small_networks(jobs=1, workers=3, max_switches=3),
    small_networks(jobs=2, workers=1, max_switches=3),
)


def sorted_rates(plan):
    return sorted(worker.rate_bps for job in plan.jobs for worker in job.workers)


def rates_without_results(given_network):
    return sorted_rates(make_plan(*given_network, "grid-links", results="ignored"))


def agree_with_all_choices(network, jobs) -> None:
    for planner, aggregate in (("none", False), ("grid-links", True)):
        plan = make_plan(network, jobs, planner, results="ignored")
        assert sorted_rates(plan) == best_rates(network, jobs, aggregate)


def best_rate_with_results(network: Network, jobs: Sequence[PlanJob], aggregate: bool) -> Fraction:
    """The largest smallest rate of any choice with any trees of results."""
    trees = [result_trees(network, job) for job in jobs]
    capacities = {(link.source, link.target): link.capacity_bps for link in network.links}
    best = Fraction(0)
    for choice in choices(network, jobs, aggregate):
        limits = consumers(network, jobs, choice)
        if common(limits) <= best:
            continue
        loads: dict[tuple, int] = {}
        for paths, onward in choice:
            for path in (*paths, *onward):
                for ends in pairwise(path):
                    loads[ends] = loads.get(ends, 0) + 1
        for chosen in product(*trees):
            every = dict(loads)
            if any(
                not {path[0] for path in onward} <= nodes
                for (nodes, _), (_, onward) in zip(chosen, choice, strict=True)
            ):
                continue
            for _, links in chosen:
                for ends in links:
                    every[ends] = every.get(ends, 0) + 1
            rate = min(Fraction(capacities[ends], count) for ends, count in every.items())
            best = max(best, min(rate, common(limits)))
    return best


@settings(max_examples=10, **CHECKS)
@given(small_networks(jobs=1, workers=3, max_switches=3))
def test_no_choice_with_results_is_better(given_network) -> None:
    network, jobs = given_network
    for planner, aggregate in (("none", False), ("grid-links", True)):
        plan = make_plan(network, jobs, planner)
        assert plan.rate_bps == best_rate_with_results(network, jobs, aggregate)


@settings(max_examples=10, **CHECKS)
@given(small_networks(jobs=1, workers=2, max_switches=3, homes=2))
def test_no_choice_is_better_for_hosts_with_several_links(given_network) -> None:
    agree_with_all_choices(*given_network)
    test_no_choice_with_results_is_better.hypothesis.inner_test(given_network)


@pytest.mark.slow
@settings(max_examples=100, **CHECKS)
@given(TINY)
def test_no_choice_with_results_is_better_in_many_networks(given_network) -> None:
    test_no_choice_with_results_is_better.hypothesis.inner_test(given_network)


@settings(max_examples=10, **CHECKS)
@given(TINY)
def test_no_choice_is_better(given_network) -> None:
    agree_with_all_choices(*given_network)


@pytest.mark.slow
@settings(max_examples=100, **CHECKS)
@given(TINY)
def test_no_choice_is_better_in_many_networks(given_network) -> None:
    network, jobs = given_network
    for planner, aggregate in (("none", False), ("grid-links", True)):
        plan = make_plan(network, jobs, planner, results="ignored")
        assert plan.rate_bps == best_rate(network, jobs, aggregate)


def one_job(aggregating: str, links: str) -> tuple[Network, tuple[PlanJob]]:
    """Three switches, three workers and their PS p; `links`: "s1 s2 3 1, ..." with the capacities
    there and back."""
    made = []
    for source, target, there, back in (each.split() for each in links.split(",")):
        made += [Link(source, target, int(there)), Link(target, source, int(back))]
    network = Network(
        switches=tuple(Switch(f"s{n}", f"s{n}" in aggregating.split(), None) for n in (1, 2, 3)),
        hosts=tuple(Host(name) for name in ("w1", "w2", "w3", "p")),
        links=tuple(made),
    )
    return network, (PlanJob("job", ("w1", "w2", "w3"), "p"),)


ALIKE = "s2 s1 1 1, s3 s1 1 3, s3 s2 3 1, w1 s1 1 1, w2 s1 2 1, w3 s1 2 1, p s2 1 4"
WITH_ITS_PATH = "s2 s1 1 1, s3 s1 1 3, s3 s2 3 1, w1 s1 3 1, w2 s1 1 1, w3 s1 1 1, p s2 1 3"
WHOLE_GROUP = "s2 s1 2 2, s3 s1 6 11, s3 s2 2 8, w1 s2 7 9, w2 s2 5 6, w3 s3 2 12, p s3 6 3"


@pytest.mark.parametrize(
    ("aggregating", "links", "rates"),
    [("s1", ALIKE, [1, 2, 2]), ("s1", WITH_ITS_PATH, [1, 1, 3])],
)
@pytest.mark.parametrize("all_choices", [leximin.MAX_EXHAUSTIVE, 0])
def test_two_steps_at_once(aggregating, links, rates, all_choices, monkeypatch):
    """A worker moves with another one, or with the aggregate that it joins; found by looking at all
    choices, and by climbing."""
    monkeypatch.setattr(leximin, "MAX_EXHAUSTIVE", all_choices)
    assert rates_without_results(one_job(aggregating, links)) == rates


def test_a_whole_group_goes_elsewhere():
    given_network = one_job("s2 s3", WHOLE_GROUP)
    assert rates_without_results(given_network) == [2, 3, 3]
    agree_with_all_choices(*given_network)
