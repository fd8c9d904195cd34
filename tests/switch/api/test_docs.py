"""The page and the notebook of the Python interface do what they say."""

from __future__ import annotations

import ast
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
def test_the_notebook_runs(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    notebook = nbformat.read(ROOT / "examples" / "experiments.ipynb", 4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    monkeypatch.setenv("PYTHONPATH", import_path(environment={}))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=250, resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in shown for kind in output.get("data", {})}
    assert {"text/html", "image/png", "text/plain"} <= kinds
    texts = [output["data"].get("text/plain", "") for output in shown if "data" in output]
    assert any("6 of 6" in text for text in texts), "it shows how far the sweep is"
