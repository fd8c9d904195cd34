"""Lab 9: a planner's mark does not depend on which networks are drawn."""

from __future__ import annotations

import random

import pytest

from labs._teacher import solution
from labs._teacher.lab9_routing import judge
from labs.grader.grade import grade
from labs.grader.lab import find_lab
from labs.grader.seeds import Seed
from labs.lab9_routing.networks import SETS, check_plan
from labs.tests.support import first_of
from labs.tests.support.hostile_submission import NO_SANDBOX

LAB = "lab9_routing"
PLANNER = (solution(LAB) / "planner.py").read_text()
# Moves one worker off each switch that has too many, to the one that has most room.
WEAK = """

def plan(network):
    best, graph = plan_nearest(network), _graph(network)
    room = dict(network["switches"])
    speed = max(c for *ends, c in network["links"] if {*ends} & set(network["workers"]))
    for node, _ in best["workers"].values():
        room[node] -= speed
    for worker, (node, _) in list(best["workers"].items()):
        other = max(room, key=lambda name: (room[name], name))
        if room[node] < 0 and room[other] >= speed:
            through = graph.subgraph([*network["switches"], worker, network["ps"]])
            path = networkx.shortest_path(through, worker, other)
            best["workers"][worker] = [other, path]
            best["aggregates"][other] = networkx.shortest_path(through, other, network["ps"])
            room[node] += speed
            room[other] -= speed
    used = {node for node, _ in best["workers"].values()}
    best["aggregates"] = {s: p for s, p in best["aggregates"].items() if s in used}
    return best
"""
# The same, in the order that sets have.
BY_SETS = WEAK.replace(
    "max(room, key=lambda name: (room[name], name))", "max({*room}, key=room.get)"
)
BY_SETS = BY_SETS.replace(
    'for worker, (node, _) in list(best["workers"].items()):',
    'for worker in {*best["workers"]}:\n        node = best["workers"][worker][0]',
)
# Moves workers anywhere, if the coin says so.
COINS = """

def plan(network):
    best, graph = plan_nearest(network), _graph(network)
    for worker in list(best["workers"]):
        if random.random() < 0.2:
            other = random.choice(list(network["switches"]))
            through = graph.subgraph([*network["switches"], worker, network["ps"]])
            path = networkx.shortest_path(through, worker, other)
            best["workers"][worker] = [other, path]
            best["aggregates"][other] = networkx.shortest_path(through, other, network["ps"])
    used = {node for node, _ in best["workers"].values()}
    best["aggregates"] = {s: p for s, p in best["aggregates"].items() if s in used}
    return best
"""


@pytest.mark.parametrize("name", SETS)
def test_hidden_networks_differ_in_scale_alone(name):
    one, other = (judge.networks(random.Random(seed), name) for seed in (1, 2))
    assert one != other and len(one) == len(other)
    for (first, rate), (second, other_rate) in zip(one, other, strict=True):
        scale = second["ps_ingress"] / first["ps_ingress"]
        assert [[a, b, c * scale] for a, b, c in first["links"]] == second["links"]
        assert first["workers"] == second["workers"] and first["ps"] == second["ps"]
        assert {s: c * scale for s, c in first["switches"].items()} == second["switches"]
        assert other_rate == rate * scale


def test_hidden_cases_have_plans_that_can_be_run_and_their_rates():
    one, other = (list(judge.hidden_cases(random.Random(seed))) for seed in (1, 2))
    assert [case for case, *_ in one] == [case for case, *_ in other] and one != other
    for _, network, plan, rate, _ in one:
        check_plan(network, plan)
        assert rate == judge.bottleneck(network, plan)[0]


@NO_SANDBOX
@pytest.mark.parametrize("planner", first_of([BY_SETS, WEAK, COINS], 1))
def test_a_planner_has_the_same_points_whatever_is_drawn(planner, tmp_path, monkeypatch):
    (tmp_path / "planner.py").write_text(PLANNER + planner)
    lab = find_lab("9")
    judged = ("valid", "on_mesh", "on_leaf_spine", "never_worse")
    monkeypatch.setattr(lab, "checks", [c for c in lab.checks if c.name in judged])
    seeds = [Seed(secret=b"a secret of the class", student=s) for s in ("ada", "bob")]
    seeds += [Seed(secret=b"another one, of next year", student="ada")]
    made = [grade(lab, tmp_path, seed) for seed in seeds]
    points = [[o.points for o in each.outcomes] for each in made]
    assert points[0] == points[1] == points[2]
    assert 10 < made[0].points < 35, points
