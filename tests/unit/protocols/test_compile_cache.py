"""Compiled code must never outlive the source that it was made from."""

import os
import shutil
import subprocess
import sys
import time

from testbed import protocols
from tests.support.paths import ROOT


def test_every_compiled_function_is_cached_under_the_hash_of_all_sources():
    """Whichever package is imported first, no function is cached beside its source."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib
importlib.import_module(sys.argv[2])
from numba.core.dispatcher import Dispatcher
from testbed.protocols import cache_directory
folder = str(cache_directory())
found = 0
for name, module in list(sys.modules.items()):
    if name.startswith("testbed."):
        values = [*vars(module).values()]
        kinds = [value for value in values if isinstance(value, type)]
        methods = [each for kind in kinds for each in vars(kind).values()]
        for value in values + [getattr(each, "__func__", each) for each in methods]:
            if isinstance(value, Dispatcher):
                found += 1
                where = value._cache.cache_path  # None: compiled into its callers alone
                assert where is None or where.startswith(folder), value
assert found > 3
"""
    for first in (
        "testbed.hosts.socket_calls",
        "testbed.workload.machine",
        "testbed.protocols.wire",
    ):
        subprocess.run([sys.executable, "-c", program, str(ROOT), first], check=True)


def test_equal_sources_share_what_is_compiled_and_others_do_not(tmp_path):
    """A function is found wherever the checkout lies, until one byte of the sources differs."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from testbed.protocols import heap
function = heap.push
assert function.__code__.co_filename.startswith(sys.argv[1])
function(np.zeros(4, np.int32), 0, np.zeros(4, np.int64), 1)
print(sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values()))
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_DISABLE_JIT", None)

    def ran(folder):
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    for name in ("one", "other"):
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / "testbed", tmp_path / name / "testbed", ignore=ignored)
    assert ran(tmp_path / "one") == ["0", "1"]
    assert ran(tmp_path / "other") == ["1", "0"]
    with (tmp_path / "other/testbed/workload/feed.py").open("a") as source:
        source.write("# changed\n")
    assert ran(tmp_path / "other") == ["0", "1"]
    assert ran(tmp_path / "one") == ["1", "0"]


def test_only_folders_that_nobody_used_for_long_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    protocols.cache_directory.cache_clear()
    try:
        mine = protocols.cache_directory()
        old, young = mine.parent / "old", mine.parent / "young"
        for folder, days in ((old, 31), (young, 29), (mine, 400)):
            (folder / "protocols").mkdir(parents=True)
            os.utime(folder, (0, time.time() - days * 24 * 3600))
        protocols.remove_unused()
        assert mine.exists() and young.exists() and not old.exists()
    finally:
        protocols.cache_directory.cache_clear()


def test_a_folder_that_cannot_be_made_is_named():
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/nothing"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "run.py", "check", "experiments/quickstart.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/proc/nothing" in line and "XDG_CACHE_HOME" in line
