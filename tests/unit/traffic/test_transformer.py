"""Transformers: parameters against published ones, operations against a closed formula, order. The
bytes of any stage, its passes and when it gathers weights are laws (test_graph_laws.py)."""

from __future__ import annotations

import pytest

from testbed.traffic import transformer_stage
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, check
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import GPUS, SHAPES, Transformer
from tests.support.paths import ROOT

TOKENS = 4096
PUBLISHED = {  # of the released weights; of GPT-3, 13.0 and 175.0 billion in the paper's table
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
}


@pytest.mark.parametrize("model", sorted(PUBLISHED))
def test_parameters_are_those_of_the_released_models(model):
    assert SHAPES[model].parameters == PUBLISHED[model]


@pytest.mark.parametrize("model, billions", [("gpt3-13b", 13.0), ("gpt3-175b", 175.0)])
def test_parameters_of_gpt3_follow_from_its_formula(model, billions):
    shape = SHAPES[model]
    count, hidden = shape.layers, shape.hidden
    layers = count * (12 * hidden**2 + 13 * hidden)
    assert shape.parameters == layers + (50_257 + 2048) * hidden + 2 * hidden
    assert abs(shape.parameters / 1e9 - billions) < 0.5


def test_parameters_of_deepseek_are_those_of_its_report_with_its_three_dense_layers():
    shape = SHAPES["deepseek-v3"]
    dense = 3 * (shape.attention + 3 * 7168 * 18_432 + 2 * 7168 + 1536 + 512)
    assert round((shape.parameters + dense) / 1e9) == 671
    layer = shape.attention + (8 + 1) * 3 * 7168 * 2048 + 7168 * 256  # of a token
    assert round((58 * layer + dense + shape.words() + shape.head()) / 1e9, 1) == 37.6
    (whole, experts), (parts, few) = shape.layer(), shape.layer(tp=4, ep=64)
    assert (parts, few) == (whole - (whole - 7168 * (256 + 2) - 2048) * 3 // 4, experts // 256)
    assert 4 * shape.kv_width == 2 * (512 + 64)  # bytes of a token's keys and values


def test_attention_waits_for_the_keys_of_the_ring_and_their_gradients_go_round():
    """Two passes round a ring of three: each step computes with what the step before has received,
    and the gradients of keys leave with those that have come."""
    program = Transformer("llama2-7b", 3072, global_batch=1, cp=3, layers=1).load()
    nodes = program.ranks[0]

    def of(kind: str, tag: int) -> list[int]:
        return [at for at, node in enumerate(nodes) if node.kind == kind and node.tag == tag]

    for tag in (1, 2):  # keys and values, forward and backward
        sends, receives = of(SEND, tag), of(RECV, tag)
        assert len(sends) == len(receives) == 2
        first, second = receives
        assert nodes[sends[1]].after == (first,)  # what has come goes on
        for received in receives:
            (after,) = (each for each in nodes if each.kind == COMPUTE and received in each.after)
            assert any(nodes[before].kind == COMPUTE for before in after.after)
    sends, receives = of(SEND, 3), of(RECV, 3)
    assert len(sends) == len(receives) == 3
    for send, received in zip(sends[1:], receives, strict=False):
        assert received in nodes[send].after
    (last,) = (each for each in nodes if each.kind == COMPUTE and receives[-1] in each.after)
    assert last.duration_ns > 0


@pytest.mark.parametrize("more, alone", [(0, 3), (1, 0)])
def test_a_bucket_is_full_with_the_values_that_fill_it(more, alone, monkeypatch):
    """The head takes a layer along; each other layer has a bucket of its own if it fills one."""
    layer, _ = SHAPES["llama2-7b"].layer()
    monkeypatch.setattr(transformer_stage, "BUCKET_VALUES", layer + more)
    nodes = Transformer("llama2-7b", 512, global_batch=2, dp=2, layers=4).load().ranks[0]
    assert [node.bytes for node in nodes if node.kind == "all_reduce"].count(4 * layer) == alone


def test_computation_is_that_of_megatrons_formula():
    """72 B s l h^2 (1 + s / 6h + V / 12lh) operations without recomputation, for all ranks."""
    made = Transformer(
        "gpt3-175b", 2048, global_batch=32, tp=8, pp=4, dp=2, gpu="h100", utilisation=0.4
    )
    shape, batch, sequence = made.shape, 32, 2048
    layers, hidden, words = shape.layers, shape.hidden, shape.vocabulary
    operations = 72 * batch * sequence * layers * hidden**2
    operations *= 1 + sequence / (6 * hidden) + words / (12 * layers * hidden)
    program = made.load()
    spent = sum(node.duration_ns for nodes in program.ranks for node in nodes)
    updates = 0
    for nodes in program.ranks:
        updates += [node for node in nodes if node.kind == COMPUTE][-1].duration_ns
    expected = operations / (GPUS["h100"].peak * 0.4) * 1e9
    assert spent - updates == pytest.approx(expected, rel=1e-4)


def test_equal_nodes_of_ranks_are_one_object():
    """64 ranks of llama2-7b have a node in common wherever groups and peers allow it."""
    program = Transformer("llama2-7b", TOKENS, global_batch=64, tp=8, dp=8).load()
    nodes = [node for each in program.ranks for node in each]
    template = len(program.ranks[0])
    assert len(nodes) == 64 * template
    assert len({id(node) for node in nodes}) < 9 * template


def test_measured_times_are_those_of_the_file():
    made = Transformer(
        "llama2-70b", 4096, global_batch=1, tp=8, gpu="h200", times="measured", layers=1
    )
    times = [node.duration_ns for node in made.load().ranks[0] if node.kind == COMPUTE]
    # llama3-70b has the same layers: attention 365.8 us forward and 1170.7 us with backward, MLP
    # 1065.4 us and 3524.4 us.
    forward, backward = times[:2], times[5:9]
    assert forward == [365_800, 1_065_400]
    assert sum(backward) == 1_170_700 - 365_800 + 3_524_400 - 1_065_400
    # Where the gradient of the input alone took longer than both, it has all of the time.
    small = Transformer("llama2-7b", 4096, 1, tp=8, gpu="h200", times="measured", layers=1)
    program = small.load()
    check(program)
    times = [node.duration_ns for node in program.ranks[0] if node.kind == COMPUTE]
    assert sum(times[5:-1]) == 717_500 - 199_900 + 783_700 - 266_000


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pp": 3}, "parallel.pp: found 3, which does not divide the 32 layers of llama2-7b"),
        ({"tp": 3}, "parallel.tp: found 3, which does not divide the 32 heads of keys and values"),
        ({"ep": 2}, "parallel.ep: found 2, which does not divide the 1 experts"),
        ({"cp": 3}, "parallel.cp: found 3, which does not divide the 4096 tokens"),
        ({"dp": 3}, "global_batch: found 64, no multiple .* 3 replicas .* Write 63"),
        ({"micro_batch": 65}, "global_batch: found 64, .* Write 65"),
        (
            {"sequence": 12, "tp": 8, "sequence_parallel": True},
            "parallel.sequence_parallel: tp: 8 times cp: 1 does not divide the sequence of 12",
        ),
        ({"model": "mixtral-8x7b", "tp": 2}, "mixtral-8x7b has experts, which with tp above 1"),
        ({"model": "gpt3-13b"}, "sequence: found 4096; gpt3-13b has positions for 2048 tokens"),
        ({"times": "measured"}, "times: measured: they are those of gpu: h200"),
        (
            {"times": "measured", "gpu": "h200", "sequence": 1024},
            "there are none of llama2-7b with sequence 1024, .* Measured are sequence 2048, micro",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(options, message):
    made = Transformer(**{"model": "llama2-7b", "sequence": 4096, "global_batch": 64} | options)
    with pytest.raises(TraceError, match=message):
        made.load()


def test_the_page_has_the_tokens_per_second_of_the_program():
    text = (ROOT / "docs" / "workloads.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    published = {
        "llama2-7b": 2e12 / 184_320 / 3600,
        "llama2-13b": 2e12 / 368_640 / 3600,
        "llama2-70b": 2e12 / 1_720_320 / 3600,
        "gpt3-175b": 3e11 / 1024 / 34 / 86_400,
    }
    found = 0
    for row in rows:
        if len(row) == 6 and row[0] in published:
            name, gpu, parallel, *tokens, _ = row
            sizes = {part.split()[0]: int(part.split()[1]) for part in parallel.split(", ")}
            gpt = name == "gpt3-175b"
            made = Transformer(
                name, 2048 if gpt else 4096, 1536 if gpt else 1024, gpu=gpu, dp=8, **sizes
            )
            program = made.load()
            stages = range(0, len(program.ranks), len(program.ranks) // made.pp)
            slowest = max(sum(node.duration_ns for node in program.ranks[rank]) for rank in stages)
            computed = made.tokens / made.layout.ranks / slowest * 1e9
            assert tokens == [f"{computed:,.0f}", f"{published[name]:,.0f}"]
            found += 1
        if row and row[0] in SHAPES and len(row) == 7:
            assert row[1] == f"{SHAPES[row[0]].parameters:,}"
            found += 1
    assert found == len(published) + len(SHAPES)
