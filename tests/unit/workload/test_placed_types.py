"""The types of placed machines are the same in the compile cache, whatever a process did before."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numba import typeof

from testbed.workload.placed_machine import PlacedTuple
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
from testbed.workload.placed_machine import PlacedTuple
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
