"""The spawner: children in namespaces, their ends, and that nothing outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError
from p4fabric.base.linux import memory_limits
from p4fabric.base.linux.processes import Identity
from p4fabric.base.program import import_path
from p4fabric.emulate.spawner import Spawner

HERE = "p4fabric_testing.children"


@pytest.fixture
def spawner(tmp_path):
    made = Spawner("test pool", [f"{HERE}:preload", f"{HERE}:note [1, 2]"], tmp_path / "pool.log")
    yield made
    made.close()


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_child_gets_its_arguments_descriptors_and_log(spawner, tmp_path):
    ours, theirs = os.pipe()
    process = spawner.spawn(
        "a", f"{HERE}:echo", {"text": "ü" * 100_000}, tmp_path / "a.log", descriptors=[theirs]
    )
    os.close(theirs)
    with open(ours) as pipe:
        assert json.load(pipe) == {"length": 100_000, "preloaded": True, "noted": [1, 2]}
    spawner.wait_ended([process], 10, "end")
    assert process.code == 0
    assert process.log_tail() == "to the log"


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [("fail", 1, "ZeroDivisionError"), ("three", 3, ""), ("leave", 1, "no such thing")],
)
def test_how_a_child_ended(spawner, tmp_path, function, code, words):
    process = spawner.spawn("a", f"{HERE}:{function}", {}, tmp_path / "a.log")
    spawner.wait_ended([process], 10, "end")
    assert (process.code, process.how_it_ended) == (code, f"ended with exit code {code}")
    assert words in process.log_tail() == process.last_words


def test_a_spawner_without_memory_says_so_however_it_is_noticed(tmp_path):
    spawner = Spawner("test pool", [f"{HERE}:take_all_memory"], tmp_path / "pool.log")
    words = "the test pool could not start: memory ran out; "
    try:
        with pytest.raises(RunError, match=words):
            spawner.wait_ready()
        wait_until(lambda: not Identity.of(spawner.pid) or spawner._process.poll() is not None)
        with pytest.raises(RunError, match=words):
            spawner.check()
    finally:
        spawner.close()


def test_a_child_without_memory_says_so_in_one_line(spawner, tmp_path):
    process = spawner.spawn("a", f"{HERE}:take_all_memory", {}, tmp_path / "a.log")
    spawner.wait_ended([process], 10, "end")
    assert process.last_words == "memory ran out"


@pytest.mark.parametrize("words", ["", "hello\n"])
def test_a_child_on_a_full_disk_says_so_although_its_log_may_not(spawner, tmp_path, words):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        arguments = {"folder": str(folder), "words": words}
        process = spawner.spawn("a", f"{HERE}:fill_disk", arguments, folder / "a.log")
        spawner.wait_ended([process], 10, "end")
        assert process.how_it_ended.endswith(f"{folder} is full; make room on it")
        assert process.last_words == ""
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_child_that_the_kernel_killed_for_memory(spawner, tmp_path, monkeypatch):
    process = spawner.spawn("a", f"{HERE}:sleep", {}, tmp_path / "a.log")
    spawner.wait_started([process])
    before = memory_limits.kills()
    monkeypatch.setattr(memory_limits, "kills", lambda: before + 1)
    spawner.signal(process, signal.SIGKILL)
    spawner.wait_ended([process], 10, "end")
    assert process.how_it_ended.startswith("was killed by the kernel, since memory ran out; ")


def test_a_signal_reaches_the_child_and_shows_in_its_code(spawner, tmp_path):
    process = spawner.spawn("a", f"{HERE}:sleep", {}, tmp_path / "a.log")
    spawner.wait_started([process])
    spawner.signal(process, signal.SIGTERM)
    spawner.wait_ended([process], 10, "end")
    assert process.code == -signal.SIGTERM
    spawner.signal(process, signal.SIGTERM)  # no longer there: nothing happens


def test_pump_tells_each_end_once(spawner, tmp_path):
    process = spawner.spawn("a", f"{HERE}:three", {}, tmp_path / "a.log")
    spawner.wait_ended([process], 10, "end")
    assert spawner.pump() == [process]
    assert spawner.pump() == []


def test_many_children_at_once(spawner, tmp_path):
    log = tmp_path / "all.log"
    processes = [spawner.spawn(f"c{i}", f"{HERE}:three", {}, log) for i in range(400)]
    spawner.wait_ended(processes, 60, "end")
    assert {process.code for process in processes} == {3}
    assert len(os.listdir(f"/proc/{spawner.pid}/fd")) < 20, "nothing is held of those that ended"


def test_close_leaves_no_child(spawner, tmp_path):
    processes = [spawner.spawn(f"c{i}", f"{HERE}:stubborn", {}, tmp_path / "l") for i in range(3)]
    spawner.wait_started(processes)
    identities = [Identity.of(process.pid) for process in processes]
    spawner.close()
    assert not any(identity.alive() for identity in identities)


@pytest.mark.parametrize("ends", [True, False])
def test_what_a_child_has_started_ends_with_it(spawner, tmp_path, ends):
    """Whether it ends by itself or with the spawner."""
    ours, theirs = os.pipe()
    arguments = {"ends": ends}
    child = spawner.spawn("a", f"{HERE}:lead", arguments, tmp_path / "l", descriptors=[theirs])
    os.close(theirs)
    with open(ours) as pipe:
        other = Identity.of(int(pipe.readline()))
    if ends:
        spawner.wait_ended([child], 10, "end")
    else:
        spawner.wait_started([child])
        spawner.close()
    wait_until(lambda: other is None or not other.alive())


def test_children_die_with_a_killed_runner(tmp_path):
    script = """
import sys, pathlib, time
from p4fabric.emulate.spawner import Spawner
folder = pathlib.Path(sys.argv[1])
spawner = Spawner("test pool", [], folder / "pool.log")
a = spawner.spawn("a", "p4fabric_testing.children:stubborn", {}, folder / "a.log")
spawner.wait_started([a])
print(spawner.pid, a.pid, flush=True)
time.sleep(60)
"""
    runner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=import_path()),
        text=True,
    )
    identities = [Identity.of(int(pid)) for pid in runner.stdout.readline().split()]
    assert all(identities)
    runner.kill()
    runner.wait()
    wait_until(lambda: not any(identity.alive() for identity in identities))


def test_the_log_of_a_child_is_not_lost_when_it_is_killed(spawner, tmp_path):
    process = spawner.spawn("a", f"{HERE}:talk_and_sleep", {}, tmp_path / "a.log")
    wait_until(lambda: Path(tmp_path / "a.log").exists() and process.log_tail())
    spawner.signal(process, signal.SIGKILL)
    spawner.wait_ended([process], 10, "end")
    assert process.log_tail() == "before the end"
