"""The times of workers in memory that the runner reads, while a run goes on.

A worker notes its times in arrays of its own and hands them over at its end. Where somebody looks
at the run (testbed.web), these arrays are in a memory file instead, one for all workers: nothing is
copied, and the worker does nothing for it. The runner may see an iteration half written, which the
next look corrects.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from p4fabric.simulate.records import replaced

from testbed.protocols.host_spec import HostSpec

ITERATION_TIMES = ("start_ns", "compute_end_ns", "end_ns")  # int64[I]
TENSOR_TIMES = ("forward_start_ns", "forward_end_ns", "ready_ns", "first_sent_ns", "done_ns")
# int64[I, T]
_OF_SCOREBOARD = ("ready_ns", "first_sent_ns", "done_ns")


class SharedTimes:
    """The arrays of all workers of `specs` in one memory file; of servers and of programs, which
    have no iterations that anybody knows of, there are none."""

    def __init__(self, specs: Sequence[HostSpec]) -> None:
        self._specs = specs
        self._offsets = []
        self.size = 0
        for spec in specs:
            self._offsets.append(self.size)
            self.size += 8 * _numbers(spec)

    def open(self, descriptor: int, number: int) -> dict[str, np.ndarray]:
        """The arrays of one of the specifications in the memory file, by name; {} without."""
        spec = self._specs[number]
        if not _numbers(spec):
            return {}
        return arrays(descriptor, self.size, self._offsets[number], spec)

    def place(self, number: int) -> dict[str, int]:
        """Arguments of `arrays` with which a host process opens its own."""
        return {"size": self.size, "offset": self._offsets[number]}


def _numbers(spec: HostSpec) -> int:
    if not spec.is_worker or spec.job.program:
        return 0
    each = len(ITERATION_TIMES) + len(TENSOR_TIMES) * len(spec.job.tensors)
    return spec.job.iterations * each


def arrays(descriptor: int, size: int, offset: int, spec: HostSpec) -> dict[str, np.ndarray]:
    """The arrays of a worker, at `offset` of a memory file of `size` bytes."""
    memory = mmap.mmap(descriptor, size)
    iterations, tensors = spec.job.iterations, len(spec.job.tensors)
    found = {}
    for name in (*ITERATION_TIMES, *TENSOR_TIMES):
        shape = (iterations, tensors) if name in TENSOR_TIMES else (iterations,)
        count = int(np.prod(shape))
        found[name] = np.frombuffer(memory, np.int64, count, offset).reshape(shape)
        offset += 8 * count
    return found


def attach(machine: Any, shared: dict[str, np.ndarray]) -> Any:
    """A worker's machine that notes its times in these arrays."""
    instead: dict[int, np.ndarray] = {}
    for name, array in shared.items():
        part = machine.scoreboard if name in _OF_SCOREBOARD else machine.source
        own = getattr(part, name)
        array[...] = own
        instead[id(own)] = array
    return replaced(machine, instead)
