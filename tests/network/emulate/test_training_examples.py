"""The shipped examples that train: each reaches what it promises, through the switches."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from testbed.analysis.data.reported_data import reported
from testbed.analysis.data.sweep_data import read_sweep
from tests.support.paths import ROOT
from tests.support.runs import run, succeeded

FOLDER = ROOT / "experiments"
FIGURE = FOLDER / "figures" / "learning.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, needs, changed, measure",
    [
        # The shipped ones take some minutes.
        ("train_clicks", "torch", ("--area 0.8", "--steps 100 --area 0.75"), "area"),
        ("train_text", "torch", ("--steps 150 --loss 2.7", "--steps 12 --loss 3.6"), "test_loss"),
        ("train_jax", "jax", ("--accuracy 0.9", "--accuracy 0.9"), "accuracy"),
    ],
)
def test_an_example_reaches_its_mark(tmp_path: Path, name, needs, changed, measure):
    if find_spec(needs) is None:
        pytest.skip(f"needs {needs}: pip install '.[{needs}]'")
    text = (FOLDER / f"{name}.yaml").read_text()
    assert changed[0] in text
    read = succeeded(
        text.replace(*changed).replace("../examples", str(ROOT / "examples")), tmp_path / "results"
    )
    assert measure in set(read.measures.name)
    assert read.jobs.iloc[0].values_checked > 1_000_000, "gradients went through the network"


def counted(groups: str, *what: str) -> set[tuple[str, ...]]:
    """What each of some groups counts. groups: such as "0 1, 2 3"; what: such as "all_reduce
    float32 system"."""
    return {(group, *each.split()) for group in groups.split(", ") for each in what}


