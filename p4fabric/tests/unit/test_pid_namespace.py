"""Processes that all end with one of them, whatever sessions they begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from p4fabric.base.linux.processes import Identity
from p4fabric_testing import FABRIC

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes namespaces")


INSIDE = """
import os, sys, time
from pathlib import Path
from p4fabric.base.linux import pid_namespace

pid_namespace.go_on_inside(3)
"""

ENDS = """
code = int(sys.argv[1])
if code < 0:
    os.kill(os.getpid(), -code)
    time.sleep(10)
os._exit(code)
"""

LEAVES_AN_ORPHAN = """
told, killed = Path(sys.argv[1]), sys.argv[2] == "True"
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
"""


def begun(work: str, *arguments: object) -> subprocess.Popen:
    """A process that goes on with `work` in a namespace of its own. It has one thread, as a caller
    must; this one may have those of libraries."""
    words = [sys.executable, "-c", INSIDE + work, *map(str, arguments)]
    return subprocess.Popen(words, cwd=FABRIC)


@pytest.mark.parametrize("code", [0, 7, -signal.SIGTERM, -signal.SIGKILL])
def test_it_ends_as_the_process_inside_does(code):
    assert begun(ENDS, code).wait(20) == code


def outside(name: str) -> list[Identity]:
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
    process = begun(LEAVES_AN_ORPHAN, told, killed)
    deadline = time.monotonic() + 20
    while not told.exists() or not told.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    orphans = outside("orphan-inside")
    inside, seen = told.read_text().split()
    assert inside == seen and int(inside) >= 4000, "ids of different namespaces differ"
    if killed:
        assert len(orphans) == 1
        process.kill()
    process.wait(20)
    while any(each.alive() for each in orphans) or outside("orphan-inside"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
