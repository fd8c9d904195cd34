"""The shipped examples that train: each reaches what it promises, through the switches."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed import results
from tests.support.paths import ROOT
from tests.support.runs import run

FOLDER = ROOT / "experiments"


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
