"""A time budget for a property: examples are tried until it is spent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hypothesis.errors import UnsatisfiedAssumption


@dataclass
class Budget:
    """`seconds` of processor time after the first example, which may compile much. A failure lifts
    the budget, so that it can be made small. Draw an example before `is_spent` is asked, since the
    answer must not decide what is drawn."""

    seconds: float
    done: int = 0  # examples that held
    failed: bool = False
    begin_s: float = 0.0

    @property
    def examples(self) -> int:
        """At most so many: a large budget ends it before."""
        return int(5 * self.seconds)

    def is_spent(self) -> bool:
        if self.done == 0 or self.failed:
            return False
        return time.process_time() - self.begin_s > self.seconds

    @contextmanager
    def example(self) -> Iterator[None]:
        """Around the check of one example."""
        try:
            yield
        except UnsatisfiedAssumption:
            raise
        except Exception:
            self.failed = True
            raise
        if self.done == 0:
            self.begin_s = time.process_time()
        self.done += 1
