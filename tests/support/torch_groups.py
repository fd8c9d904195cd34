"""A process group of the backend `ina` whose network is made up. Needs PyTorch."""

from __future__ import annotations

from datetime import timedelta

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
    """Stands for a job of ten ranks that all give the same."""

    def __init__(self, error=None):
        self.calls = []
        self.error = error

    def allreduce_async(self, array, mean, out):
        self.calls.append(array.dtype)
        out[:] = array if mean else 10 * array
        return Handle(self.error)


def group(network) -> InaGroup:
    return InaGroup(dist.HashStore(), 0, 1, timedelta(seconds=20), network)
