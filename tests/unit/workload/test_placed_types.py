"""The types of placed machines are the same in the compile cache, whatever a process did before."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest
from numba import typeof
from p4fabric.simulate.placed_machine import PlacedTuple

from testbed import protocols, workload
from tests.support.paths import ROOT
from tests.support.placed_tuples import Inner, Pair, nested


@pytest.mark.parametrize(
    "machine",
    [
        nested(),
        Pair(np.zeros(4, np.int64), np.zeros(2, np.int64)),  # all of one type
        Inner(np.zeros((4, 4), np.int64)[:, 1], np.frombuffer(bytes(8), np.uint8)),
    ],
)
def test_a_type_is_the_same_after_a_pickle(machine):
    kind = PlacedTuple(typeof(machine))
    again = pickle.loads(pickle.dumps(kind))
    assert again == kind and again.name == kind.name and again.types == kind.types
    assert again.words == kind.words


def test_the_pickle_does_not_depend_on_what_types_were_made_before():
    program = """
import sys
import numpy as np
from numba import typeof
from numba.core.serialize import dumps
from p4fabric.simulate.placed_machine import PlacedTuple
from tests.support.placed_tuples import nested
for number in range(int(sys.argv[1])):
    typeof(np.zeros((1,) * (number + 1), np.int16))
print(dumps((PlacedTuple(typeof(nested())),)).hex())
"""
    few, many = (
        subprocess.run(
            [sys.executable, "-c", program, count], cwd=ROOT, capture_output=True, check=True
        ).stdout
        for count in ("0", "7")
    )
    assert few == many and len(few) > 100


def test_classes_of_one_name_in_two_modules_have_types_of_two_names():
    """Compiled functions are found by the names of their types, also those of other processes: with
    one name, what a parameter server does would be done for ESA."""
    first, second = (namedtuple("Rules", "array", module=module) for module in ("a", "b"))
    array = np.zeros(1, np.int64)
    assert str(typeof(first(array))) == str(typeof(second(array))), "as numba names them"
    assert PlacedTuple(typeof(first(array))).name != PlacedTuple(typeof(second(array))).name
    outer = namedtuple("Outer", "inner", module="c")
    inside = [PlacedTuple(typeof(outer(each(array)))).name for each in (first, second)]
    assert inside[0] != inside[1]


def test_no_two_named_tuples_of_machines_look_alike_to_numba():
    """Where they are not placed, as in tests, only the name of the class and the types of its
    fields tell them apart."""
    seen: dict[tuple, type] = {}
    for package in (protocols, workload):
        for found in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for each in vars(module).values():
                is_own = isinstance(each, type) and each.__module__ == module.__name__
                if is_own and issubclass(each, tuple) and hasattr(each, "_fields"):
                    other = seen.setdefault((each.__name__, each._fields), each)
                    assert other is each, f"{other} and {each}"
    assert len(seen) > 20
