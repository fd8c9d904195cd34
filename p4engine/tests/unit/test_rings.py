"""Tests that run side by side, tests that run alone, and the time limits of both."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from p4engine_testing import rings

TESTS = """
import json, os, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_something(number):
    begin = time.monotonic()
    time.sleep(0.05)
    line = json.dumps([__file__, os.getpid(), begin, time.monotonic()])
    with open({log!r}, "a") as file:
        file.write(line + "\\n")
"""


BUSY = """
import subprocess, sys

def test_busy():
    busy = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", busy])
"""


def write(folder: Path, name: str, text: str) -> None:
    """A file of tests below a folder."""
    path = folder / "tests" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run_tests(folder: Path, *options: str) -> tuple[int, str]:
    """The exit code of the tests below a folder, and what they print."""
    (folder / "conftest.py").write_text(
        "from p4engine_testing import leftovers\n"
        "from p4engine_testing.load import pytest_addoption\n"
        "leftovers.VANISHING_S = 0.2\n"
    )
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {' '.join(sys.path)}\n")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "tests"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_what_other_work_would_disturb_runs_alone_and_in_one_process(tmp_path):
    log = tmp_path / "log"
    for name in ("unit/test_a", "switch/test_b", "network/alone/test_c", "clock/test_d"):
        write(tmp_path, name, TESTS.format(log=str(log)))
    write(tmp_path, "busy/test_e", BUSY)
    code, said = run_tests(tmp_path, "-n", "2", "--record-times")
    assert code == 0, said
    times = (tmp_path / rings.TIMES).read_text()
    spent_s = {ring: float(text) for ring, text in re.findall(r"(?m)^(\w+): (.*)", times)}
    assert set(spent_s) == {"busy", "clock", "network", "switch", "unit"}
    assert spent_s["busy"] >= 0.3 > spent_s["unit"], "a child's time counts"
    ran = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(ran) == 16
    alone = [each for each in ran if "/clock/" in each[0] or "/alone/" in each[0]]
    assert len(alone) == 8
    assert len({process for _, process, _, _ in alone}) == 1
    for one in alone:
        for other in ran:
            assert other is one or other[3] <= one[2] or one[3] <= other[2], (one, other)
    of_file = {file: {each[1] for each in ran if each[0] == file} for file, *_ in ran}
    assert all(len(processes) == 1 for processes in of_file.values())


class Looks:
    """Stands for the event that a test has ended: it never does, and waiting takes no time."""

    def __init__(self) -> None:
        self.count = 0

    def wait(self, seconds: float) -> bool:
        assert seconds == rings.LOOK_S
        self.count += 1
        return False


@pytest.mark.parametrize(("load", "looks"), [(0.1, 20), (2.0, 20), (20.0, 200)])
def test_a_limit_counts_the_time_that_the_machine_had(monkeypatch, load, looks):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    sent = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: sent.append(number))
    ended = Looks()
    rings._watch(20 * rings.LOOK_S - 0.01, ended)
    assert ended.count == looks and sent == [signal.SIGUSR2]


def test_a_test_that_takes_too_long_fails_and_the_next_one_runs(tmp_path):
    tests = """
import time
from p4engine_testing import rings

rings.LOOK_S = 0.05

def test_endless():
    while True:
        time.sleep(10)

def test_next():
    pass
"""
    write(tmp_path, "unit/test_a", tests)
    code, said = run_tests(tmp_path, "--timeout", "0.2")
    assert code == 1 and "1 failed, 1 passed" in said and "Timeout (>0.2s)" in said


FAILING = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_wrong():
    assert [1, 2] == [1, 3], "two lists"

def test_unset(broken):
    pass

def test_last():
    pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "side by side"])
def test_a_failure_is_told_at_once(tmp_path, options):
    name = "unit/test_failing"
    write(tmp_path, name, FAILING)
    code, said = run_tests(tmp_path, *options)
    assert code == 1
    told, _, summary = said.partition("= FAILURES =")
    file = f"tests/{name}.py"
    assert f"\nfailed: {file}::test_wrong: AssertionError: two lists\n" in told, said
    assert f"\nfailed: {file}::test_unset (setup): OSError: no such thing\n" in told, said
    assert told.index("test_wrong") < told.index("test_unset") < told.index("100%")
    assert "failed: " not in summary


PARTLY_SLOW = """
import pytest

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_some(number):
    pass

@pytest.mark.slow
def test_long():
    pass
"""
NOT_IMPORTABLE = """
import pytest, no_such_module
{all_at_once}

{mark}
def test_long():
    pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "side by side"])
def test_slow_tests_are_not_selected_and_wholly_slow_files_not_imported(tmp_path, options):
    write(tmp_path, "unit/test_partly", PARTLY_SLOW)
    mark = "pytest.mark.slow"
    for name, words in (
        ("a", {"all_at_once": f"pytestmark = {mark}"}),
        ("b", {"mark": f"@{mark}"}),
    ):
        text = NOT_IMPORTABLE.format(**{"all_at_once": "", "mark": "", **words})
        write(tmp_path, f"unit/test_{name}", text)
    code, said = run_tests(tmp_path, *options)
    assert code == 0 and re.search(r"^1 passed", said.splitlines()[-1]), said
    assert "2 slow tests and 2 slow files not selected: ./test --all" in said
    if not options:
        code, said = run_tests(tmp_path, "--slow")
        assert code and said.count("No module named 'no_such_module'") >= 2, said
        assert "not selected" not in said


LEAVING = """
import subprocess, tempfile

def test_named():
    tempfile.mkstemp(prefix="forgotten")

def test_child():
    subprocess.run("cp /dev/null $(mktemp)", shell=True, check=True)

def test_tidy():
    with tempfile.TemporaryDirectory():
        pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "side by side"])
def test_a_test_that_leaves_a_temporary_file_fails(tmp_path, monkeypatch, options):
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("TMPDIR", str(mine))
    write(tmp_path, "unit/test_leaving", LEAVING)
    code, said = run_tests(tmp_path, *options)
    assert code == 1 and "3 passed, 2 errors" in said, said
    errors = [line.rpartition("::")[2] for line in said.splitlines() if line[:6] == "ERROR "]
    assert sorted(name.split(" ")[0] for name in errors) == ["test_child", "test_named"], said
    assert [path.name.split("-")[0] for path in mine.iterdir()] == ["pytest"], "its own are gone"


def test_a_fork_does_not_end_what_its_parent_has_left():
    ended: list[int] = []

    class Left:
        def __init__(self) -> None:
            self.circle = self

        def __del__(self) -> None:
            ended.append(os.getpid())

    Left()
    child = os.fork()
    if child == 0:
        gc.collect()
        os._exit(len(ended))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gc.collect()
    assert ended == [os.getpid()]
