"""Compiled functions are kept in files: what is loaded, damaged, removed, saved at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest
from p4engine_testing import damage
from p4fabric.base.program import import_path
from p4fabric.simulate import code_cache
from p4fabric.simulate.jit import Checked
from p4fabric_testing.matrix import first_of


def with_cache(folder):
    """The environment of a process that compiles, with this folder for caches."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": import_path()}
    environment.pop("NUMBA_DISABLE_JIT", None)
    return environment


def test_what_is_compiled_is_loaded_without_what_the_compiler_knows(tmp_path):
    """numba's lists of functions that compiled code may call take longer to load than the code."""
    program = """
import sys
import numpy as np
from p4fabric.simulate.event_queue import new_event_queue, put
put(new_event_queue(2), np.int64(1), np.int64(5))
print(sum(put.stats.cache_hits.values()), "numba.typed.typeddict" in sys.modules)
"""
    environment = with_cache(tmp_path)

    def ran():
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert ran() == ["0", "True"]
    assert ran() == ["1", "False"]


TWO_KINDS = """
import numpy as np
from p4fabric.simulate.event_queue import new_event_queue, put
for kind in (np.int64, np.int32):
    put(new_event_queue(2), kind(1), np.int64(5))
    print(sum(put.stats.cache_hits.values()), sum(put.stats.cache_misses.values()))
"""


def two_kinds(cache):
    """Run TWO_KINDS with this folder for caches; the numbers of hits and misses, and messages."""
    environment = with_cache(cache)
    command = [sys.executable, "-c", TWO_KINDS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr.splitlines()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder for caches that has the two kinds."""
    cache = tmp_path_factory.mktemp("compiled")
    assert two_kinds(cache) == (["0", "1", "0", "2"], [])
    return cache


WAYS = [(ending, way) for way in damage.WAYS for ending in ("nbi", "nbc")]


@pytest.mark.parametrize("ending, damage", first_of(WAYS[:1] + WAYS[3:4] + WAYS[1:3] + WAYS[4:], 2))
def test_a_damaged_file_is_made_again_and_one_line_says_so(compiled, tmp_path, ending, damage):
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    files = list(tmp_path.rglob(f"*.{ending}"))
    assert files
    for path in files:
        damage(path)
    found, (line,) = two_kinds(tmp_path)
    assert found == ["0", "1", "0", "2"]
    assert f".{ending} is damaged and is made again" in line and str(tmp_path) in line
    assert two_kinds(tmp_path) == (["1", "0", "2", "0"], [])


def test_only_folders_that_nobody_used_for_long_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code_cache.cache_directory.cache_clear()
    try:
        mine = code_cache.directories()[-1]
        old, young = mine.parent / "old", mine.parent / "young"
        for folder, days in ((old, 31), (young, 29), (mine, 400)):
            (folder / "protocols").mkdir(parents=True)
            os.utime(folder, (0, time.time() - days * 24 * 3600))
        code_cache.remove_unused()
        assert mine.exists() and young.exists() and not old.exists()
    finally:
        code_cache.cache_directory.cache_clear()


def test_two_processes_that_save_at_a_time_do_not_take_each_other_s_code(tmp_path, monkeypatch):
    """Both have read the index before the other one writes it, and their writes alternate."""
    one, other = (Checked(str(tmp_path), "f", "stamp") for _ in range(2))
    monkeypatch.setattr(other, "_load_index", dict)
    write = one._save_data

    def after_the_other(name, data):
        other.save("its key", "its code")
        write(name, data)

    monkeypatch.setattr(one, "_load_index", dict)
    monkeypatch.setattr(one, "_save_data", after_the_other)
    one.save("a key", "a code")
    third = Checked(str(tmp_path), "f", "stamp")
    assert third.load("a key") in ("a code", None)
    assert third.load("its key") in ("its code", None)
    assert third.load("a key") or third.load("its key")
