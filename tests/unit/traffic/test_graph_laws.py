"""Laws of rank graphs, of whatever makes them."""

from __future__ import annotations

from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from testbed.traffic import simai
from testbed.traffic.rank_graph import Program
from testbed.traffic.transformer import SHAPES, SHARDING, Transformer
from tests.support.graph_laws import hold_graph, hold_parameters
from tests.support.ranks import drawn, every_transfer
from tests.support.recordings import PROGRAM
from tests.support.workloads import workload

LAYERS = (
    "attention 100 ALLREDUCE 64 200 NONE 0 300 NONE 0 7",
    "experts 10 ALLTOALL_EP 64 20 REDUCESCATTER 64 30 ALLREDUCE_DP_EP 128 8",
)
FEW = settings(max_examples=8, derandomize=True)
SIZES = st.sampled_from([1, 2])


@st.composite
def transformers(draw: st.DrawFn, **fixed: object) -> Transformer:
    """Small ones whose parts fit together."""
    sizes = {key: draw(SIZES) for key in ("tp", "cp", "ep", "dp", "pp")}
    model = draw(st.sampled_from(sorted(SHAPES)))
    if not SHAPES[model].experts:
        sizes["ep"] = 1
    assume(prod(sizes.values()) <= 8)
    batch = sizes["ep"] * sizes["dp"] * draw(SIZES)
    options = {
        "layers": 2,
        "sequence_parallel": draw(st.booleans()) or SHAPES[model].experts > 0,
        "sharding": draw(st.sampled_from(SHARDING)),
        **sizes,
        **fixed,
    }
    return Transformer(model, 512, batch * 2, **options)  # type: ignore[arg-type]


@given(transformers())
@FEW
def test_generated_transformers_keep_the_laws(made):
    with TemporaryDirectory() as folder:
        hold_graph(made.load(), Path(folder))


@given(transformers(dp=2, sharding="none"))
@settings(FEW, max_examples=60)
def test_stages_have_the_parameters_of_the_whole_model(made):
    hold_parameters(made)


@given(st.integers(0, 2**32))
@settings(FEW, max_examples=25)
def test_random_programs_keep_the_laws(seed):
    made = drawn(seed)
    with TemporaryDirectory() as folder:
        hold_graph(Program(made.groups, tuple(map(tuple, made.nodes))), Path(folder))


def test_recorded_and_read_programs_keep_the_laws(tmp_path):
    hold_graph(PROGRAM, tmp_path)
    made = every_transfer()
    hold_graph(Program(made.groups, tuple(map(tuple, made.nodes))), tmp_path)
    path = tmp_path / "work.txt"
    path.write_text(workload(*LAYERS, tp=2, ep=2, gpus=8))
    hold_graph(simai.load(path), tmp_path)
