"""The backend `ina` of torch.distributed: all-reduce goes through the switches' P4 programs.

    dist.init_process_group("ina")

DistributedDataParallel and everything else that calls all-reduce works unmodified. All-reduce of
float32 and int32 tensors (sum, and average of float32) uses the job that the process belongs to
(client.py). Everything else goes over gloo, on the same emulated network: other collectives, other
types and operations, and groups that are not all ranks. A second group of all ranks uses gloo, too:
collectives of two groups have no common order.

If the job cannot go on, because a rank has died for instance, the process prints why and ends with
exit code 1.

PyTorch imports this module by its entry point (`torch.backends`), so a script need not.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]

from testbed.collective import client

NAME = "ina"

_in_use = False  # whether a group of this process has the job


class InaGroup(dist.ProcessGroup):
    """A process group whose all-reduce goes through the switches, if `job` is not None."""

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, job: client.Job | None
    ) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._job = job
        self._timeout_s = timeout.total_seconds()
        self._pending: queue.SimpleQueue[tuple | None] = queue.SimpleQueue()
        if job is not None:
            threading.Thread(target=self._finish, name="ina", daemon=True).start()

    def getBackendName(self) -> str:
        return NAME

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """As of any process group; see the module."""
        options = dist.AllreduceOptions() if opts is None else opts
        (tensor,) = tensors
        if not self._suits(tensor, options):
            return self._gloo.allreduce(tensors, options)
        mean = options.reduceOp == dist.ReduceOp.AVG
        flat = tensor.detach().contiguous().view(-1)
        array = flat.numpy()
        future: Any = torch.futures.Future()
        assert self._job is not None
        handle = self._job.allreduce_async(array, mean=mean, out=array)
        self._pending.put((handle, tensor, flat, future))
        return _create_work_from_future(future)

    def shutdown(self) -> None:
        """Leave the job; the group is of no use any more."""
        self._pending.put(None)

    def _suits(self, tensor: torch.Tensor, options: Any) -> bool:
        """Whether the network can add this."""
        if self._job is None or tensor.layout != torch.strided or tensor.device.type != "cpu":
            return False
        operation = options.reduceOp  # which `in` would not find in a tuple
        is_float = tensor.dtype == torch.float32
        if operation == dist.ReduceOp.SUM:
            return is_float or tensor.dtype == torch.int32
        return is_float and operation == dist.ReduceOp.AVG

    def _finish(self) -> None:
        """Wait for the collectives in the order in which they began, beside the program."""
        assert self._job is not None
        while (entry := self._pending.get()) is not None:
            handle, tensor, flat, future = entry
            try:
                handle.wait(self._timeout_s)
            except Exception as error:
                # Waiting for a work of PyTorch's raises nothing. A program that went on would take
                # its own gradient for the sum, so it ends, as it does with NCCL.
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            if flat.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(flat.view(tensor.shape))
            future.set_result([tensor])


def new_group(store: Any, rank: int, size: int, timeout: timedelta) -> InaGroup:
    """What PyTorch calls for each process group of this backend."""
    global _in_use
    job = None
    if not _in_use and size == int(os.environ.get("WORLD_SIZE", size)):
        job = client.join()
        _in_use = True
    return InaGroup(store, rank, size, timeout, job)


def register() -> None:
    """Make the backend known to PyTorch; more than once does no harm."""
    if dist.is_available() and NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, new_group, devices=["cpu"])
