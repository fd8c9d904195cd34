"""Commands name what may take long, in their log as on a terminal."""

from __future__ import annotations

import logging
import os

import pytest
from p4fabric.emulate import run_records

from testbed.analysis import html
from testbed.analysis.figures import figure_files
from testbed.cli.main import main
from testbed.results import read
from tests.support.paths import ROOT
from tests.support.recordings import write_recording
from tests.support.synthetic_results import write_run

GRAPH = ROOT / "topos" / "graphs" / "grid-example.txt"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with two runs in `results`, and a recording."""
    monkeypatch.chdir(tmp_path)
    for name in ("x", "y"):
        write_run(tmp_path / "results", name).rename(tmp_path / "results" / name)
    write_recording(tmp_path / "run.npz")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            f"plan {GRAPH} --planner nearest --figure plan.png",
            [f"reading {GRAPH}", "planner nearest, 1 jobs", "planning by nearest", "drawing plan"],
        ),
        (
            "recording run.npz --figure numbers.png",
            ["reading run.npz", "looking at its numbers", "drawing numbers.png"],
        ),
        ("ls", ["reading results: 2 of 2"]),
        ("diff results/x results/y", ["reading results/x and results/y"]),
    ],
)
def test_a_command_names_what_may_take_long(here, capsys, words, named):
    assert main([*words.split(), "-v"]) == 0
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if " ms  testbed." in line or " ms  p4fabric." in line]
    places = [next((n for n, line in enumerate(said) if each in line), None) for each in named]
    assert None not in places and places == sorted(places), said


def test_files_of_a_report_are_in_the_detailed_log(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "testbed")
    results = read(write_run(tmp_path))
    page = html.write_run(results)
    figure = figure_files.new_figure(2, 1)
    figure_files.save(figure, tmp_path / "empty")
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.startswith(f"{page}: 10 charts, ")]
    assert [line for line in said if line.startswith(f"{tmp_path / 'empty.pdf'}: ")]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to whom the folder belongs")
def test_what_is_cleaned_is_in_the_log(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "p4fabric")
    monkeypatch.setattr(run_records, "DIRECTORY", tmp_path / "runs")
    (tmp_path / "runs" / "left").mkdir(parents=True, mode=0o700)
    (tmp_path / "runs").chmod(0o700)
    assert run_records.clean() == [str(tmp_path / "runs" / "left")]
    assert f"removed: {tmp_path / 'runs' / 'left'}" in caplog.text
