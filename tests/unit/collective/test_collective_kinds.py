"""The table of collectives: what follows from it, and that nothing else lists the kinds."""

from __future__ import annotations

import ast

import pytest

from testbed.algorithms.bounds import cost
from testbed.algorithms.chunk import Group
from testbed.collective import client, ina_recorder
from testbed.collective_kinds import CARRIED, COLLECTIVES, OWN, ROOT, WHOLE
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node
from tests.support.paths import ROOT as CHECKOUT
from tests.support.paths import files_of_checkout

# Files with more than some kinds, and why.
LISTS = {
    "testbed/collective_kinds.py": "the table",
    "testbed/collective/client.py": "a method for each",
    "testbed/collective/ina_recorder.py": "PyTorch's calls; it runs without the testbed",
    "testbed/collective/torch_backend.py": "a method for each",
    "traffic/server_steps.py": "the steps of an all_reduce",
    "traffic/simai.py": "those that SimAI's files have",
    "traffic/transformer_stage.py": "those that training calls",
}
SOME = 2  # kinds that a file may name


def test_results_follow_from_what_ranks_give_and_get():
    array = [[10 * rank + place for place in range(4)] for rank in range(2)]
    assert {name: kind.results(array, 1) for name, kind in COLLECTIVES.items()} == {
        "all_reduce": [[10, 12, 14, 16]] * 2,
        "reduce_scatter": [[10, 12], [14, 16]],
        "all_gather": [[0, 1, 2, 3, 10, 11, 12, 13]] * 2,
        "broadcast": [[10, 11, 12, 13]] * 2,
        "reduce": [[], [10, 12, 14, 16]],
        "dispatch": [[10, 11, 12, 13]] * 2,
        "combine": [[], [0, 1, 2, 3]],
        "barrier": [[10, 12, 14, 16]] * 2,
        "all_to_all": [[0, 1, 10, 11], [2, 3, 12, 13]],
        "gather": [[], [0, 1, 2, 3, 10, 11, 12, 13]],
        "scatter": [[10, 11], [12, 13]],
    }


@pytest.mark.parametrize("kind", COLLECTIVES.values(), ids=list(COLLECTIVES))
def test_a_kind_s_facts_fit_together(kind):
    ranks = 4
    array = [[0] * kind.given_size(8, ranks)] * ranks
    sizes = {WHOLE: [8] * ranks, OWN: [2] * ranks, ROOT: [0, 0, 8, 0]}
    assert [len(each) for each in kind.results(array, 2)] == sizes[kind.gets]
    assert kind.array_size(kind.given_size(8, ranks), ranks) == 8
    if kind.name in CARRIED:  # a rank's link carries at least what the rank gets, and does not have
        found = cost("ring", kind.name, Group(tuple(range(ranks))))
        least = (sizes[kind.gets][1] - (0 if kind.sums else sizes[kind.gives][1])) / 8
        assert found.received(1) >= least * (ranks - 1) / ranks
        assert hasattr(client.Job, kind.call or kind.name)


def test_the_recorder_that_runs_alone_has_the_same_numbers():
    kinds = ina_recorder.COMM_TYPES
    assert {name: COLLECTIVES[name].chakra[0] for name in kinds} == kinds
    assert {kind for kind, *_ in ina_recorder.OPERATIONS.values()} == {*kinds, "send", "recv"}


def test_traces_have_each_kind_and_its_root():
    numbers = [number for kind in COLLECTIVES.values() for number in kind.chakra]
    assert len(numbers) == len({*numbers})
    for name, kind in COLLECTIVES.items():
        found = chakra._attributes(Node(name, peer=3), 0, {})
        ends = {key: found[key] for key in ("comm_src", "comm_dst") if key in found}
        gives = {"comm_src": 3} if kind.gives == ROOT else {"comm_dst": 3}
        assert ends == (gives if kind.rooted else {})


def test_nothing_else_lists_the_kinds():
    """A new kind is to be known everywhere: so other files ask the table."""
    found = {}
    for path in files_of_checkout("testbed/*.py", "traffic/*.py", "analysis/*.py"):
        text = path.read_text()
        if "all_reduce" not in text and "reduce_scatter" not in text:
            continue
        nodes = ast.walk(ast.parse(text))
        words = {each.value for each in nodes if isinstance(each, ast.Constant)}
        if len(kinds := {each for each in words if each in COLLECTIVES}) > SOME:
            found[path.relative_to(CHECKOUT).as_posix()] = sorted(kinds)
    assert found.keys() <= LISTS.keys(), found
    assert LISTS.keys() <= {*found}, "take these out"
