"""Commands that tests fork are the same as commands that are started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from p4engine_testing import rings

from tests.support import ina as forked
from tests.support.fork_server import RUN
from tests.support.paths import ROOT

# A topology is a class of the user's, which runs in the command's process and sees all of it.
LOOK = """
import json, os, random, signal, sys, threading, traceback
import numpy
from p4fabric.base.topology import Topology
from testbed.topos import star

class Look(star.Star):
    def __init__(self, hosts: int = 3):
        super().__init__(hosts)
        numbers = set(range(1, signal.NSIG)) - {32, 33}
        names = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
        seen = {
            "arguments": sys.argv, "path": sys.path, "folder": os.getcwd(), "names": names,
            "main": sys.modules["__main__"].__file__, "group": [os.getpgrp(), os.getsid(0)],
            "files": [name for name in os.listdir("/proc/self/fd") if int(name) < 1000],
            "signals": [str(signal.getsignal(each)).split(" at ")[0] for each in sorted(numbers)],
            "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "threads": threading.active_count(), "umask": os.umask(0o22),
            "input": os.path.realpath("/proc/self/fd/0"), "nice": os.nice(0),
        }
        with open(os.environ["SEEN"], "a") as file:
            file.write(json.dumps([seen, random.random(), numpy.random.random()]) + "\\n")
        exec(os.environ.get("THEN", ""))
"""
FILE = """
name: looking
runtime: virtual
topology: {class: look.py:Look}
links: {bandwidth: 1 Gbit/s}
system: esa
memory: {aggregators: 16}
jobs: [{model: alexnet, workers: 2, iterations: 1, scale: 0.00005, compute_scale: 0}]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[forked.Server]:
    """One that lets these tests tell their commands something."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "READ_LATE", forked.READ_LATE | {"SEEN", "THEN"})
        made = forked.Server()
        patch.setattr(forked, "_servers", [made])
        yield made
        made.end()
        assert made.process.returncode == 0


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "look.yaml").write_text(FILE)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return tmp_path


def started(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), *words]
    environment = dict(os.environ)  # without what readline has put beside it
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


def seen(folder: Path) -> list[list]:
    return [json.loads(line) for line in (folder / "seen").read_text().splitlines()]


CHECK = ("check", "look.yaml")


@pytest.mark.parametrize("then", ["", "print('text')\nraise GeneratorExit"])
def test_a_forked_command_is_as_one_that_is_started(server, folder, monkeypatch, then):
    monkeypatch.setenv("THEN", then)
    forked.ina(*CHECK, cwd=folder)  # which may compile the program, and say so
    one, other = forked.ina(*CHECK, cwd=folder), started(*CHECK, cwd=folder)
    assert vars(one) == {**vars(other), "args": one.args}
    (again, *last_drawn), (mine, *drawn), (theirs, *more_drawn) = seen(folder)
    assert mine == theirs == again
    assert len({*drawn, *more_drawn, *last_drawn}) == 6, "each has random numbers of its own"


@pytest.mark.parametrize(
    ("then", "code", "errors"),
    [
        ("raise KeyboardInterrupt", 130, None),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("os.fork() or os._exit(os.write(2, b'x' * 99999) != 99999)", 0, "x" * 99999),
        ("os.fork() or (signal.sigtimedwait([], 0.3), os._exit(os.write(2, b'end')))", 0, "end"),
    ],
)
def test_a_command_may_end_in_any_way(server, folder, monkeypatch, then, code, errors):
    monkeypatch.setenv("THEN", then)
    done = forked.ina(*CHECK, cwd=folder)
    assert done.returncode == code and errors in (None, done.stderr)


def test_its_time_counts_and_nothing_is_left(server, folder, monkeypatch):
    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setenv("THEN", "import time\nwhile time.process_time() < 0.5: pass")
    rings.ELSEWHERE_S.clear()
    assert forked.ina(*CHECK, cwd=folder).returncode == 0
    assert sum(rings.ELSEWHERE_S) >= 0.5
    assert set(os.listdir("/proc/self/fd")) == before
    process = server.process.pid
    assert Path(f"/proc/{process}/task/{process}/children").read_text() == ""


def test_where_imports_could_differ_the_command_is_started(server, folder, monkeypatch):
    assert server.serves(os.environ)
    for name in ("NUMBA_DISABLE_JIT", "XDG_CACHE_HOME", "INA_PLUGINS", "LANG"):
        assert not server.serves({**os.environ, name: "other"}), name
    monkeypatch.setattr(forked, "Process", None)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    assert forked.ina("nonsense", cwd=folder, env=environment).returncode == 2


def test_the_server_ends_with_a_process_that_is_killed():
    code = (
        "import os, signal\nfrom tests.support import ina\n"
        "ina.PRELOADED = ()\nprint(ina.Server().process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while Path(f"/proc/{done.stdout.strip()}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
