"""Tokens' ways to experts, and the calls that they become."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.traffic.expert_calls import FLOWS, PACKETS, RAILS, SETS, _parts, _steps
from testbed.traffic.expert_routing import ExpertRouting, read_counts
from testbed.traffic.rank_calls import load_groups
from testbed.traffic.rank_graph import COMPUTE
from testbed.traffic.rank_layout import Exchange
from testbed.traffic.rank_source import TransformerSource
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import Transformer
from tests.support.graph_laws import hold_graph

FEW = settings(max_examples=25, derandomize=True, deadline=None)
MADE = Transformer("mixtral-8x7b", 64, 4, layers=2, ep=4, experts=SETS)


@st.composite
def routings(draw: st.DrawFn) -> ExpertRouting:
    ranks = draw(st.sampled_from([2, 4, 8]))
    experts = ranks * draw(st.sampled_from([1, 2, 4]))
    k = draw(st.integers(1, min(4, experts)))
    skew = draw(st.sampled_from([0.0, 0.7, 2.0]))
    return ExpertRouting(experts, k, ranks, skew, draw(st.integers(0, 99)))


@given(routings(), st.integers(0, 60), st.integers(0, 5))
@FEW
def test_each_token_goes_to_the_other_ranks_with_its_experts(routing, tokens, layer):
    source = routing.ranks - 1
    sets = routing.sets_of(source, tokens, layer, 0)
    assert sum(sets.values()) == tokens
    held = routing.experts // routing.ranks
    for targets in sets:
        assert source not in targets and list(targets) == sorted({*targets})
        assert len(targets) <= routing.top_k and all(0 <= t < routing.ranks for t in targets)
        # Its experts fit on these ranks and its own.
        assert (len(targets) + 1) * held >= routing.top_k
    assert sets == routing.sets_of(source, tokens, layer, 0)


@given(routings(), st.integers(1, 60), st.floats(0.05, 2))
@FEW
def test_an_expert_drops_the_tokens_above_its_capacity(routing, tokens, capacity):
    """With an expert on each rank, so that tokens for a rank are those for its expert."""
    routing = replace(routing, experts=routing.ranks, top_k=min(routing.top_k, routing.ranks))
    limited = replace(routing, capacity=capacity)
    most = limited.most(tokens)
    assert most >= capacity * tokens * limited.top_k / limited.experts > most - 1

    def loads(which):
        found = which.sets_of(0, tokens, 1)
        return [sum(n for to, n in found.items() if r in to) for r in range(1, routing.ranks)]

    asked, kept = loads(routing), loads(limited)
    assert (
        routing.dropped(0, tokens, 1) == 0 and sum(limited.sets_of(0, tokens, 1).values()) == tokens
    )
    assert kept == [min(each, most) for each in asked]
    own = tokens * routing.top_k - sum(asked)
    wanted = [max(each - most, 0) for each in (*asked, own)]
    assert limited.dropped(0, tokens, 1) == sum(wanted)


def test_experts_are_chosen_by_their_weights():
    """The shares of tokens for each of four experts on ranks of their own, seen from a fifth."""
    for skew, expected in (0.0, [0.2] * 5), (1.0, [1 / i / (137 / 60) for i in range(1, 6)]):
        routing = ExpertRouting(5, 1, 5, skew)
        shares = []
        for source in range(5):
            sets = routing.sets_of(source, 4000, 3)
            shares.append(sets[()] / 4000)  # of its own expert
        assert sorted(shares, reverse=True) == pytest.approx(expected, abs=0.03)
    # In each layer another expert is the first one, each as often.
    weights = [ExpertRouting(5, 1, 5, 1.0).weights(layer) for layer in range(500)]
    first = Counter(each.index(max(each)) for each in weights)
    assert sorted(first) == [0, 1, 2, 3, 4] and min(first.values()) > 70


@given(st.data(), st.booleans(), st.integers(1, 3))
@FEW
def test_counts_of_a_file_are_weights_of_its_layers(data, of_layers, top_k):
    counts = st.lists(st.integers(1, 10**9), min_size=4, max_size=4)
    layers = data.draw(st.lists(counts, min_size=3, max_size=3))
    rows = [(n, e, c) for n, layer in enumerate(layers) for e, c in enumerate(layer)]
    first = 0 if of_layers else 1
    rows = rows if of_layers else rows[:4]
    lines = [", ".join(map(str, row[first:])) for row in data.draw(st.permutations(rows))]
    with TemporaryDirectory() as folder:
        path = Path(folder, "counts.csv")
        path.write_text("\n".join([", ".join(["layer", "expert", "count"][first:]), *lines]))
        found = read_counts(path, 3, 4, top_k)
    routing = ExpertRouting(4, top_k, 2, counts=found)
    for number, layer in enumerate(layers):
        assert routing.weights(number) == (layer if of_layers else layers[0])


@pytest.mark.parametrize(
    "text, said",
    [
        ("expert, count\n4, 1\n", "line 2: expert: found '4'; write a whole number, 0 to 3"),
        (
            "layer, expert, count\n2, 1, 1\n",
            "line 2: layer: found '2'; write a whole number, 0 to 1",
        ),
        ("expert, count\n1, -1\n", "line 2: count: found '-1'; write a whole number"),
        ("expert, count, day\n1, 1, 2\n", "line 2: unknown column 'day'; known: layer, expert"),
        (
            "expert, count\n1, 1\n2, 0\n",
            "there are counts above 0 for 1 experts; a token goes to 2",
        ),
        ("layer, expert, count\n0, 1, 1\n0, 2, 1\n", "layer 1 has counts above 0 for 0 experts"),
    ],
)
def test_a_wrong_file_of_counts_is_named(text, said, tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_counts(path, 2, 4, 2)


def bytes_given(program, kind):
    """By rank, of those that give."""
    found: Counter[int] = Counter()
    for rank, nodes in enumerate(program.ranks):
        for node in nodes:
            gives = {"dispatch": rank == node.peer, "combine": rank != node.peer}
            if node.kind == kind and gives.get(kind, True):
                found[rank] += node.bytes
    return found


@pytest.mark.parametrize(("seed", "skew", "sizes"), [(1, 0.0, (4, 1)), (2, 1.5, (2, 2))])
def test_calls_of_sets_have_the_bytes_of_flows_but_once_for_each_token(seed, skew, sizes):
    ep, tp = sizes
    by_sets = replace(MADE, routing_seed=seed, skew=skew, ep=ep, tp=tp, sequence_parallel=tp > 1)
    by_flows = replace(by_sets, experts=FLOWS)
    sets, flows = by_sets.load(), by_flows.load()
    with TemporaryDirectory() as folder:
        hold_graph(sets, Path(folder))
        hold_graph(flows, Path(folder))
    copies: Counter[int] = Counter()
    for rank, nodes in enumerate(sets.ranks):
        calls = [n for n, node in enumerate(nodes) if node.kind in ("dispatch", "combine")]
        assert nodes[calls[0]].kind == "dispatch"
        waited_for = {each for node in nodes for each in node.after}
        assert waited_for >= {*calls}, "something goes on when a call is done"
        for node in nodes:
            if node.kind == "dispatch" and rank == node.peer:
                copies[rank] += node.bytes * (len(sets.groups[node.group]) - 1)
    answers = bytes_given(sets, "combine")
    dispatched = bytes_given(sets, "dispatch")
    given = bytes_given(flows, "all_to_all")
    for rank in range(len(sets.ranks)):
        # Flows carry a copy to each rank, and the answer of each rank.
        assert given[rank] == copies[rank] + answers[rank]
        assert 0 < dispatched[rank] <= copies[rank]
    assert sum(answers.values()) == sum(copies.values())
    for made in (sets, flows):
        spent = [sum(n.duration_ns for n in nodes if n.kind == COMPUTE) for nodes in made.ranks]
        assert spent == [
            sum(n.duration_ns for n in nodes) for nodes in replace(by_sets, experts="").load().ranks
        ]


@given(st.data(), st.sampled_from([(2, 2), (2, 4), (4, 2)]), st.integers(0, 40))
@FEW
def test_by_rails_a_token_crosses_once_to_each_server_and_then_goes_on_inside(data, shape, tokens):
    servers, size = shape
    ranks = servers * size
    routing = ExpertRouting(2 * ranks, 3, ranks, 0.7, data.draw(st.integers(0, 99)))
    places = tuple(tuple(range(s * size, (s + 1) * size)) for s in range(servers))
    expected: dict[str, Counter[tuple[int, int]]] = {"across": Counter(), "inside": Counter()}
    held = tuple(range(tokens, tokens + ranks))
    for owner in range(ranks):
        for targets, count in routing.sets_of(owner, held[owner], 1, 0).items():
            for server in {each // size for each in targets}:
                relay = server * size + owner % size
                expected["across"][owner, relay] += 10 * count * (relay != owner)
                inside = [each for each in targets if each // size == server and each != relay]
                expected["inside"].update({(relay, each): 10 * count for each in inside})
    for combine in (False, True):
        found: dict[str, Counter[tuple[int, int]]] = {"across": Counter(), "inside": Counter()}
        for rank in range(ranks):
            exchange = Exchange(combine, held, 10, (1,))
            calls = _steps("ep.0", places, rank, exchange, routing)
            assert ["across" in name for name, *_ in calls] == [not combine, combine]
            for name, group, parts in calls:
                for other, part in zip(group, parts, strict=True):
                    pair = (other, rank) if combine else (rank, other)
                    found["across" if "across" in name else "inside"][pair] += part
        assert {name: +each for name, each in found.items()} == {
            name: +each for name, each in expected.items()
        }


@given(routings(), st.integers(1, 60))
@FEW
def test_flows_bring_each_rank_its_tokens_and_their_owner_the_answers(routing, tokens):
    ranks = tuple(range(routing.ranks))
    held = tuple(tokens + rank % 3 for rank in ranks)
    there, back = (
        [_parts(ranks, rank, Exchange(combine, held, 10, (1,)), routing) for rank in ranks]
        for combine in (False, True)
    )
    for owner in ranks:
        sets = routing.sets_of(owner, held[owner], 1, 0).items()
        wanted = [10 * sum(n for to, n in sets if other in to) for other in ranks]
        assert list(there[owner]) == [back[other][owner] for other in ranks] == wanted


def test_a_token_has_its_bytes_on_the_wire_whatever_bits_sums_have():
    """And an answer a value of the sum's bits for each of its numbers, of 16 bits."""
    for word in (2, 4):
        source = TransformerSource(replace(MADE, experts=PACKETS, word=word))
        for group in load_groups(source, 64):
            for call in (each for each in group.calls if group.of_tokens):
                moved = word if call.node.kind == "dispatch" else 2
                assert call.values == -(-call.node.bytes // moved)


def test_what_goes_on_inside_waits_for_what_has_crossed():
    for nodes in replace(MADE, experts=RAILS, per_server=2).load().ranks:
        calls = [(n, node) for n, node in enumerate(nodes) if node.kind == "all_to_all"]
        for (place, one), (_, two) in zip(calls[::2], calls[1::2], strict=True):
            assert two.after == (place,)
            assert {"across" in one.group, "across" in two.group} == {True, False}


def test_each_dispatch_has_its_combine_and_the_backward_pass_has_both_again():
    program = MADE.load()
    counted = defaultdict(Counter)
    for rank, nodes in enumerate(program.ranks):
        for node in nodes:
            if node.kind in ("dispatch", "combine"):
                counted[rank][node.kind, node.group, node.peer, node.bytes] += 1
    for found in counted.values():
        for (kind, *same), times in found.items():
            other = "combine" if kind == "dispatch" else "dispatch"
            assert found[(other, *same)] == times and times % 2 == 0


def test_what_does_not_fit_is_named(monkeypatch):
    with pytest.raises(TraceError, match="experts: mixtral-8x7b has ep: 1, so no tokens travel"):
        replace(MADE, ep=1).load()
    with pytest.raises(TraceError, match="the servers of group ep.0 have 3, 1 of its ranks"):
        replace(MADE, experts=RAILS, per_server=3).load()
    with pytest.raises(TraceError, match="have 1, 1, 1, 1 of its ranks; .* two or more"):
        replace(MADE, experts=RAILS, per_server=1).load()
    monkeypatch.setattr("testbed.traffic.expert_calls.MAX_SETS", 5)
    with pytest.raises(
        TraceError, match="experts: 10 sets of ranks, .* allowed: up to 5. Take calls"
    ):
        MADE.load()
