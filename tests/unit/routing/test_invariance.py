"""Rates depend on what a network is, not on how it is written down."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import networkx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.routing.canonical import canonical_order
from testbed.routing.network import Host, Link, Network, PlanJob, Switch
from testbed.routing.planners import make_plan
from testbed.sweeps.planner_scenarios import SCENARIOS
from tests.support.plan_networks import both_ways, example, small_networks

CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}
SHIPPED = ("none", "nearest", "nearest-anywhere", "grid", "grid-links", "two-level")
Given = tuple[Network, tuple[PlanJob, ...]]


def rewritten(network: Network, jobs: Sequence[PlanJob], seed: int) -> Given:
    """The same network and jobs with other names, and everything in another order."""
    draw = random.Random(seed)
    names = [each.name for each in (*network.switches, *network.hosts)]
    fresh = draw.sample(range(1000), len(names))
    name = {old: f"n{new}" for old, new in zip(names, fresh, strict=True)}

    def shuffled(values):
        return tuple(draw.sample(values, len(values)))

    return (
        replace(
            network,
            switches=shuffled([replace(each, name=name[each.name]) for each in network.switches]),
            hosts=shuffled([replace(each, name=name[each.name]) for each in network.hosts]),
            links=shuffled(
                [
                    replace(each, source=name[each.source], target=name[each.target])
                    for each in network.links
                ]
            ),
        ),
        shuffled(
            [
                replace(
                    job,
                    name=f"j{place}",
                    workers=shuffled([name[worker] for worker in job.workers]),
                    ps=name[job.ps],
                )
                for place, job in enumerate(jobs)
            ]
        ),
    )


def scaled(network: Network, jobs: Sequence[PlanJob], factor: int) -> Given:
    def times(rate: int | None) -> int | None:
        return None if rate is None else rate * factor

    return (
        replace(
            network,
            switches=tuple(
                replace(each, aggregation_bps=times(each.aggregation_bps))
                for each in network.switches
            ),
            hosts=tuple(
                replace(each, ingress_bps=times(each.ingress_bps)) for each in network.hosts
            ),
            links=tuple(
                replace(each, capacity_bps=times(each.capacity_bps)) for each in network.links
            ),
        ),
        tuple(replace(job, max_rate_bps=times(job.max_rate_bps)) for job in jobs),
    )


def rates(network: Network, jobs: Sequence[PlanJob], planner: str, **more):
    plan = make_plan(network, jobs, planner, **more)
    return sorted(worker.rate_bps for job in plan.jobs for worker in job.workers)


def agree(network: Network, jobs: Sequence[PlanJob], planner: str, seed: int, **more) -> None:
    expected = rates(network, jobs, planner, **more)
    assert rates(*rewritten(network, jobs, seed), planner, **more) == expected
    assert rates(*scaled(network, jobs, 10), planner, **more) == [10 * each for each in expected]


@settings(max_examples=8, **CHECKS)
@given(
    small_networks(),
    st.sampled_from(SHIPPED),
    st.integers(0, 10**6),
    st.sampled_from(["counted", "ignored"]),
)
def test_names_order_and_unit_change_no_rate(given_network, planner, seed, results) -> None:
    agree(*given_network, planner, seed, results=results)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("planner", SHIPPED)
@settings(max_examples=15, **CHECKS)
@given(given_network=small_networks(max_switches=6), seed=st.integers(0, 10**6))
def test_names_order_and_unit_change_no_rate_in_many_networks(planner, given_network, seed) -> None:
    agree(*given_network, planner, seed)


@pytest.mark.parametrize("planner", SHIPPED)
def test_the_worked_example_under_any_names(planner) -> None:
    for seed in range(2):
        agree(*example(), planner, seed)
    agree(*example(), "grid", 1, exact=True)


def alike(switches: int, links: Sequence[tuple[int, int]]) -> Given:
    """Equal switches and links with one worker each, and the PS on the first."""
    names = [f"s{i}" for i in range(switches)]
    hosts = [f"w{i}" for i in range(switches)]
    network = Network(
        switches=tuple(Switch(name, True, 20) for name in names),
        hosts=(*(Host(name) for name in hosts), Host("p")),
        links=both_ways(
            [
                *((names[a], names[b], 6) for a, b in links),
                *zip(hosts, names, [6] * switches, strict=True),
                ("p", names[0], 12),
            ]
        ),
    )
    return network, (PlanJob("job", tuple(hosts), "p"),)


RING = [(i, (i + 1) % 6) for i in range(6)]
# Refinement of colors alone cannot tell the nodes of these apart: a cube's corners, a Petersen
# graph's, and those of two graphs in which all nodes have three links and which are not symmetric.
HARD: dict[str, Callable[[], Given]] = {
    "ring": lambda: alike(6, RING),
    "cube": lambda: alike(8, [(a, b) for a in range(8) for b in range(a) if (a ^ b) in (1, 2, 4)]),
    "petersen": lambda: alike(10, list(networkx.petersen_graph().edges)),
    "frucht": lambda: alike(12, list(networkx.frucht_graph().edges)),
    "tutte": lambda: alike(46, list(networkx.tutte_graph().edges)),
}


@pytest.mark.parametrize("name", HARD)
def test_the_order_does_not_depend_on_names(name) -> None:
    """Two ways to write a network down become the same but for names."""
    network, jobs = HARD[name]()
    expected = shape(network, jobs)
    for seed in range(4):
        assert shape(*rewritten(network, jobs, seed)) == expected


def shape(network: Network, jobs: Sequence[PlanJob]) -> tuple:
    ordered, ordered_jobs = canonical_order(network, jobs).network_and_jobs
    place = {each.name: i for i, each in enumerate((*ordered.switches, *ordered.hosts))}
    return (
        [replace(each, name="") for each in ordered.switches],
        [(place[each.source], place[each.target], each.capacity_bps) for each in ordered.links],
        [([place[worker] for worker in job.workers], place[job.ps]) for job in ordered_jobs],
    )


def test_the_order_of_large_symmetric_networks() -> None:
    """In a fat-tree most nodes are alike."""
    topology = SCENARIOS["fat-tree"].topology()
    hosts = topology.hosts
    network = Network(
        switches=tuple(Switch(name) for name in topology.switches),
        hosts=tuple(Host(name) for name in hosts),
        links=tuple(
            Link(source, target, 10)
            for a, b in topology.links
            for source, target in ((a, b), (b, a))
        ),
    )
    jobs = (PlanJob("job", hosts[1:], hosts[0]),)
    assert shape(*rewritten(network, jobs, 1)) == shape(network, jobs)
