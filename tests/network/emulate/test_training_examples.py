"""The shipped examples that train: each reaches what it promises, through the switches."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from testbed import results
from testbed.analysis.data.reported_data import reported
from testbed.analysis.data.sweep_data import read_sweep
from tests.support.paths import ROOT
from tests.support.runs import run

FOLDER = ROOT / "experiments"
FIGURE = FOLDER / "figures" / "learning.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, needs, changed, measure",
    [
        ("train_clicks", "torch", ("--area 0.8", "--area 0.8"), "area"),
        # The shipped one takes some minutes.
        ("train_text", "torch", ("--steps 150 --loss 2.7", "--steps 12 --loss 3.6"), "test_loss"),
        ("train_jax", "jax", ("--accuracy 0.9", "--accuracy 0.9"), "accuracy"),
    ],
)
def test_an_example_reaches_its_mark(tmp_path: Path, name, needs, changed, measure):
    if find_spec(needs) is None:
        pytest.skip(f"needs {needs}: pip install '.[{needs}]'")
    text = (FOLDER / f"{name}.yaml").read_text()
    assert changed[0] in text
    path = tmp_path / "experiment.yaml"
    path.write_text(text.replace(*changed).replace("../examples", str(ROOT / "examples")))
    done = run(path, tmp_path / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    read = results.read(folder)
    assert measure in set(read.measures.name)
    assert read.jobs.iloc[0].values_checked > 1_000_000, "gradients went through the network"


@pytest.mark.slow
def test_losses_are_drawn_over_time(tmp_path: Path):
    """The figure of losses, with two of its points and few steps."""
    if find_spec("torch") is None:
        pytest.skip("needs torch: pip install '.[torch]'")
    text = FIGURE.read_text().replace("../../examples", str(ROOT / "examples"))
    for old, new in (
        ("repetitions: 5", "repetitions: 2"),
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
