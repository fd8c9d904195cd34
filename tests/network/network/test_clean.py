"""`ina clean` removes what killed runs have left, and nothing of live runs or other programs.

Every run that starts on this machine cleans up what it finds, so these tests keep a registry of
their own: nobody else may tidy away what they are about to look at.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from p4fabric.base.linux.processes import Identity
from p4fabric.emulate import run_records

from testbed.paths import import_path

# A runner that holds a network and then waits to be killed, as a run does.
RUNNER = """
import sys, pathlib, time
from p4fabric.emulate import run_records
from p4fabric.emulate.network_session import NetworkSession
from p4fabric.base import interrupts
from testbed.topos.star import Star
interrupts.install()
run_records.DIRECTORY = pathlib.Path(sys.argv[2])
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
with NetworkSession("test run", folder) as session:
    session.start()
    network = session.build(Star(hosts=3))
    print(session.record.run, *(p.pid for p in network.holders.values()), flush=True)
    time.sleep(600)
"""

CLEAN = """
import sys, pathlib
from p4fabric.emulate import run_records
from testbed.cli.main import main
run_records.DIRECTORY = pathlib.Path(sys.argv[1])
sys.exit(main(["clean"]))
"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """A registry for this test alone; its path is short, for the sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="ina-"))
    monkeypatch.setattr(run_records, "DIRECTORY", folder)
    yield folder
    shutil.rmtree(folder)


def start_python(program: str, *arguments: object, **options) -> subprocess.Popen:
    """A Python process in this checkout, its output piped."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=import_path()),
        **options,
    )


@pytest.fixture
def runner(tmp_path, own_registry):
    """Starts a runner; returns it with its run's name and its processes."""
    started = []

    def start(name: str) -> tuple[subprocess.Popen, str, list[Identity]]:
        process = start_python(RUNNER, tmp_path / name, own_registry)
        started.append(process)
        run, *pids = process.stdout.readline().split()
        return process, run, [Identity.of(int(pid)) for pid in pids]

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        process.stdout.close()


def run_clean() -> str:
    process = start_python(CLEAN, run_records.DIRECTORY, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def gone(identities: list[Identity]) -> bool:
    deadline = time.monotonic() + 5
    while any(identity.alive() for identity in identities):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_a_killed_runner_takes_its_network_along_and_clean_removes_the_rest(runner):
    process, run, holders = runner("a")
    record = run_records.DIRECTORY / f"{run}.json"
    assert len(holders) == 4 and record.exists()
    process.kill()
    process.wait()
    assert gone(holders)
    assert record.exists(), "this is what clean is for"
    output = run_clean()
    assert f"removed record and folder of run {run} (test run)" in output
    assert not record.exists() and not record.with_suffix("").exists()
    assert run not in run_clean(), "the second time nothing is left of it"


def test_clean_leaves_a_live_run_alone(runner):
    killed, killed_run, _ = runner("a")
    process, run, holders = runner("b")
    killed.kill()
    killed.wait()
    output = run_clean()
    assert killed_run in output
    assert run not in output and f"test run is running (process {process.pid})" in output
    assert all(holder.alive() for holder in holders)
    assert (run_records.DIRECTORY / run).is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_leaves_nothing_for_clean(runner, number):
    process, run, holders = runner("a")
    process.send_signal(number)
    process.wait()
    assert gone(holders)
    assert not (run_records.DIRECTORY / f"{run}.json").exists()
    assert not (run_records.DIRECTORY / run).exists()