# Examples of parallel training: their arguments in the experiment and here, and which floats of
# which groups go where.
PARALLEL = {
    "mesh": (
        ("--loss 2.9", "--steps 15 --batch 8 --loss 3.5"),
        counted("0 1 2 3, 4 5 6 7, 0 4, 1 5, 2 6, 3 7", "all_reduce float32 system")
        # The parameters, at the beginning: shares of some, the whole of others.
        | counted("0 1 2 3, 4 5 6 7", "scatter float32 gloo", "broadcast float32 system"),
    ),
    "servers": (
        ("--loss 2.9", "--steps 15 --batch 8 --loss 3.5"),
        counted("0 1 2 3, 4 5 6 7, 0 4, 1 5, 2 6, 3 7", "all_reduce float32 system")
        | counted("0 1 2 3, 4 5 6 7", "scatter float32 gloo", "broadcast float32 system"),
    ),
    "sharded": (
        ("--loss 2.9", "--steps 15 --loss 3.5 --save {folder}/text.pt"),
        counted("all", "all_gather bfloat16 system", "reduce_scatter float32 system")
        | counted("all", "all_gather float32 system"),  # the whole model, at the end
    ),
    "experts": (
        ("--loss 2.9", "--steps 15 --loss 3.5"),
        counted("all, 0 2, 1 3", "all_reduce float32 system")
        | counted("0 1, 2 3", "dispatch float32 system", "combine float32 system"),
    ),
    "pipeline": (
        ("--loss 2.9", "--steps 15 --loss 3.5"),
        counted("0 1, 2 3", "all_reduce float32 system", "broadcast float32 system")
        | counted("0 2, 1 3", "send float32 gloo", "recv float32 gloo"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARALLEL)
def test_parallel_training_learns_and_each_group_is_aggregated(tmp_path: Path, name):
    """With few steps. (test_training.py has a training that always runs.)"""
    if find_spec("torch") is None:
        pytest.skip("needs torch: pip install '.[torch]'")
    (shipped, changed), expected = PARALLEL[name]
    text = (FOLDER / f"train_{name}.yaml").read_text()
    assert shipped in text
    text = text.replace(shipped, changed.format(folder=tmp_path))
    # Else torchrun leaves its folders behind.
    text = text.replace("torchrun", f"torchrun --log-dir {tmp_path}/torchrun")
    read = succeeded(text.replace("../examples", str(ROOT / "examples")), tmp_path / "results")
    losses = read.measures.set_index("name").value
    assert losses["test_loss"] < losses["loss"].iloc[0] - 1
    floats = read.collectives[read.collectives.dtype.str.contains("float")]
    keys = ["communicator", "collective", "dtype", "route"]
    assert set(floats[keys].itertuples(index=False, name=None)) == expected


@pytest.mark.slow
def test_experts_learn_the_same_bits_through_switches_as_by_all_to_alls_of_gloo(tmp_path: Path):
    """Four ranks share the experts, so that tokens go to many sets of ranks; sums are whole."""
    if find_spec("torch") is None:
        pytest.skip("needs torch: pip install '.[torch]'")
    text = (
        (FOLDER / "train_experts.yaml").read_text().replace("../examples", str(ROOT / "examples"))
    )
    for old, new in (
        ("--loss 2.9", "--steps 4 --parallel 4 --steps-of 1048576"),
        ("system: switchml", "system: esa"),
        ("hosts: 4", "hosts: 5"),
        ("groups: 4", "groups: 40, backend: {backend}"),
    ):
        assert old in text
        text = text.replace(old, new)
    weights = {}
    for backend in ("ina", "gloo"):
        read = succeeded(text.replace("{backend}", backend), tmp_path / backend)
        logs = [read.folder / "logs" / f"text-rank{rank}.log" for rank in range(4)]
        weights[backend] = [re.search("weights (.*)", each.read_text())[1] for each in logs]
        rows = read.collectives[read.collectives.collective.isin(["dispatch", "combine"])]
        assert set(rows.route) == ({"system"} if backend == "ina" else set())
        assert (rows.communicator.nunique() > 6) == (backend == "ina")
    assert weights["ina"] == weights["gloo"]


@pytest.mark.slow
@pytest.mark.parametrize("name, found", [("float32_exact", "equal"), ("float32", "different")])
def test_the_same_training_twice_has_the_same_bits_where_no_order_counts(tmp_path, name, found):
    if find_spec("torch") is None:
        pytest.skip("needs torch: pip install '.[torch]'")
    text = (FOLDER / "train_twice.yaml").read_text().replace("../examples", str(ROOT / "examples"))
    for old, new in (
        ("--expect equal", f"--expect {found} --steps 10"),
        ("sum: float32_exact", f"sum: {name}"),
    ):
        assert old in text
        text = text.replace(old, new)
    read = succeeded(text, tmp_path / "results")
    measures = read.measures.pivot_table(index="step", columns="name", values="value")
    assert len(measures) == 10 and measures.loss.iloc[-1] < measures.loss.iloc[0]
    assert bool((measures.bits == 0).all()) is (found == "equal")


@pytest.mark.slow
def test_losses_are_drawn_over_time(tmp_path: Path):
    """The figure of losses, with two of its points and few steps."""
    if find_spec("torch") is None:
        pytest.skip("needs torch: pip install '.[torch]'")
    text = FIGURE.read_text().replace("../../examples", str(ROOT / "examples"))
    for old, new in (
        ("repetitions: 5", "repetitions: 1"),
        ("--epochs 4", "--epochs 1"),
    ):
        assert old in text
        text = text.replace(old, new)
    document = yaml.safe_load(text)
    (together,) = document["sweep"]["together"]
    for key in together:
        together[key] = [together[key][0], together[key][-1]]
    assert together["jobs[*].backend"] == ["ina", "gloo"]
    path = tmp_path / "learning.yaml"
    path.write_text(yaml.safe_dump(document))
    done = run(path, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    sweep = read_sweep(tmp_path / "results" / "learning")
    found = {(each.job, each.measure): each for each in reported(sweep)}
    jobs, measures = ("first", "second"), ("loss", "accuracy")
    assert set(found) == {(job, measure) for job in jobs for measure in measures}
    for each in found.values():
        assert [line.series for line in each.lines] == ["ESA", "gloo"]
        first, second = (line.last.mean for line in each.lines)
        assert first == pytest.approx(second, rel=0.02), "the same sums, but for roundings"
    drawn = tmp_path / "results" / "learning" / "figures" / "learning-reported.png"
    assert drawn.stat().st_size > 5000
