"""Tuples of arrays such as machines are, for tests of their types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RECORD = np.dtype([("count", np.int64), ("share", np.float64)])


class Inner(NamedTuple):
    numbers: np.ndarray
    flags: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    record: np.ndarray
    matrix: np.ndarray


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


def nested() -> Outer:
    """A tuple in a tuple, a record and a matrix."""
    inner = Inner(np.zeros(4, np.int64), np.zeros(2, np.uint8))
    return Outer(inner, np.zeros(1, RECORD), np.zeros((2, 3), np.int32))
