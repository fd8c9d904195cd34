"""No process of the testbed imports modules from the folder where its user is."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from p4engine.module_start import module_path
from p4fabric_testing import L3
from p4fabric_testing.matrix import first_of

from tests.support.hostile_folder import imported, make_hostile, run_in
from tests.support.paths import ROOT

TEXT = """
topology: {kind: star, hosts: 3}
links: {bandwidth: 100 Mbit/s}
system: esa
memory: {aggregators: 64}
runtime: virtual
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.0005, compute_scale: 0}]
"""
RUN = str(ROOT / "run.py")
ASYNC = """
import asyncio, sys
import testbed as tb
print(asyncio.run(tb.run_async(sys.argv[1], results=sys.argv[2])).digest)
"""
CASES = {
    "processes of a sweep": [RUN, "sweep", "{sweep}", "--no-report", "--results", "{made}"],
    "a run with a page": [RUN, "{text}", "--no-report", "--results", "{made}", "--web"],
    "probes of doctor": [RUN, "doctor"],
    "a run beside others": ["{script}", "{text}", "{made}"],
}


@pytest.fixture
def hostile(tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    return make_hostile(folder)


@pytest.mark.parametrize("case", first_of(CASES, 1))
def test_the_current_folder_s_modules_are_not_imported(case, hostile, tmp_path):
    files = {name: tmp_path / f"{name}.yaml" for name in ("text", "sweep")}
    files["text"].write_text(TEXT)
    files["sweep"].write_text(TEXT + "sweep: {memory.aggregators: [64, 128]}\n")
    files["script"] = tmp_path / "script.py"
    files["script"].write_text(ASYNC)
    words = [word.format(**files, made=tmp_path / "made") for word in CASES[case]]
    done = run_in(hostile, words)
    assert not imported(hostile), done.stderr
    assert done.returncode == 0, done.stderr


def test_stand_ins_of_p4lang_s_programs_do_not_import_them(hostile, tmp_path):
    made = tmp_path / "bin"
    module = [sys.executable, "-m", "p4engine", "shims", str(made)]
    subprocess.run(module, cwd=ROOT / "p4engine" / "src", check=True, capture_output=True)
    source, target = L3, tmp_path / "l3.json"
    command = [str(made / "p4c-bm2-ss"), "-o", str(target), str(source)]
    done = subprocess.run(command, cwd=hostile, capture_output=True, text=True)
    assert not imported(hostile), done.stderr
    assert done.returncode == 0 and target.exists(), done.stderr


def test_empty_parts_of_pythonpath_are_not_the_current_folder():
    assert module_path("/a", environment={"PYTHONPATH": ":/b::/a"}) == "/a:/b"


@pytest.mark.parametrize("folder", ["testbed", "analysis", "traffic", "labs", "p4fabric/src"])
def test_modules_are_started_by_one_function(folder):
    """`python -m` puts the current folder first on the module path."""
    found = []
    for file in (ROOT / folder).rglob("*.py"):
        if file == ROOT / "labs" / "__main__.py" or ROOT / "labs" / "tests" in file.parents:
            continue  # started as `python -m labs`, by somebody in its folder
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.List, ast.Tuple, ast.Call)):
                parts = node.args if isinstance(node, ast.Call) else node.elts
                if any(isinstance(each, ast.Constant) and each.value == "-m" for each in parts):
                    text = ast.unparse(node)
                    if "executable" in text or "PYTHON" in text:
                        found.append(f"{file}:{node.lineno}")
    assert not found
