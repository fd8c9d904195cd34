"""The types of placed machines are the same in the compile cache, whatever a process did before."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest
from numba import typeof
from p4fabric.simulate.placed_machine import PlacedTuple
from p4fabric_testing.placed_tuples import Inner, Pair, nested


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
from p4fabric_testing.placed_tuples import nested
for number in range(int(sys.argv[1])):
    typeof(np.zeros((1,) * (number + 1), np.int16))
print(dumps((PlacedTuple(typeof(nested())),)).hex())
"""
    few, many = (
        subprocess.run(
            [sys.executable, "-c", program, count], capture_output=True, check=True
        ).stdout
        for count in ("0", "7")
    )
    assert few == many and len(few) > 100


def test_classes_of_one_name_in_two_modules_have_types_of_two_names():
    """Compiled functions are found by the names of their types, also those of other processes: with
    one name, what one kind of host does would be done for another."""
    first, second = (namedtuple("Rules", "array", module=module) for module in ("a", "b"))
    array = np.zeros(1, np.int64)
    assert str(typeof(first(array))) == str(typeof(second(array))), "as numba names them"
    assert PlacedTuple(typeof(first(array))).name != PlacedTuple(typeof(second(array))).name
    outer = namedtuple("Outer", "inner", module="c")
    inside = [PlacedTuple(typeof(outer(each(array)))).name for each in (first, second)]
    assert inside[0] != inside[1]
