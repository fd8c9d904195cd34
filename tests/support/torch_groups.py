"""A process group of the backend `ina` whose network is made up. Needs PyTorch."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from testbed.collective.torch_backend import InaGroup

__all__ = ["Network", "group", "torch"]


class Handle:
    def __init__(self, error=None):
        self.error = error

    def wait(self, timeout_s=None):
        if self.error:
            raise self.error


class Network:
    """Stands for a job of ten ranks that all give the same; it notes what is called."""

    size = 10
    rank = 3

    def __init__(self, error=None):
        self.calls = []
        self.kinds = set()  # of values that are added
        self.error = error

    def _done(self, name, array, result, out, kind=None):
        self.calls.append((name, array.dtype))
        self.kinds.add(kind)
        out.reshape(-1)[:] = result.reshape(-1)
        return Handle(self.error)

    def allreduce_async(self, array, mean, out, kind):
        return self._done("allreduce", array, array if mean else 10 * array, out, kind)

    def reduce_scatter_async(self, array, mean, out, kind):
        own = array.reshape(10, -1)[self.rank]
        return self._done("reduce_scatter", array, own if mean else 10 * own, out, kind)

    def all_gather_async(self, array, out):
        return self._done(
            "all_gather", array, np.tile(array.reshape(-1), out.size // array.size), out
        )

    def broadcast_async(self, array, root, out):
        self.root = root
        return self._done("broadcast", array, array, out)

    def barrier_async(self):
        self.calls.append("barrier")
        return Handle(self.error)


def group(network) -> InaGroup:
    return InaGroup(dist.HashStore(), 0, 1, timedelta(seconds=20), network)
