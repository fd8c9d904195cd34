"""Layers that stand for all: sizes differ by whole buckets of gradients."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import SHAPES, Transformer


def work(transformer: Transformer) -> list[Counter]:
    """Counts of the calls of each stage, without what grows with its layers: the sum of its norms'
    gradients, and the update."""
    stages, norm = [], transformer.shape.norm
    layers = (transformer.simulated or transformer.shape.layers) // transformer.pp
    for stage, template in enumerate(transformer.load().ranks.templates):
        counts = Counter((node.kind, node.group, node.bytes) for node in template.nodes)
        last = stage == transformer.pp - 1
        counts["all_reduce", "tp", 4 * (2 * norm * layers + last * norm)] -= transformer.tp > 1
        stages.append(+counts)
    return stages


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([(1, 1, 1), (2, 2, 1), (4, 2, 2), (8, 2, 1), (8, 1, 4), (1, 4, 2)]),
    st.sampled_from(["none", "zero1", "fsdp"]),
    st.integers(3, 5),
)
def test_steps_add_the_same_calls_as_those_that_are_left_out(model, sizes, sharding, count):
    tp, dp, pp = sizes
    assume(SHAPES[model].layers % pp == 0)
    ep = 2 if SHAPES[model].experts else 1
    whole = Transformer(
        model,
        1024,
        4 * dp * ep,
        tp=tp,
        dp=dp,
        pp=pp,
        ep=ep,
        sharding=sharding,
        sizes=count,
        sequence_parallel=tp > 1,
    )
    try:
        sample = whole.sample
    except TraceError as error:
        assert "Take layers out" in str(error)
        assume(False)
    sampled = [work(whole.of_size(each)) for each in sample.sizes]
    for stage, expected in enumerate(work(whole)):
        steps = [after[stage] - before[stage] for before, after in pairwise(sampled)]
        assert all(each == steps[0] for each in steps) and steps[0]
        for call, times in steps[0].items():
            assert expected[call] == sampled[-1][stage][call] + sample.steps * times
        assert expected.keys() == sampled[-1][stage].keys()


def test_a_stage_with_too_few_layers_has_no_sample():
    with pytest.raises(
        TraceError, match="simulates 1, 2, 3, 4 layers of a stage, and a stage has 3"
    ):
        _ = Transformer("llama2-7b", 1024, 4, layers=12, pp=4).sample
    sample = Transformer("llama2-7b", 1024, 4, layers=20, pp=4).sample
    assert (sample.sizes, sample.steps, sample.added(1)) == (
        (4, 8, 12, 16),
        1,
        "layer 2 of each stage",
    )


def test_layers_that_share_a_bucket_are_added_together():
    sample = Transformer("llama2-7b", 1024, 4, tp=8, dp=2).sample  # 25 million values, of 42
    assert (sample.sizes, sample.steps, sample.added(2)) == ((2, 4, 6, 8), 12, "layers 5 to 6")
