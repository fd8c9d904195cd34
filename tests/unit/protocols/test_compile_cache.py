"""Compiled code must never outlive the source that it was made from."""

import os
import shutil
import subprocess
import sys
from unittest import mock

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


def test_a_folder_that_cannot_be_made_is_named():
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/nothing"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "run.py", "check", "experiments/quickstart.yaml"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "/proc/nothing" in line and "XDG_CACHE_HOME" in line


def test_the_steps_of_two_machines_have_two_names(tmp_path):
    """Of their C functions: the linker would take one for the other."""
    program = """
from testbed.hosts.machine_table import MachineTable
from testbed.protocols.host_spec import SlotsSpec
from testbed.schemes import new_machine
from p4fabric.simulate import placed_machine
from p4fabric.simulate.machine import new_batch
from tests.support.host_specs import OPTIONS, host_spec
table = MachineTable(new_batch(8, 71), new_batch(8, 71))
options = SlotsSpec.of(OPTIONS, sets=2)
for place, program in enumerate((False, True)):
    spec = host_spec({"system": "switchml", "program": program}, options=options)
    table.put(place, new_machine(spec), place, 0)
first, second = placed_machine._steps.values()
assert first.native_name != second.native_name
assert "WorkerMachine" in first.native_name
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
