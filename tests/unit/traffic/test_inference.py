"""Programs of served models: bytes by formulas, computation by the roofline, and the order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.simulate.open_loop import following
from testbed.traffic import rank_source
from testbed.traffic.expert_calls import CALLS, FLOWS, PACKETS, SETS
from testbed.traffic.expert_routing import ExpertRouting
from testbed.traffic.inference import Inference
from testbed.traffic.inference_stage import KEYS, NEXT
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, check
from testbed.traffic.rank_source import InferenceSource
from testbed.traffic.serving import DECODE, PREFILL, SERVE, SERVING, Request, batched
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import GPUS, SHAPES
from tests.support.graph_laws import hold_graph

FEW = settings(max_examples=12, derandomize=True, deadline=None)
ASKED = (Request(30, 3), Request(5, 1), Request(17, 4))


@st.composite
def served(draw: st.DrawFn, **fixed: object) -> Inference:
    """Small ones."""
    asked = st.builds(Request, st.integers(1, 40), st.integers(1, 4))
    options = {
        "gpu": draw(st.sampled_from(sorted(GPUS))),
        "layers": 4,
        "tp": draw(st.sampled_from([1, 2, 4])),
        "pp": draw(st.sampled_from([1, 2])),
        **fixed,
    }
    return Inference(
        draw(st.sampled_from(sorted(SHAPES))),
        draw(st.sampled_from(SERVING)),
        draw(st.integers(1, 3)),
        tuple(draw(st.lists(asked, min_size=1, max_size=4))),
        **options,  # type: ignore[arg-type]
    )


@given(served())
@FEW
def test_programs_keep_the_laws_of_graphs_and_come_back_from_their_text(made):
    with TemporaryDirectory() as folder:
        hold_graph(made.load(), Path(folder))
    source = InferenceSource(made, 0.5)
    assert rank_source.of(str(source)) == source


@given(served())
@settings(FEW, max_examples=40)
def test_each_rank_gives_the_bytes_of_the_formulas(made):
    shape, (steps, _) = made.shape, made.schedule
    tokens = sum(step.tokens for step in steps)
    requests = sum(len(step.new) for step in steps)
    whole = 2 * tokens * shape.hidden
    program = made.load()
    for stage in range(made.pp):
        found: Counter = Counter()
        for node in program.ranks[stage * made.tp]:
            if node.kind not in (COMPUTE, RECV):
                found[node.kind, node.tag] += node.bytes
        first, final = stage == 0, stage == made.pp - 1
        expected: Counter = Counter()
        if made.tp > 1:
            expected["all_reduce", 0] = (2 * shape.layers // made.pp + first) * whole
            words = -(-shape.vocabulary // made.tp)
            expected["all_gather", 0] = final * 2 * requests * words
        if made.pp > 1:
            expected[SEND, 4] = (not final) * whole
            # Of all steps but the last one, after which none begins.
            expected[SEND, 6] = final * 4 * (requests - len(steps[-1].new))
        assert found == expected


@given(served())
@settings(FEW, max_examples=40)
def test_nothing_overlaps_and_steps_follow_each_other(made):
    """Each node but sends waits for the one before it on its rank, and a stage begins a step when
    the last stage has ended the one before."""
    program, stages = made.load(), made.stages()
    for stage, each in enumerate(stages):
        nodes = program.ranks[stage * made.tp]
        chain = [place for place, node in enumerate(nodes) if node.kind != SEND]
        for before, place in zip(chain, chain[1:], strict=False):
            assert nodes[place].after == (before,)
        for number, (begin, behind) in enumerate(each.spans):
            assert 0 <= begin < behind <= len(nodes)
            if made.pp > 1 and stage == 0 and number:
                assert (nodes[begin - 1].kind, nodes[begin - 1].tag) == (RECV, 6)
            assert {*each.computes(number)} == {
                p for p in range(begin, behind) if nodes[p].kind == COMPUTE
            }


@given(
    served(pp=2, layers=2, ep=4, experts=SETS),
    st.sampled_from(["mixtral-8x7b", "deepseek-v3"]),
    st.sampled_from(CALLS),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0, 16]),
)
@settings(FEW, max_examples=25)
def test_ep_ranks_have_batches_of_their_own_and_experts_for_the_tokens_of_all(
    made, model, calls, capacity, number
):
    """Each owner's tokens go out and come back in the step that they belong to, alike on its tp
    ranks, and each node is in one step, or between two."""
    drawn = {"experts": calls, "capacity": capacity, "number": number, "top_k": number // 4}
    made = replace(made, model=model, per_server=2 * made.tp, **drawn)
    program, shape, stages = made.load(), made.shape, made.stages()
    if calls == PACKETS:  # whose communicators traces do not have
        check(program)
    else:
        with TemporaryDirectory() as folder:
            hold_graph(program, Path(folder))
    assert rank_source.of(str(InferenceSource(made))) == InferenceSource(made)
    usual = SHAPES[model]
    sizes = (number, number // 4) if number else (usual.experts, usual.top_k)
    routing = ExpertRouting(*sizes, 4, capacity=capacity)
    dealt = [each for place in range(4) for each in made.dealt(place)]
    assert sorted(dealt) == sorted(made.requests)
    tokens = [[step.tokens for step in steps] for steps, _ in made.schedules]
    for rank, nodes in enumerate(program.ranks):
        steps, (layer, place) = made.steps_of(rank, program), divmod(rank // made.tp, 4)
        assert [*chain(*steps)] == sorted({*chain(*steps)})
        between = {*range(len(nodes))} - {*chain(*steps)}
        assert all(nodes[each].kind in (SEND, RECV) for each in between)
        template = stages[rank // made.tp]
        for number, step in enumerate(steps):
            assert sum(nodes[each].duration_ns for each in step) == sum(
                template.template.nodes[each].duration_ns for each in template.computes(number)
            )
            found: Counter = Counter()
            for node in (nodes[each] for each in step):
                other = program.ranks[rank - rank % made.tp][node.id]
                assert (node.kind, node.bytes, node.parts) == (other.kind, other.bytes, other.parts)
                if node.kind in ("dispatch", "combine") and node.peer == rank:
                    found[node.kind] += node.bytes
            first = 4 * made.tp * layer
            sets = routing.sets_of(place, tokens[place][number], layer, number, first)
            sent = 2 * shape.hidden * (sets.total() - sets[()]) * (calls in (SETS, PACKETS))
            assert found["dispatch"] == found["combine"] == sent


@pytest.mark.parametrize("shared", [0, 1])
def test_computation_of_experts_is_even_on_ep_ranks_and_their_rest_is_of_their_own_tokens(shared):
    """One request on two ep ranks: the other one computes for half of its pairs of token and
    expert, with half of the experts' weights, and nothing else."""
    model = ("mixtral-8x7b", "deepseek-v3")[shared]
    made = Inference(model, PREFILL, 1, (Request(30_000, 1),), layers=1, ep=2, experts=FLOWS)
    shape, gpu = made.shape, GPUS[made.gpu]
    one, other = (
        sum(each.template.nodes[place].duration_ns for place in each.computes(0))
        for each in made.stages()
    )
    half = 30_000 * shape.top_k * shape.mlp / gpu.peak / made.utilisation
    assert other == pytest.approx(half * 1e9, rel=1e-6)
    alone = took_ns(replace(made, ep=1, experts=""))[0]
    assert one == pytest.approx(alone - half * 1e9, rel=1e-6)


