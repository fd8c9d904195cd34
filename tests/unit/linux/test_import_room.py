"""Libraries that need more address space than there is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testbed.linux.import_room import ROOM_MIB
from tests.support.paths import ROOT

# Imports a library with so much more room than the process has taken, in MiB.
PROGRAM = """
import importlib, resource, sys
from testbed.linux.import_room import ask_for_room

before, name, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
if before:
    importlib.import_module(before)
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (room << 20),) * 2)
ask_for_room()
try:
    importlib.import_module(name)
except MemoryError as error:
    print(error)
else:
    print("loaded")
"""
BEFORE = {
    "numpy": "",
    "scipy.linalg": "numpy",
    "pyarrow": "numpy",
    "pyarrow.parquet": "pyarrow",
    "matplotlib": "numpy",
}


def told(name: str, room_mib: int) -> str:
    """What the program prints; it must end by itself, without a signal."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, BEFORE[name], name, str(room_mib)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", ROOM_MIB)
def test_a_library_without_room_is_refused_before_it_begins(name):
    """With half the room OpenBLAS would ask for ever, and Arrow would crash at the exit."""
    needed = ROOM_MIB[name]
    assert told(name, needed // 2) == f"no room for {name}, which takes {needed} MiB"


@pytest.mark.parametrize("name", ROOM_MIB)
def test_the_room_asked_for_is_enough(name):
    assert told(name, ROOM_MIB[name] + 4) == "loaded"
