"""The layers of docs/architecture.md hold, and no import goes round in a circle."""

from __future__ import annotations

import logging.config
import re
from collections.abc import Iterable

import grimp
import networkx as nx
import pytest
from importlinter.cli import lint_imports

from testbed.systems.registry import SHIPPED
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def graph() -> nx.DiGraph:
    """Every import of all packages, those for type checkers and within functions included."""
    imports = grimp.build_graph(
        *("testbed", "p4fabric", "p4engine", "labs"),
        cache_dir=None,
        exclude_type_checking_imports=False,
    )
    found = nx.DiGraph()
    for module in imports.modules:
        found.add_edges_from(
            (module, to) for to in imports.find_modules_directly_imported_by(module)
        )
    return found


def circles(graph: nx.DiGraph) -> list[list[str]]:
    """The groups of modules, or folders, that import each other."""
    groups: Iterable[set[str]] = nx.strongly_connected_components(graph)
    return [sorted(group) for group in groups if len(group) > 1]


def test_the_layers_hold(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(logging.config, "dictConfig", lambda _: None)  # it disables all loggers
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


def test_no_files_import_each_other(graph):
    assert "testbed.analysis.report" in graph, "the links in testbed/ are followed"
    assert circles(graph) == []


def test_no_folders_import_each_other(graph):
    folders = nx.DiGraph()
    for module, imported in graph.edges:
        ends = [".".join(name.split(".")[:2]) for name in (module, imported)]
        if ends[0] != ends[1] and all("." in end for end in ends):
            folders.add_edge(*ends)
    assert circles(folders) == []


@pytest.mark.parametrize("architecture", ["v1model", "tna"])
def test_no_files_of_the_traffic_manager_call_each_other(architecture):
    """tm.c is one with the headers that are parts of it: passes.h includes tm_out.h."""
    runtime = ROOT / "p4engine/src/p4engine/runtime"
    passes = runtime.parent / "architectures" / architecture / "passes.h"
    texts = {path.name: path.read_text() for path in runtime.glob("tm*.c")}
    texts["tm.c"] += passes.read_text() + (runtime / "tm_out.h").read_text()
    defined = {
        function: name
        for name, text in texts.items()
        for function in re.findall(r"(?m)^\w.*?\b(tm_\w+)\([^;{]*\) \{", text)
    }
    assert [defined["tm_egress"], defined["tm_to_port"]] == ["tm.c", "tm_queues.c"]
    calls = nx.DiGraph(
        (name, defined[function])
        for name, text in texts.items()
        for function in re.findall(r"(?m)^\s.*?\b(tm_\w+)\(", text)
        if defined.get(function, name) != name
    )
    assert circles(calls) == []


def test_top_level_names_are_not_imported():
    """testbed.traffic, not traffic: a wheel has no other name (testbed/paths.py)."""
    names = ("analysis", "topos", "traffic")
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for folder in (*names, "testbed", "labs", "tests", "bench", "examples")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        for word in names
        if line.strip().startswith((f"from {word}.", f"from {word} import", f"import {word}"))
    ]
    assert lines == []


WORDS = r"jobs?|gradients?|tensors?|all-?reduces?|(?:dis)?aggregat\w*|ina|testbed"
# Systems with the names of other things: a command, shapes, times that are multiples of one.
USUAL = {"grid", "ps", "ring", "tree"}


def test_networks_know_no_gradients():
    """p4fabric is for people with other programs; what is of the testbed is told from above."""
    names = {*SHIPPED} - USUAL
    assert {"esa", "atp", "switchml"} <= names
    known = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(names)}|{WORDS})(?![A-Za-z0-9])", re.I)
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "p4fabric/src").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if known.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_product_imports_no_tools():
    """They are no part of a wheel: makers of shipped files, which need PyTorch, among them."""
    imported = re.compile(r"(?m)^\s*(?:from|import) (?:tools|tests|bench)\b")
    folders = ("analysis", "labs", "p4engine/src", "p4fabric/src", "testbed", "topos", "traffic")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if ROOT / "labs" / "tests" not in path.parents]
    assert not [path for path in files if imported.search(path.read_text(encoding="utf-8"))]
