"""Systematic mutation (tests/support/mutants): the changes that there are, and their ends."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from p4fabric_testing.matrix import first_of

from tests.support.mutants import (
    p4_changes,
    python_changes,
    yaml_changes,
)
from tests.support.mutants.campaign import (
    COMPILER,
    OF_FOLDERS,
    OF_RUNTIME,
    PLAIN,
    Campaign,
    changes,
)
from tests.support.mutants.campaign import tests_of as files_of
from tests.support.mutants.change import sample
from tests.support.mutants.coverage import Covered
from tests.support.mutants.install import (
    _codes,
    install,
    install_python,
    prepare_engine,
    use_own_cache,
)
from tests.support.mutants.score import (
    UNCOVERED,
    Result,
    Score,
    equal_mutants,
    read,
    score,
)
from tests.support.paths import ROOT

REPORT = "testbed/collective/measures.py"
RUNTIME = "p4engine/src/p4engine/runtime"
ARCHITECTURES = "p4engine/src/p4engine/architectures"
HASHES = f"{ARCHITECTURES}/v1model/hashes.c"


def test_every_file_of_the_engine_has_tests():
    folders = (RUNTIME, f"{ARCHITECTURES}/*")
    files = [path for folder in folders for path in ROOT.glob(f"{folder}/*.[ch]")]
    for path in files:
        assert files_of("c", [str(path.relative_to(ROOT))]), path
    assert all(any(path.name.startswith(name) for path in files) for name in OF_RUNTIME)
    for folder in (*PLAIN, *OF_FOLDERS, *COMPILER):
        assert files_of("python", [f"{folder}/x.py"]) and (ROOT / folder).is_dir()


COUNT = """
import sys
from pathlib import Path
from p4engine_testing.programs import switch
s = switch(
    Path(sys.argv[1]),
    locals="action a() { } table t { key = { hdr.h.a: exact; } actions = { a; } }",
    apply="t.apply();",
)
s.table_add("t", "a", [1])
print(s.table_count("t"))
"""


def test_a_changed_runtime_is_that_of_all_processes(tmp_path, monkeypatch):
    for name in ("CC", "XDG_CACHE_HOME", "MUTANT_RUNTIME", "P4ENGINE_CFLAGS"):
        monkeypatch.setenv(name, "-O0" if name == "P4ENGINE_CFLAGS" else "")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "p4engine/tests"))

    def count() -> str:
        command = [sys.executable, "-c", COUNT, tmp_path]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    change = next(c for c in changes(f"{RUNTIME}/p4rt_table.c") if c.name == "t->count++; -> ;")
    prepare_engine(tmp_path)
    use_own_cache(tmp_path, tmp_path)
    assert count() == "1\n"
    with pytest.raises(SyntaxError):
        install(replace(change, new="count count;"), tmp_path / "invalid")
    use_own_cache(tmp_path, tmp_path / "mutant")
    install(change, tmp_path / "mutant")
    assert count() == "0\n"
    copied = {path.suffix for path in (tmp_path / "mutant" / "engine").rglob("*.*")}
    assert not copied & {".py", ".pyc"}, "nothing that another process may be writing"


def test_changes_that_read_alike_have_numbers():
    text = "apply {\n    drop();\n    drop();\n}\n"
    names = [change.name for change in p4_changes.changes("p4/esa.p4", text)]
    assert names == ["drop(); -> ;", "drop(); -> ; #2"]


def test_a_smaller_sample_is_part_of_a_larger_one():
    changes = p4_changes.changes("p4/zeros.p4")
    assert sample(changes, 5, seed=3) == sample(changes, 20, seed=3)[:5]
    assert sample(changes, 5, seed=4) != sample(changes, 5, seed=3)


def test_a_function_becomes_the_mutant_where_it_is(tmp_path):
    path = tmp_path / "module.py"
    text = "def double(x):\n    return 2 * x\n\n\ndef four(x):\n    return double(double(x))\n"
    path.write_text(text)
    found = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    held = module.four
    install_python(path, text.replace("2 * x", "3 * x"))
    assert held(1) == 9


def test_a_removed_statement_leaves_the_variables_of_its_function(tmp_path):
    """Code with other variables could not take the place of a function."""
    text = (
        "class Deep(list):\n    def __init__(self, count):\n        super().__init__([count])\n\n\n"
        "def counter():\n    count = 0\n\n    def more():\n        nonlocal count\n"
        "        count += 1\n        print(\n            count)\n\n    return more\n"
    )
    names = {}
    for change in python_changes.changes("testbed/results/reader.py", text):
        if change.kind == "removed statement":
            changed = change.apply(text)
            assert changed.count("\n") == text.count("\n")
            names[change.name] = [
                each.co_freevars
                for code in (text, changed)
                for each in _codes(compile(code, "x", "exec")).values()
            ]
    assert len(names) == 4
    for found in names.values():
        assert found[: len(found) // 2] == found[len(found) // 2 :]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes namespaces")
def test_a_mutant_lies_over_its_file_for_its_own_processes_alone(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("original")
    script = (
        "import os, pathlib, subprocess, sys\n"
        "from tests.support.mutants.apart import lay_over, leave_the_others\n"
        "leave_the_others()\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "folder = path.parent / 'other'\n"
        "folder.mkdir()\n"
        "lay_over(path, 'mutant', folder)\n"
        "print(os.getpid(), subprocess.check_output(['cat', path], text=True), flush=True)\n"
        "subprocess.Popen(['sleep', '60'])\n"
        "sys.exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (3, "2 mutant\n")
    assert path.read_text() == "original"


@pytest.mark.parametrize(
    "killed, survived, count, expected",
    [(10, 0, 10, (1.0, 1.0)), (10, 0, 100, (0.722, 1.0)), (81, 19, 1000, (0.722, 0.875))],
)
def test_interval(killed, survived, count, expected):
    """Wilson's, for a sample: the figures are those of published tables."""
    found = Score("p4/esa.p4", killed, survived, 0, 0, count).interval()
    assert found == pytest.approx(expected, abs=0.001)


