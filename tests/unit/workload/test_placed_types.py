"""The types of placed machines are the same in the compile cache, whatever a process did before."""

import pickle
import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest
from numba import typeof

from testbed.workload.placed_machine import PlacedTuple
from tests.support.paths import ROOT

Inner = namedtuple("Inner", "numbers flags")
Outer = namedtuple("Outer", "inner record matrix")
PAIR = namedtuple("PAIR", "a b")

RECORD = np.dtype([("count", np.int64), ("share", np.float64)])


@pytest.mark.parametrize(
    "machine",
    [
        Outer(
            Inner(np.zeros(4, np.int64), np.zeros(2, np.uint8)),
            np.zeros(1, RECORD),
            np.zeros((2, 3), np.int32),
        ),
        PAIR(np.zeros(4, np.int64), np.zeros(2, np.int64)),  # all of one type
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
from collections import namedtuple
import numpy as np
from numba import typeof
from numba.core.serialize import dumps
from testbed.workload.placed_machine import PlacedTuple
from tests.unit.workload.test_placed_types import Inner, Outer, RECORD
for number in range(int(sys.argv[1])):
    typeof(np.zeros((1,) * (number + 1), np.int16))
inner = Inner(np.zeros(4, np.int64), np.zeros(2, np.uint8))
kind = PlacedTuple(typeof(Outer(inner, np.zeros(1, RECORD), np.zeros((2, 3), np.int32))))
print(dumps((kind,)).hex())
"""
    few, many = (
        subprocess.run(
            [sys.executable, "-c", program, count], cwd=ROOT, capture_output=True, check=True
        ).stdout
        for count in ("0", "7")
    )
    assert few == many and len(few) > 100
