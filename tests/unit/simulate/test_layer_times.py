"""What steps of layers have to keep, and the graph that tells whether later ones take as long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import RunError

from testbed.experiment import load_text
from testbed.experiment.sampled_layers import source_of
from testbed.simulate import layer_times
from testbed.traffic.rank_graph import SEND
from testbed.traffic.rank_schedule import schedule
from testbed.traffic.rank_source import stretched

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: star, hosts: 8}
system: ring
jobs:
  - name: llm
    model:
      {transformer: llama3-8b, sequence: 2048, global_batch: 2, gpu: h100, layers: sampled,
       sample: {of: 24}}
    parallel: {tp: %d, dp: %d, pp: %d, sharding: %s}
    workers: %d
    iterations: 1
    scale: 0.0001
    compute_scale: %s
"""
TOLERANCE = 0.02


def job(compute, sizes=(1, 2, 1), sharding="none"):
    tp, dp, pp = sizes
    return load_text(EXPERIMENT % (tp, dp, pp, sharding, tp * dp * pp, compute)).jobs[0]


def call_ns(node):
    return 3500 + 8 * node.bytes // 100


def heard_ns(node):
    return call_ns(node) + 4000


def scheduled(made, simulated):
    """Table steps of a job if each call takes call_ns, and its time."""
    program = stretched(source_of(made).of_size(simulated).load(), made.compute_scale)
    found = schedule(program, lambda _, node: call_ns(node))
    spans = []
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            begin_ns, end_ns = found.begin_ns[rank][place], found.end_ns[rank][place]
            end_ns = begin_ns + heard_ns(node) if node.kind == SEND else end_ns
            spans.append((0, 0, rank, place, begin_ns, end_ns))
    keys = ("job", "iteration", "worker", "node", "start_ns", "end_ns")
    columns = dict(zip(keys, zip(*spans, strict=True), strict=True))
    return columns, max(columns["end_ns"])


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(1, 2, 1), (2, 2, 1), (1, 1, 2), (1, 2, 2)]),
    st.sampled_from(["none", "zero1", "fsdp"]),
    st.sampled_from([0.0001, 0.0005, 0.002, 0.0031, 0.0035, 0.02]),
)
def test_a_path_that_only_the_whole_shows_is_refused(sizes, sharding, compute):
    """Sums that wait for the head's, say, hold a few layers up and not many."""
    made = job(compute, sizes, sharding)
    sample = source_of(made).transformer.sample
    steps, most = scheduled(made, sample.sizes[-1])
    times = [scheduled(made, size)[1] for size in sample.sizes]
    line = most + sample.steps * (most - times[0]) // (sample.count - 1)
    _, whole = scheduled(made, 0)
    error = abs(whole - line) / whole
    if error <= TOLERANCE:
        layer_times.same_path(made, steps, 0)
        return
    with pytest.raises(RunError, match="by its graph, .* all 24 layers take"):
        layer_times.same_path(made, steps, 0)


@pytest.mark.parametrize(
    ("compute", "sizes"), [(0.0031, (1, 2, 1)), (0.0001, (1, 1, 2))], ids=["sum", "acknowledgement"]
)
def test_steps_that_agree_are_refused_where_later_ones_take_longer(compute, sizes):
    """The head's sum holds those of four layers up, and not of more; a send's acknowledgement ends
    a short job."""
    made = job(compute, sizes)
    sample = source_of(made).transformer.sample
    times = [scheduled(made, size)[1] for size in sample.sizes]
    layer_times.agree(made, [b - a for a, b in zip(times, times[1:], strict=False)])
    with pytest.raises(RunError, match="what decides changes with the number of layers"):
        layer_times.same_path(made, scheduled(made, sample.sizes[-1])[0], 0)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((1000, 1019, 1001), ""),
        ((1000, 1000, 1000), ""),
        ((1000, 1004, 1005), ""),
        ((1000, 1000, 1030), "layer 2 took 1.00 us, layer 4 1.03 us, which differ by more than 2"),
        ((1000, 1004, 1008), "each step takes longer than the one before it, by more than 0.5 %"),
        ((1008, 1004, 1000), "each step takes less than the one before it"),
        ((-1000, -1000, -1000), "which differ"),
    ],
)
def test_steps_have_to_agree(steps, words):
    made = job(0.002)
    if not words:
        layer_times.agree(made, steps)
        return
    with pytest.raises(RunError, match=words):
        layer_times.agree(made, steps)


def test_parts_of_messages_have_to_agree():
    made = load_text(
        (EXPERIMENT % (1, 2, 1, "none", 2, 0.002)).replace("of: 24", "of: 24, messages: 25 %")
    ).jobs[0]
    layer_times.agree_on_parts(made, (1000, 1100, 1300))
    with pytest.raises(RunError, match="6.2 % to 12.5 % of them, as of all, 1.60 us, 12.5 % to"):
        layer_times.agree_on_parts(made, (1000, 1100, 1310))
