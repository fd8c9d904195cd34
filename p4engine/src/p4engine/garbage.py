"""Python's search for cyclic garbage, and where it only costs time."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_garbage() -> Iterator[None]:
    """No search for reference cycles inside, or in a function that this decorates: for what makes
    many objects that all stay. The search would look through them again and again, which takes up
    to a third of the time, and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
