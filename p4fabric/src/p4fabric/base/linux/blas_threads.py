"""The import of numpy without threads for linear algebra."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

VARIABLE = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def no_blas_threads() -> Iterator[None]:
    """A block that imports numpy, whose library for linear algebra then starts no threads. With one
    for each processor they take as long as the rest of the import, in each process, and nothing
    here multiplies large matrices. Processes that are started later learn nothing of it, and a
    number that the user has set stays."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