def test_invalid_and_equal_mutants_do_not_count():
    (file, name), *_ = equal_mutants()
    results = [
        Result("1", file, 1, "", "drop(); -> ;", "killed", "", 0.0),
        Result("2", file, 1, "", "drop(); -> x", "invalid", "", 0.0),
        Result("3", file, 1, "", name, "survived", "", 0.0),
        Result("4", file, 1, "", "something else", "survived", "", 0.0),
    ]
    found, left = score(file, results, 4)
    assert (found.killed, found.survived, found.equal, found.invalid) == (1, 1, 1, 1)
    assert [result.name for result in left] == ["something else"]


@pytest.mark.parametrize(
    "minutes, known, reason",
    [
        (0, {}, "1 were not tried"),
        (9, {}, "test_x: SIGKILL"),
        (9, {"seconds": 9.0, "lines": {HASHES: [1]}}, "1 take more than 5 s"),
    ],
)
def test_without_tests_nothing_is_judged(tmp_path, monkeypatch, minutes, known, reason):
    """Not even as survivors: a busy machine has no time for the tests."""
    run, item = _campaign(tmp_path, monkeypatch, minutes), SimpleNamespace(path=Path(__file__))
    answer = (Covered(**known), "") if known else "SIGKILL"
    monkeypatch.setattr(run, "_in_child", lambda *_: answer)
    with pytest.raises(pytest.exit.Exception, match=reason) as told:
        run._usable({"test_x": item})
    assert told.value.returncode == 2
    file = tmp_path / "covered-c.jsonl"  # what a busy machine has ended may pass next time
    assert file.exists() == bool(known)


def test_what_no_test_executes_is_counted_apart(tmp_path, monkeypatch):
    run = _campaign(tmp_path, monkeypatch, minutes=9)
    change = run.changes[0]
    result = run._judge(change, {})
    found, left = score(HASHES, [result], 1)
    assert (result.end, found.survived, found.uncovered, left) == (UNCOVERED, 1, 1, [result])
    assert " | 0 of 1 | 1 | 0.0 %" in found.row()
    ran = []
    for untried in (1, 0):  # with tests that have not been tried, nothing is known of it
        run.untried = untried
        monkeypatch.setattr(run, "_usable", lambda _: {})
        run.pytest_runtestloop(SimpleNamespace(items=[]))
        ran.append([*read(tmp_path / "results.jsonl")])
    assert ran == [[], [run.key(change)]]


