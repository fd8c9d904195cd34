"""Models, topologies and planners that the docs show work as they stand."""

from __future__ import annotations

import json
import re
import textwrap
from types import SimpleNamespace

from testbed.cli import main as commands
from testbed.routing import planners
from tests.support import docs
from tests.support.paths import ROOT


def test_the_model_and_the_topology_of_the_docs_are_taken_as_they_stand(tmp_path, capsys):
    extending = (ROOT / "docs" / "extending.md").read_text()
    block = re.search(r"(?m)^ {4}from testbed.topology import.*\n(?:(?: {4}.*)?\n)+", extending)[0]
    (tmp_path / "pair.py").write_text(textwrap.dedent(block))
    named = re.search(r"`(topology: \{class: pair\.py:Pair.*?\})`", extending)[1]
    models = (ROOT / "docs" / "models.md").read_text()
    (tmp_path / "my_model.csv").write_text(re.search(r"(?s)```text\n(.*?)```", models)[1])
    text = re.sub(r"topology: .*", named, docs.SMALL)
    text = re.sub(r"model: .*\}", "model: my_model.csv, workers: 4, iterations: 2}", text)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert commands.main(["check", str(path)]) == 0
    assert "4 workers on Pair (6 hosts, 2 switches)" in capsys.readouterr().out


def test_the_planner_of_the_docs_plans_as_it_stands(monkeypatch, capsys):
    extending = (ROOT / "docs" / "extending.md").read_text()
    block = re.search(r"(?m)^ {4}from testbed.routing.*\n(?:(?: {4}.*)?\n)+", extending)[0]
    module = {}
    exec(textwrap.dedent(block), module)
    entry = re.search(r"`(Planner\(\"at-ps\".*?\))`", extending)[1]
    names = {"Planner": planners.Planner, "at_ps": SimpleNamespace(**module)}
    monkeypatch.setitem(planners.PLANNERS, "at-ps", eval(entry, names))
    graph = str(ROOT / "topos" / "graphs" / "grid-example.txt")
    assert commands.main(["plan", graph, "--planner", "at-ps", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    (job,) = plan["jobs"]
    assert plan["planner"] == "at-ps" and plan["rate_bps"] == 750 * 10**6  # four share 3 Gbit/s
    assert [(group["node"], group["workers"]) for group in job["groups"]] == [("S3", [*range(8)])]