@pytest.mark.parametrize("tp, ep", [(1, 2), (2, 2), (1, 4), (4, 2)])
def test_keys_of_requests_come_from_the_ranks_that_read_their_prompts(tp, ep):
    """Requests are dealt to the ep ranks, each of which has tp ranks with a part of the keys."""
    made = Inference("mixtral-8x7b", DECODE, 1, ASKED, layers=1, tp=tp, ep=ep, experts=FLOWS)
    check(replace(made, transfers=True).load())


@given(served(transfers=True))
@settings(FEW, max_examples=25)
def test_keys_of_each_prompt_come_before_its_request_enters_and_a_batch_ahead_at_most(made):
    made = replace(made, kind=DECODE)
    program, plain = made.load(), replace(made, transfers=False).load()
    with TemporaryDirectory() as folder:
        hold_graph(program, Path(folder))
    size, shape = made.tp * made.pp, made.shape
    prompts = [each.prompt for each in made.requests]
    wanted = [4 * p * shape.kv_width * (shape.layers // made.pp) // made.tp for p in prompts]
    assert len(program.ranks) == 2 * size
    for rank in range(size):
        nodes, other = program.ranks[rank], program.ranks[size + rank]
        kept = [node for node in nodes if node.tag not in (KEYS, NEXT)]
        assert [(n.kind, n.bytes, n.duration_ns) for n in kept] == [
            (n.kind, n.bytes, n.duration_ns) for n in plain.ranks[rank]
        ]
        came = [place for place, node in enumerate(nodes) if (node.kind, node.tag) == (RECV, KEYS)]
        assert [nodes[place].bytes for place in came] == wanted
        assert [n.bytes for n in other if n.kind == SEND] == wanted
        assert all(n.peer == size + rank for n in nodes if n.tag in (KEYS, NEXT))
        # The step of a request begins behind its keys, and asks for those of a later one.
        for place in came:
            assert any(place in n.after for n in nodes if n.tag not in (KEYS, NEXT))
        asks = [n for n in nodes if (n.kind, n.tag) == (SEND, NEXT)]
        assert len(asks) == max(0, len(prompts) - made.batch)
        reads = [n for n in other if n.kind == COMPUTE]
        gated = [any(other[p].tag == NEXT for p in n.after) for n in reads]
        assert gated == [number >= made.batch for number in range(len(prompts))]


@given(served(), st.data())
@settings(FEW, max_examples=25)
def test_simulations_find_which_steps_take_which_requests(made, data):
    """With times of steps that have little to do with predicted ones, and grow with requests."""
    count = len(made.requests)
    gaps = data.draw(st.lists(st.integers(1, 10**6), min_size=count, max_size=count))
    arrivals = tuple(accumulate(gaps))
    made = replace(made, arrivals=arrivals)

    def end_ns(number, begin_ns, step):
        return begin_ns + 1000 * (1 + 37 * number % 200) + 10_000 * len(step.new)

    for _ in range(50):
        steps, answered = made.schedule
        now, ends = 0, []
        for number, step in enumerate(steps):  # what a run of this schedule takes
            comes = [arrivals[i] for i, each in enumerate(answered) if each.sent + 1 == number]
            now = end_ns(number, max([now, *comes]), step)
            ends.append(now)
        made = following(made, ends)
        if len(made.ends) == len(ends):
            break
    assert made.schedule == batched(made.kind, made.batch, made.requests, arrivals, end_ns)
    assert replace(made, paces=(1.0, 1.0)).schedule == made.schedule
    with TemporaryDirectory() as folder:
        hold_graph(made.load(), Path(folder))
    source = InferenceSource(made)
    assert rank_source.of(str(source)) == source
    assert len(made.load().ranks) == made.tp * made.pp + 1


def took_ns(made: Inference) -> list[int]:
    """Computation of each step, of all stages."""
    stages = made.stages()
    return [
        sum(each.template.nodes[place].duration_ns for each in stages for place in each.computes(n))
        for n in range(len(stages[0].spans))
    ]


@given(served())
@settings(FEW, max_examples=40)
def test_computation_is_the_longer_of_operations_and_bytes(made):
    shape, gpu = made.shape, GPUS[made.gpu]
    peak, bandwidth = gpu.peak * made.utilisation, gpu.bandwidth * made.utilisation
    for step, found in zip(made.schedule[0], took_ns(made), strict=True):
        tokens, rows, k = sum(step.new), len(step.new), max(shape.top_k, 1)
        shared = shape.shared
        pairs = sum(a * b for a, b in zip(step.new, step.context, strict=True))
        copies = min(shape.experts, tokens * k) if shape.experts else 1
        layer = [
            (2 * tokens * shape.attention, 2 * shape.attention),
            (4 * pairs * shape.core_width, 4 * shape.kv_width * sum(step.context)),
            (2 * tokens * (k + shared) * shape.mlp, 2 * (copies + shared) * shape.mlp),
            (2 * tokens * shape.hidden * shape.experts, 2 * shape.hidden * shape.experts),
        ]
        head = (2 * rows * shape.vocabulary * shape.hidden, 2 * shape.vocabulary * shape.hidden)
        parts = [*layer * shape.layers, head]
        whole = sum(max(ops / peak, size / bandwidth) for ops, size in parts) / made.tp
        assert found == pytest.approx(whole * 1e9, abs=len(parts))


def test_a_decode_step_reads_all_weights_and_a_prefill_computes():
    """One request of llama3-70b on eight H100: 141 GB at the bandwidth, whatever the batch; 2,000
    tokens at the peak."""
    made = Inference("llama3-70b", SERVE, 1, (Request(2000, 2),), "h100", 1.0, tp=8)
    prefill, decode = took_ns(made)
    shape, gpu = made.shape, GPUS["h100"]
    read = 2 * (shape.parameters - shape.embedding()) / 8
    assert decode == pytest.approx(read / gpu.bandwidth * 1e9, rel=0.01)
    operations = 2 * 2000 * shape.layers * (shape.attention + shape.mlp) / 8
    assert prefill == pytest.approx(operations / gpu.peak * 1e9, rel=0.05)  # attention is not in it
    several = replace(made, kind=DECODE, batch=16, requests=(Request(10, 1),) * 16)
    assert took_ns(several)[0] == pytest.approx(decode, rel=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pp": 3}, "parallel.pp: found 3, which does not divide the 32 layers of llama2-7b"),
        ({"tp": 3}, "parallel.tp: found 3, which does not divide the 32 heads"),
        (
            {"model": "gpt3-13b", "requests": (Request(2000, 49),)},
            "request 0 has 2049 tokens; gpt3-13b has positions for 2048",
        ),
        ({"model": "mixtral-8x7b", "ep": 2}, "parallel.ep: found 2 and no experts; write"),
        ({"experts": SETS}, "experts: llama2-7b has ep: 1, so no tokens travel"),
        ({"ep": 2, "experts": SETS}, "ep: found 2, which does not divide the 1 experts"),
        (
            {"model": "mixtral-8x7b", "ep": 2, "experts": SETS, "number": 4, "top_k": 6},
            "experts.top_k: found 6, above the number of experts, 4; write at most that",
        ),
        (
            {"model": "mixtral-8x7b", "ep": 2, "experts": SETS, "arrivals": (1, 2, 3)},
            "parallel.ep: found with times of arrival; take one of the two out",
        ),
        ({"requests": (Request(1, 100_001),)}, "100001 steps of 32 layers; allowed: up to 14925"),
        ({"layers": 1, "requests": (Request(1, 100_001),)}, "100001 .* allowed: up to 100000"),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    made = replace(Inference("llama2-7b", SERVE, 2, ASKED), **change)
    with pytest.raises(TraceError, match=words):
        made.load()


def test_a_long_prompt_alone_fits_where_its_answer_would_not():
    made = Inference("gpt3-13b", PREFILL, 1, (Request(2048, 500),), layers=1)
    made.load()
    with pytest.raises(TraceError, match="has 2548 tokens"):
        replace(made, kind=SERVE).load()
