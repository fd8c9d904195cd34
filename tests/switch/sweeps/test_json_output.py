"""A run and a sweep whose standard output is JSON alone."""

from __future__ import annotations

import json

from testbed.cli.main import main
from tests.support.experiments import SMALL

TEXT = SMALL.replace("small", "told").replace("iterations: 1", "iterations: 2")


def test_a_run_and_a_sweep_tell_programs_what_came_out(tmp_path, capsys):
    file, results = tmp_path / "told.yaml", str(tmp_path / "results")
    file.write_text(TEXT)
    assert main(["run", str(file), "--json", "--no-report", "--results", results]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["state"] == "finished"
    assert "a" in run["tables"]["jobs"]["rows"][0].values()
    file.write_text(TEXT + "sweep: {memory.aggregators: [8, 16]}\n")
    words = ["sweep", str(file), "--json", "--no-report", "--processes", "1"]
    assert main([*words, "--results", results]) == 0
    (sweep,) = json.loads(capsys.readouterr().out)
    assert len(sweep["points"]) == 2
