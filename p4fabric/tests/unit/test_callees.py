"""Functions that compiled functions call: one machine code for all that are called from outside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from p4fabric.simulate.jit import njit

CHAIN = """
from p4fabric.simulate.jit import njit

@njit(cache=True)
def innermost(x):
    if x[0] < 0:
        raise ValueError("below", 0)
    return x.sum()

@njit(cache=True)
def inner(x):
    return 2 * innermost(x)

@njit(cache=True)
def one(x):
    return inner(x) + 1

@njit(cache=True)
def other(x):
    return inner(x) + innermost(x)
"""
CALL = """
import sys
import numpy as np
import chain
from numba.core.codegen import JITCPUCodegen

def add(codegen, module, original=JITCPUCodegen._add_module):
    defined = [each.name for each in module.functions if not each.is_declaration]
    called = any(name.startswith(("cpython.", "cfunc.")) for name in defined)
    machine_code.append(called or not defined)  # nothing is defined by what is from the cache
    return original(codegen, module)

machine_code = []
JITCPUCodegen._add_module = add
function = getattr(chain, sys.argv[1])
print(function(np.array([3, 4])), all(machine_code))
try:
    function(np.array([-3]))
except ValueError as error:
    print(*error.args)
for each in (chain.inner.callee, chain.innermost.callee, chain.inner):
    print(each.stats.cache_hits.total(), each.stats.cache_misses.total())
"""


def test_a_callee_is_compiled_once_for_all_that_call_it_and_has_no_machine_code(tmp_path):
    (tmp_path / "chain.py").write_text(CHAIN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    environment.pop("NUMBA_DISABLE_JIT", None)

    def called(name: str) -> list[str]:
        command = [sys.executable, "-c", CALL, name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert called("one") == ["15 True", "below 0", "0 1", "0 1", "0 0"]
    assert called("other") == ["21 True", "below 0", "1 0", "1 0", "0 0"]  # from the cache
    assert called("one") == ["15 True", "below 0", "0 0", "0 0", "0 0"]  # without its callees
    assert called("inner") == ["14 True", "below 0", "0 0", "1 0", "0 1"]


def test_a_compiled_function_has_no_defaults():
    """A call from Python that left them out would end in a segmentation fault."""
    with pytest.raises(TypeError, match="has no defaults"):

        @njit
        def given(x, y=1):
            return x + y
