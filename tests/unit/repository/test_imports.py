"""Imports between packages: reading an experiment must not wait for compilers and plots, and
reports read results alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import testbed
from testbed.cli.main import COMMANDS, main
from testbed.sweeps import figures
from testbed.sweeps.figures import OF_PLANS
from tests.support.paths import ROOT
from tests.support.synthetic_results import write_run

HEAVY = ("numba", "matplotlib", "scipy", "scapy")
PLANNING = f"""
from testbed.experiment import load
from testbed.emulate import mininet_run
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
host_specs(set_up(load({str(ROOT / "experiments" / "quickstart.yaml")!r})))
"""
TRACE = "from testbed.traffic.trace import load_trace; load_trace('resnet152')"
LIGHT = [  # code, and what it must not import
    (PLANNING, HEAVY),
    (TRACE, ("torch", "pandas", "numpy", "yaml")),
    ("import testbed.results", ("numpy", "pandas", "pyarrow", "matplotlib")),
    (  # before it is printed
        "import testbed.analysis.report, testbed.analysis.data.run_summary"
        ", testbed.analysis.tables.report_tables",
        ("matplotlib", "networkx", "pydantic"),
    ),
    (  # on hosts, which would start later, and take more memory
        "from testbed.emulate import child_processes; from testbed.hosts import host_process",
        ("pydantic", "pandas", "networkx", "matplotlib"),
    ),
]


@pytest.mark.parametrize(("code", "unwanted"), LIGHT)
def test_what_starts_at_once_imports_nothing_heavy(code, unwanted):
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
{code}
print([name for name in {unwanted!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_the_interface_for_python_is_found_when_it_is_used():
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import testbed as tb
names = dir(tb)
print([name for name in sys.modules if name.startswith(("testbed", "p4fabric", "p4engine"))])
print([name for name in names if getattr(tb, name) is None])
print([name for name in {(*HEAVY, "pandas")!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['testbed']", "[]", "[]"]


def test_lists_and_helps_wait_for_nothing():
    """Each in a fork of a process that has imported the command line alone."""
    lines = [["figure"], *([word, "--help"] for word in COMMANDS)]
    program = f"""
import os
import sys
sys.path.insert(0, {str(ROOT)!r})
from testbed.cli.main import main
for line in {lines!r}:
    if os.fork() == 0:
        words, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        code = main(line)
        sys.stdout.flush()
        found = [name for name in {(*HEAVY, "numpy", "pandas", "pydantic", "p4engine.backend")!r}
                 if name in sys.modules]
        os.write(words, f"{{line}} {{code}} {{found}}\\n".encode())
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{line} 0 []" for line in lines]


# Commands that people wait for, each with what it must not wait for, and the most modules of
# packages (the language's own are not counted) that it may import.
QUICK = {
    "show": (("numpy", "pandas", "rich", "p4fabric.netfile.network_schema"), 235),
    "ls": (("pandas", "pydantic"), 240),
    "check": (("pandas", "p4fabric.netfile.network_schema"), 432),
}


@pytest.mark.parametrize("word", QUICK)
def test_quick_commands_import_little(word, tmp_path):
    """Of a command that has run before: the first `check` imports the compiler of P4 as well."""
    unwanted, most = QUICK[word]
    file = str(ROOT / "experiments" / "quickstart.yaml")
    if word == "ls":
        write_run(tmp_path)
        file = str(tmp_path)
    program = f"""
import os
import sys
sys.path.insert(0, {str(ROOT)!r})
from testbed.cli.main import main
if os.fork() == 0:
    code = main({[word, file]!r})
    sys.stdout.flush()
    os._exit(code)
os.wait()
code = main({[word, file]!r})
packages = [name for name in sys.modules if name.split(".")[0] not in sys.stdlib_module_names]
print([name for name in {unwanted!r} if name in sys.modules], len(packages))
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, _, number = done.stdout.splitlines()[-1].rpartition(" ")
    assert found == "[]"
    assert int(number) <= most


def test_every_figure_is_listed(capsys):
    assert main(["figure"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(rows) == {*figures.names(), *OF_PLANS}
    assert {name: rows[name] for name in OF_PLANS} == OF_PLANS


def test_analysis_imports_no_part_that_runs_experiments():
    folder = Path(testbed.__file__).parent / "analysis"
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            found |= {name.split(".")[1] for name in names if name.startswith("testbed.")}
    assert found == {"analysis", "collective_kinds", "paths", "results", "systems"}


def test_no_test_imports_another_one():
    wrong = re.compile(r"(?m)^\s*from tests\.(?!support\b)|^\s*import tests\b")
    files = (ROOT / "tests").rglob("*.py")
    assert not [path for path in files if wrong.search(path.read_text(encoding="utf-8"))]
