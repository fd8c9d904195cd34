"""A point is what went into it: a sweep, and what is done with its results, after an edit."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError
from rich.console import Console

from testbed.cli.main import main
from testbed.experiment import load
from testbed.paths import P4
from testbed.results import SWEEP_FILE, find
from testbed.run_parts.program import prepare
from testbed.run_parts.run import Run
from testbed.runner import execute
from testbed.schemes import set_up
from testbed.sweeps import sweep_runner
from testbed.traffic.trace import MODELS_FOLDER

TEXT = """
name: swept
runtime: virtual
topology: {kind: star, hosts: 4}
links: {bandwidth: 100 Mbit/s}
system: {name: esa, program: programs/esa.p4}
memory: {aggregators: 64}
jobs: [{name: a, model: programs/m.csv, workers: 3, iterations: 1, scale: 0.0005, compute_scale: 0}]
"""
SWEEP = "sweep: {system: [{name: esa, program: programs/esa.p4}, ring]}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    (tmp_path / "programs").mkdir()
    for name in ("esa.p4", "pool.p4"):
        shutil.copy(P4 / name, tmp_path / "programs")
    shutil.copy(MODELS_FOLDER / "resnet18.csv", tmp_path / "programs" / "m.csv")
    (tmp_path / "swept.yaml").write_text(TEXT + SWEEP)
    monkeypatch.chdir(tmp_path)
    # Points run in this process, which has loaded everything.
    monkeypatch.setattr(sweep_runner, "executor", lambda *_, **__: ThreadPoolExecutor(1))
    return tmp_path


def said(capsys, *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main([*words]) == code
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.err if code else told.out


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def test_what_has_changed_is_run_again_and_named(folder, capsys):
    again = ("sweep", "swept.yaml", "--no-report", "--processes", "1")
    assert "finished before" not in said(capsys, *again)
    assert "2 of 2 points have finished before" in (told := said(capsys, *again))
    assert "run again" not in told and "runs again" not in told
    swept = folder / "results" / "swept"
    old = {run for point in swept.iterdir() for run in find(point)}

    append(folder / "programs" / "pool.p4", "// edited\n")
    told = said(capsys, *again)
    assert "1 of 2 points have finished before" in told
    assert "1 point runs again: pool.p4 has changed since\n" in told
    (new,) = {run for point in swept.iterdir() for run in find(point)} - old
    (before,) = (run for run in old if "program: /" in (run / "experiment.yaml").read_text())
    told = said(capsys, "diff", str(before), str(new))
    assert told.startswith("experiment: the same\ninputs:\n") and "\n  pool.p4  " in told
    assert "results: equal in every value" in told  # it was a comment

    # The old results are not those of the present file.
    why = f"error: {before}: pool.p4 has changed since, and "
    assert why in said(capsys, "trace", str(before), "--slowest", "1", code=2)
    assert why in said(capsys, "pack", str(before), code=2)
    assert main(["trace", "latest/" + new.parent.name, "--slowest", "1"]) == 0

    append(folder / "programs" / "m.csv", "## edited\n")
    append(folder / "programs" / "esa.p4", "// edited\n")
    told = said(capsys, *again)
    assert "1 point runs again: esa.p4 and m.csv have changed since\n" in told
    assert "1 point runs again: m.csv has changed since\n" in told

    # As it was at first: nothing has to be run. The folder's other runs are not in the sweep.
    for name, source in (("esa", P4 / "esa.p4"), ("pool", P4 / "pool.p4")):
        shutil.copy(source, folder / "programs" / f"{name}.p4")
    shutil.copy(MODELS_FOLDER / "resnet18.csv", folder / "programs" / "m.csv")
    assert "2 of 2 points have finished before" in said(capsys, *again)

    (folder / "swept.yaml").write_text(TEXT.replace("100 Mbit", "50 Mbit") + SWEEP)
    assert "2 points run again: links.bandwidth has changed since" in said(capsys, *again)


def test_results_of_an_older_version_are_run_again(folder, capsys):
    again = ("sweep", "swept.yaml", "--no-report", "--processes", "1")
    said(capsys, *again)
    swept = folder / "results" / "swept"
    described = (swept / SWEEP_FILE).read_text()
    for point in json.loads(described)["points"]:
        (run,) = find(swept / point["key"])
        environment = json.loads((run / "environment.json").read_text())
        del environment["inputs"], environment["identity"], environment["code"]
        (run / "environment.json").write_text(json.dumps(environment))
        old = point["key"][::-1]
        (swept / point["key"]).rename(swept / old)
        described = described.replace(point["key"], old)
    (swept / SWEEP_FILE).write_text(described)
    for words in (
        ["pack", str(swept), "-o", "x.zip"],
        ["trace", str(swept / old), "--slowest", "1"],
    ):
        main(words)
        assert "the results do not say what they were made from" in capsys.readouterr().err
    assert "2 points run again: the earlier results do not say what" in said(capsys, *again)


def test_a_file_that_changes_meanwhile_is_not_mixed_in(folder):
    (folder / "one.yaml").write_text(TEXT)
    experiment = load("one.yaml").noted()
    setup = set_up(experiment)
    run = Run(experiment, setup, prepare(setup), Console(quiet=True))
    append(folder / "programs" / "m.csv", "## edited\n")
    with pytest.raises(RunError, match="m.csv has changed since the run was set up; run it again"):
        execute(run, folder / "results")
    assert not (folder / "results").exists()
