"""The chance that a submission's Python sees: the same numbers in each of its processes, so that
two gradings of a program that tosses coins give it the same marks.

That covers what is not seeded by the program itself: `random`, `secrets`, numpy's generators, and
whatever else asks the system. The order of sets is fixed where the process starts (PYTHONHASHSEED,
sandbox.py).
"""

from __future__ import annotations

import os
import random
import sys

SEED = 20260901


def install() -> None:
    """Replace the system's randomness; before a submission's module imports it."""
    stream = random.Random(SEED)
    system, library = os, random
    system.urandom = library._urandom = stream.randbytes  # type: ignore[attr-defined]
    system.getrandom = lambda size, flags=0: stream.randbytes(size)
    random.seed(SEED)
    numpy = sys.modules.get("numpy.random")  # imported later, it seeds itself from the above
    if numpy is not None:
        numpy.seed(SEED)
