"""Processes that all end with one of them, whatever sessions they begin."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from testbed.linux import pid_namespace
from testbed.linux.processes import Identity

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes namespaces")


def begun(work) -> int:
    """A process that goes on with `work` in a namespace of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            pid_namespace.go_on_inside(3)
            work()
        finally:
            os._exit(99)
    return pid


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("code", [0, 7, -signal.SIGTERM, -signal.SIGKILL])
def test_it_ends_as_the_process_inside_does(code):
    def work():
        if code < 0:
            if code != -signal.SIGKILL:
                signal.signal(-code, signal.SIG_DFL)  # other tests may have left a handler
            os.kill(os.getpid(), -code)
            time.sleep(10)
        os._exit(code)

    assert code_of(begun(work)) == code


def outside(inner: int, name: str) -> list[Identity]:
    """Processes with a word in their environment, as seen from here."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (path / "comm").read_bytes():
                found.append(Identity.of(int(path.name)))
        except OSError:
            continue
    return [each for each in found if each is not None]


@pytest.mark.parametrize("killed", [True, False])
def test_all_end_with_it(killed, tmp_path):
    """Also a process in a session of its own, whose parent has ended."""
    told = tmp_path / "told"

    def work():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                Path("/proc/self/comm").write_text("orphan-inside")
                told.write_text(f"{os.getpid()} {os.readlink('/proc/self')}")
                time.sleep(60)
            os._exit(0)
        os.wait()
        while not told.exists() or not told.read_text():
            time.sleep(0.01)
        if killed:
            time.sleep(60)
        os._exit(0)

    pid = begun(work)
    deadline = time.monotonic() + 20
    while not told.exists() or not told.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    orphans = outside(pid, "orphan-inside")
    inside, seen = told.read_text().split()
    assert inside == seen and int(inside) >= 4000, "ids of different namespaces differ"
    if killed:
        assert len(orphans) == 1
        os.kill(pid, signal.SIGKILL)
    code_of(pid)
    while any(each.alive() for each in orphans) or outside(pid, "orphan-inside"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
