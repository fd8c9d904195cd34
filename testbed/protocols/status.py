"""What every machine says of itself: whether it has finished, how far it is, what went wrong.

Places in an int64 array that is the same for all systems and roles, so that a runtime needs to know
nothing else of a machine.
"""

from __future__ import annotations

import numpy as np

FINISHED = 0  # 1: nothing more to do but to serve others
ITERATIONS = 1  # iterations finished (a server: begun)
FAILED = 2  # 1: a value was wrong; where:
FRAGMENT = 3  # in the iteration
POSITION = 4  # in the fragment
FOUND = 5
EXPECTED = 6
ITERATION = 7
PLACES = 8


def new_status() -> np.ndarray:
    return np.zeros(PLACES, np.int64)
