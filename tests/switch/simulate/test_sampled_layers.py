"""Jobs of which some layers are simulated, against the same jobs with all their layers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import RunError

from testbed.analysis.data.explanations import frames_of, of_run
from testbed.analysis.style.plot_style import plot_styles
from testbed.analysis.tables import report_tables
from testbed.cli.main import main
from testbed.experiment import load_text
from testbed.results import read
from testbed.runner import run
from testbed.simulate import layer_times
from testbed.simulate.layer_times import Sizes
from tests.support.virtual import content, run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: star, hosts: %d}
links: {bandwidth: 100 Gbit/s, delay: 1 us}
virtual: {worker_jitter: 0, server_jitter: 0}
system: %s
values_per_packet: 1024
jobs:
"""
JOB = """
  - name: %s
    model: {transformer: llama2-7b, sequence: 2048, global_batch: %d, gpu: h100, layers: %s}
    parallel: {tp: %d, dp: %d, pp: %d, sharding: %s, sequence_parallel: %s}
    workers: %d
    iterations: 1
    scale: %s
    compute_scale: %s
"""
SAMPLED = "sampled, sample: {of: %d%s}"
STEADY = "{name: switchml, window: 64}"  # of 512, times of bytes change after 3,000 packets
POOLS = ("esa", "switchml", "tree", STEADY)


def text(
    layers,
    system="switchml",
    sizes=(1, 2, 1),
    sharding="zero1",
    microbatches=1,
    parallel="no",
    compute=0.002,
    names=("llm",),
    scale=0.0001,
):
    tp, dp, pp = sizes
    ranks, words = tp * dp * pp, "yes" if parallel is True else parallel or "no"
    head = EXPERIMENT % ((ranks + 1) * len(names), system)
    if system in POOLS:
        head = head.replace("jobs:", "memory: {aggregators: 2048}\njobs:")
    batch = microbatches * dp
    given = (layers, tp, dp, pp, sharding, words, ranks, scale, compute)
    return head + "".join(JOB % (name, batch, *given) for name in names)


def jobs(shown):
    return run_virtual(load_text(shown))["jobs"]


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.sampled_from(["esa", "switchml", "tree", "ring"]),
    st.sampled_from([(2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 4, 1), (2, 1, 1), (1, 1, 4)]),
    st.sampled_from(["none", "zero1", "fsdp"]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.sampled_from([0.001, 0.004, 0.02]),
)
def test_a_sample_takes_as_long_as_the_whole(
    system, sizes, sharding, microbatches, parallel, compute
):
    """Within 2 %, or the layers differ and that is said."""
    given = (system, sizes, sharding, microbatches, parallel, compute)
    layers = 6 * max(sizes[2], 2)
    try:
        (found,) = jobs(text(SAMPLED % (layers, ""), *given))
    except RunError as error:
        assert "sample.least" in str(error)
        return
    (whole,) = jobs(text(layers, *given))
    assert found["jct_ns"] == pytest.approx(whole["jct_ns"], rel=0.02)
    assert found["compute_ns"] == pytest.approx(whole["compute_ns"], rel=1e-4)
    assert found["layers"] == layers and found["layers_simulated"] == 4 * sizes[2]
    assert found["layers_ns"] == found["jct_ns"] - found["end_ns"] > 0


@pytest.mark.parametrize(("system", "sizes"), [(STEADY, (1, 2, 1)), ("ring", (1, 2, 2))])
def test_parts_of_messages_take_as_long_as_the_whole(system, sizes):
    given = {"system": system, "sizes": sizes, "compute": 0.02, "scale": 0.02}
    layers = 6 * sizes[2]
    (found,) = jobs(text(SAMPLED % (layers, ", sizes: 3, messages: 25 %"), **given))
    (whole,) = jobs(text(layers, **given))
    assert found["jct_ns"] == pytest.approx(whole["jct_ns"], rel=0.02)
    assert found["compute_ns"] == pytest.approx(whole["compute_ns"], rel=1e-4)
    assert found["values_checked"] < whole["values_checked"] / 4
    assert found["messages_simulated"] == 0.25


def test_messages_whose_parts_show_another_path_are_refused():
    """All calls are so short that only computation has parts; calls hide it in these."""
    given = {"compute": 0.02, "scale": 0.0005}
    with pytest.raises(RunError, match="by its graph, .* whole messages take 972 us and not 729"):
        jobs(text(SAMPLED % (6, ", sizes: 3, messages: 25 %"), **given))


def test_threads_that_simulate_sizes_change_no_value():
    """Three of four sizes beside the largest one, in two more threads; and the reason of a size
    that fails there ends the run."""
    spec = load_text(text(SAMPLED % (8, ""), "esa"))
    alone = run_virtual(spec)
    assert content(run_virtual(spec, threads=3)) == content(alone)
    with pytest.raises(RunError, match="no such size"), Sizes((1, 2), _fail, 2) as sizes:
        sizes.tables()


def _fail(size, tick):
    raise RunError("no such size")


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        (0.0002, r"job llm: layer 2 of .* took .*, layer 4 of .*, which differ by more than 2"),
        (0.00015, "by its graph, .* all 24 layers take .*: what decides changes"),  # 18 % longer
    ],
)
def test_layers_that_differ_are_named(compute, words):
    """A send's acknowledgement takes longer than the computation of few layers."""
    with pytest.raises(RunError, match=words):
        jobs(text(SAMPLED % (24, ""), "ring", (1, 1, 2), "none", compute=compute))


def rows(*times):
    """Rows of table jobs of two jobs with (start, end, added)."""
    keys = ("name", "layers", "start_ns", "end_ns", "layers_ns")
    return [
        dict(zip(keys, (name, 32, *each), strict=True))
        for name, each in zip("ab", times, strict=True)
    ]


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (((0, 10, 90), (5, 14, 90)), ""),
        (((0, 10, 90), (100, 110, 90)), ""),
        (((0, 10, 90), (20, 30, 90)), "b begins when the simulated layers of a are over"),
        (((0, 10, 90), (0, 12, 50)), "the one that ends first with the simulated layers ends last"),
    ],
)
def test_jobs_meet_in_the_sample_as_they_do_as_a_whole(times, words):
    if not words:
        layer_times.same_company(rows(*times))
        return
    with pytest.raises(RunError, match=words):
        layer_times.same_company(rows(*times))


@pytest.mark.slow
def test_jobs_that_share_a_network_are_sampled_together(tmp_path, capsys):
    shown = text(SAMPLED % (12, ""), "switchml", compute=0.02, names=("first", "second"))
    experiment = load_text(shown)
    assert run(experiment, tmp_path, report=False) == 0
    said = capsys.readouterr().out
    (folder,) = tmp_path.iterdir()
    results = read(folder)
    assert list(results.jobs["layers_simulated"]) == [4, 4]
    whole = run_virtual(load_text(text(12, "switchml", compute=0.02, names=("first", "second"))))
    for row, found in zip(whole["jobs"], results.jobs["jct_ns"], strict=True):
        assert found == pytest.approx(row["jct_ns"], rel=0.02)
    assert said.count("4 of 12 layers") >= 3  # of each job, and in a sentence
    frames = frames_of(results)
    assert "4 of 12 layers" in of_run(frames)[0]
    table = report_tables.comparison([results], [frames], plot_styles([results]))
    assert ["simulated", "4 of 12 layers"] in [row.values for row in table.rows]
    assert main(["ls", str(tmp_path)]) == 0
    assert "(4 of 12 layers)" in capsys.readouterr().out
