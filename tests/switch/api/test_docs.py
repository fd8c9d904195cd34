"""The page and the notebook of the Python interface do what they say."""

from __future__ import annotations

import ast
import json
import re

import pytest

import testbed as tb
from testbed.analysis.data import tidy_data
from testbed.paths import import_path
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()


@pytest.mark.slow
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"(?s)```python\n(.*?)```", PAGE):
        exec(compile(ast.parse(block), "docs/python.md", "exec"), names)
    assert names["sweep"].finished and (tmp_path / "small.pdf").exists()
    assert names["first"].digest == names["result"].digest != names["second"].digest
    for each in (names["more"], names["less"], names["in_two_racks"]):
        assert each.resolved.topology_object().hosts


def test_the_page_lists_every_name_and_measure():
    for name in tb.__dir__():
        assert re.search(rf"`(tb\.)?{name}\b|tb\.{name}\b", PAGE), name
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.*?) ?\| (.+) \|$", PAGE)
    declared = {**tidy_data.OF_JOBS, **tidy_data.OF_RUNS}
    assert rows == [(name, each.unit, each.meaning) for name, each in declared.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "points"), [("experiments", 6), ("tutorial", 9)])
def test_the_notebook_runs(name, points, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    monkeypatch.setenv("PYTHONPATH", import_path(environment={}))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=250, resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"text/html", "image/png", "text/plain"} <= kinds
    texts = [output["data"].get("text/plain", "") for output in shown if "data" in output]
    assert any(f"{points} of {points}" in text for text in texts), "it shows how far the sweep is"
    streams = "".join(output.get("text", "") for output in shown)
    assert name != "tutorial" or (tmp_path / "lanes.png").exists() and "fragment" in streams


def test_the_code_of_the_tutorial_is_sound_and_names_what_there_is(monkeypatch, tmp_path):
    """Its first steps run as they stand; the others are those of a slow test."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text())["cells"]
    assert len(cells) == 15
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    names: dict = {}
    for text in code[:2]:  # up to the first run
        exec(compile(text, "tutorial.ipynb", "exec"), names)
    assert names["experiment"].resolved.runtime == "virtual"
    for text in code:
        compile(text, "tutorial.ipynb", "exec")
        for name in re.findall(r"\btb\.(\w+)", text):
            assert name in tb.__dir__(), name