def _campaign(folder: Path, monkeypatch: pytest.MonkeyPatch, minutes: float) -> Campaign:
    for name in ("signal.signal", "settings", "prepare_engine"):  # of a process
        monkeypatch.setattr(f"{Campaign.__module__}.{name}", Mock())
    return Campaign("c", changes(HASHES)[:1], folder, 5, 5, minutes, told=lambda _: None)


def test_every_equal_mutant_can_still_be_made():
    """No change moves a line. (The names are those of all kinds of changes, in each language.)"""
    files = {file for file, _ in equal_mutants()}
    names = {}
    for file in files:
        names[file] = {change.name for change in changes(file)}
        text = (ROOT / file).read_text()
        for change in changes(file)[::20]:
            assert change.apply(text).count("\n") == text.count("\n")
    for (file, name), why in equal_mutants().items():
        assert name in names[file], f"{file} has changed: {name}"
        assert why


@pytest.mark.parametrize("end", ["os._exit(0)", "os.execvp('true', ['true'])"])
def test_what_a_fork_executes_is_executed(end):
    pytest.importorskip("coverage")
    script = (
        "import os\n"
        "from testbed.collective import measures\n"
        "from tests.support.mutants.coverage import PythonLines\n"
        f"lines = PythonLines(['{REPORT}'])\n"
        "lines.begin()\n"
        "if os.fork() == 0:\n"
        "    measures.report(step=1)\n"
        f"    {end}\n"
        "os.wait()\n"
        f"print(lines.lines()['{REPORT}'])\n"
    )
    said = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    source = (ROOT / REPORT).read_text()
    assert source[: source.index("values = {}")].count("\n") + 1 in json.loads(said)


def campaign(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "tests.support.mutants", *arguments]
    done = subprocess.run(
        [*command, "--results", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("ended_by", first_of([signal.SIGINT, signal.SIGTERM], 1))
def test_an_interrupted_campaign_leaves_nothing(tmp_path, ended_by):
    pytest.importorskip("coverage")
    (tmp_path / "temporary").mkdir()
    test = tmp_path / "waits.py"
    begun = tmp_path / "begun"
    test.write_text(
        "import pathlib, time\n"
        f"def test(tmp_path):\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "tests.support.mutants", "testbed/results", "--sample", "1"]
    child = subprocess.Popen(
        [*command, "--results", tmp_path / "results", "--tests", test],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        text=True,
        # Tests that run in a shell's background ignore interrupts, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with child:
        while not begun.exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(ended_by)
        said, _ = child.communicate()
    assert "Survivors:" in said and child.returncode == 2
    assert [path.name for path in (tmp_path / "temporary").iterdir()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "file, tests, sample, least",
    [
        ("testbed/protocols/heap.py", "tests/unit/protocols/test_heap.py", 16, 10),
        ("p4/admission.p4", "tests/switch/p4/test_forward.py", 16, 1),
        (f"{ARCHITECTURES}/v1model/passes.h", "p4engine/tests/switch/test_p4_passes.py", 12, 2),
        (f"{ARCHITECTURES}/v1model/hashes.py", "p4engine/tests/switch/test_p4_language.py", 16, 4),
    ],
)
def test_a_campaign_goes_on_where_it_was(tmp_path, file, tests, sample, least):
    """Each change of the engine's C takes many seconds."""
    if file.endswith(".py"):
        pytest.importorskip("coverage")
    words = "--sample", str(sample), "--tests", tests
    first = campaign(tmp_path, file, *words)
    results = read(tmp_path / "results.jsonl")
    assert sum(result.end == "killed" for result in results.values()) >= least
    assert f"| {file} |" in first
    again = campaign(tmp_path, file, *words)
    assert read(tmp_path / "results.jsonl") == results
    assert first.partition("| file |")[2] == again.partition("| file |")[2]


def test_the_changes_of_a_yaml_file_are_those_of_its_numbers_and_words():
    text = "# 7 slower\na: {b: 1.5, c: 3}\nverdict: slower\nslower: x2\n"
    made = yaml_changes.changes("x.yaml", text)
    assert [change.apply(text).split("\n")[1:3] for change in made] == [
        ["a: {b: 1.875, c: 3}", "verdict: slower"],
        ["a: {b: 1.5, c: 4}", "verdict: slower"],
        ["a: {b: 1.5, c: 3}", "verdict: faster"],
    ]
