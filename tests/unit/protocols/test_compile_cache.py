"""Compiled code must never outlive the source that it was made from."""

import os
import shutil
import subprocess
import sys
import time
from unittest import mock

import pytest
from p4engine_testing import damage
from p4fabric.simulate import code_cache
from p4fabric.simulate.jit import Checked
from p4fabric_testing.matrix import first_of

from tests.support.paths import ROOT


def test_every_compiled_function_is_cached_under_the_hash_of_all_sources():
    """Whichever package is imported first, no function is cached beside its source."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import importlib
importlib.import_module(sys.argv[2])
from numba.core.dispatcher import Dispatcher
from p4fabric.simulate import code_cache
from p4fabric.simulate.jit import Checked
folders = tuple(map(str, code_cache.directories()))
found = 0
for name, module in list(sys.modules.items()):
    if name.startswith(("testbed.", "p4fabric.")):
        values = [*vars(module).values()]
        kinds = [value for value in values if isinstance(value, type)]
        methods = [each for kind in kinds for each in vars(kind).values()]
        for value in values + [getattr(each, "__func__", each) for each in methods]:
            if isinstance(value, Dispatcher):
                found += 1
                where = value._cache.cache_path  # None: compiled into its callers alone
                assert where is None or where.startswith(folders), value
                assert where is None or isinstance(value._cache._cache_file, Checked), value
assert found > 3
"""
    for first in (
        "testbed.hosts.socket_calls",
        "testbed.workload.worker",
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


UPPER = """
import sys
from pathlib import Path
from numba import config
from p4fabric.simulate.jit import ByContent
from p4fabric.simulate import code_cache
from testbed.protocols import heap
package = Path(sys.argv[1])
code_cache.add_sources(package / "upper", ("*.py",))
sys.path.insert(0, sys.argv[1])
import upper.machine, plain
place = lambda function: Path(function._cache.cache_path).parent
*_, below, above = code_cache.directories()
assert place(heap.push) == below and place(upper.machine.step) == above
def call():
    "Has code of a machine's type in it."
assert ByContent.from_function(call, heap.__file__).get_cache_path().startswith(str(below))
call.__module__ = "upper.machine"
assert ByContent.from_function(call, heap.__file__).get_cache_path().startswith(str(above))
assert config.CACHE_DIR == str(above), "of plain.step, which may have any code in it"
print(below.name, above.name)
"""


def test_a_package_of_its_own_has_its_own_folder_that_depends_on_what_is_below(tmp_path):
    (tmp_path / "upper").mkdir()
    machine, text = tmp_path / "upper" / "machine.py", "@njit(cache=True)\ndef step(): pass\n"
    machine.write_text(f"from p4fabric.simulate.jit import njit\n{text}")
    (tmp_path / "plain.py").write_text(machine.read_text())
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_DISABLE_JIT", None)

    def folders():
        command = [sys.executable, "-c", UPPER, str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    below, above = folders()
    machine.write_text(machine.read_text() + "# changed\n")
    assert folders() == [below, mock.ANY] and folders()[1] != above


def test_what_is_compiled_is_loaded_without_what_the_compiler_knows(tmp_path):
    """numba's lists of functions that compiled code may call take longer to load than the code."""
    program = """
import sys
import numpy as np
from testbed.protocols import heap
heap.push(np.zeros(4, np.int32), 0, np.zeros(4, np.int64), 1)
print(sum(heap.push.stats.cache_hits.values()), "numba.typed.typeddict" in sys.modules)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("NUMBA_DISABLE_JIT", None)

    def ran():
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert ran() == ["0", "True"]
    assert ran() == ["1", "False"]


TWO_KINDS = """
import numpy as np
from testbed.protocols import heap
for kind in (np.int64, np.int32):
    heap.push(np.zeros(4, np.int32), 0, np.zeros(4, kind), 1)
    print(sum(heap.push.stats.cache_hits.values()), sum(heap.push.stats.cache_misses.values()))
"""


def two_kinds(cache):
    """Run TWO_KINDS with this folder for caches; the numbers of hits and misses, and messages."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "-c", TWO_KINDS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
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


def test_a_folder_that_cannot_be_made_is_named():
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/nothing"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "run.py", "check", "experiments/quickstart.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/proc/nothing" in line and "XDG_CACHE_HOME" in line


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


def test_the_steps_of_two_machines_have_two_names(tmp_path):
    """Of their C functions: the linker would take one for the other."""
    program = """
from testbed.hosts.machine_table import MachineTable
from testbed.protocols.host_spec import SwitchmlSpec
from testbed.schemes import new_machine
from p4fabric.simulate import placed_machine
from p4fabric.simulate.machine import new_batch
from tests.support.host_specs import OPTIONS, host_spec
table = MachineTable(new_batch(8, 71), new_batch(8, 71))
options = SwitchmlSpec.of(OPTIONS, sets=2)
for place, program in enumerate((False, True)):
    spec = host_spec({"system": "switchml", "program": program}, options=options)
    table.put(place, new_machine(spec), place, 0)
first, second = placed_machine._steps.values()
assert first.native_name != second.native_name
assert "WorkerMachine" in first.native_name
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
