"""Output of commands for programs, without a run."""

from __future__ import annotations

import json

from testbed.cli.main import main
from testbed.experiment import load
from tests.support.paths import ROOT
from tests.support.synthetic_results import write_run, write_sweep

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"


def printed(capsys, *words: str) -> dict:
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_is_shown_with_all_defaults(capsys):
    shown = printed(capsys, "show", str(QUICKSTART), "--json")
    experiment = load(QUICKSTART)
    assert shown["experiment"]["name"] == "quickstart"
    assert shown["experiment"]["memory"]["aggregators"] == experiment.aggregators
    assert len(shown["facts"]) == 2 + len(experiment.jobs) and shown["warnings"] == []


def test_a_file_with_many_points_lists_them(capsys):
    path = str(ROOT / "experiments" / "compare.yaml")
    shown = printed(capsys, "show", path, "--json")
    checked = printed(capsys, "check", path, "--json")
    assert shown["keys"] == checked["keys"] == ["system"]
    assert [each["key"] for each in shown["points"]] == [each["key"] for each in checked["points"]]


def test_results_are_shown_as_they_are(capsys, tmp_path):
    folder = write_sweep(tmp_path)
    points = printed(capsys, "show", str(folder), "--json")["points"]
    assert {point["state"] for point in points} >= {"finished", None}
    run = write_run(tmp_path, "run")
    found = printed(capsys, "show", str(run), "--hash", "--json")
    assert len(found["hash"]) == 64
