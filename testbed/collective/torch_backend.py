"""The backend `ina` of torch.distributed: collectives go through the switches' P4 programs.

    dist.init_process_group("ina")

DistributedDataParallel, FSDP and everything else that calls these collectives works unmodified.
All-reduce and reduce-scatter of float32 and int32 tensors (sum, and average of float32), all-gather
and broadcast of any type, and barriers use the job that the process belongs to (client.py).
Everything else goes over gloo, on the same emulated network: other collectives, other types and
operations of sums, tensors of different sizes, and groups that are not all ranks. A second group of
all ranks uses gloo, too: collectives of two groups have no common order.

If the job cannot go on, because a rank has died for instance, waiting for a collective raises
CollectiveError. DistributedDataParallel waits in C++, where it is a RuntimeError with the same
text.

client.py cuts a call's array into blocks. testbed/workload/feed.py, on the host, lays a block out
as fragments, whose number testbed/experiment/program_jobs.py has chosen (`block_fragments`).

PyTorch imports this module by its entry point (`torch.backends`), so a script need not. In a job of
an experiment it also puts the experiment's keys `backend` and `collective_timeout` into
`init_process_group`, and records the job's model where that is wanted (ina_recorder.py).
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from testbed.collective import client, ina_recorder

NAME = "ina"
# The testbed ends a job whose ranks wait in vain, and names the late one. Where it can't see that
# they wait, PyTorch does so, this much later.
LATER_S = 30
LAST_S = 5  # time that the end of a process waits for collectives that nobody waits for

_in_use = False  # True: a group of this process has the job


class InaWork(c10d.Work):
    """A collective that is under way, as PyTorch sees it."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors
        self._over = threading.Event()
        self._error: Exception | None = None
        self._future: Any = torch.futures.Future()
        # What a callback raises is an error of its future in C++, too.
        self._checked = self._future.then(self._value)

    def finish(self, error: Exception | None) -> None:
        """Mark the work as done, or as failed with `error`."""
        self._error = error
        self._future.set_result(self._tensors)
        self._over.set()

    def _value(self, future: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Until it is done; raises CollectiveError if the job cannot go on."""
        limit_s = timeout.total_seconds() if timeout else None  # 0: PyTorch's word for none
        if not self._over.wait(limit_s):
            raise TimeoutError(f"a collective is not done after {limit_s:g} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        return self._checked

    def is_completed(self) -> bool:
        return self._over.is_set()

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors


class InaGroup(dist.ProcessGroup):
    """A process group whose collectives go through the switches, if `job` is not None."""

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
        self._thread = threading.Thread(target=self._finish, name="ina", daemon=True)
        if job is not None:
            self._thread.start()
            # A thread that is inside PyTorch when Python ends would abort the process.
            atexit.register(self.shutdown)

    def getBackendName(self) -> str:
        return NAME

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """All-reduce, as of any process group; see the module."""
        options = dist.AllreduceOptions() if opts is None else opts
        (tensor,) = tensors
        if self._job is None or not _summable(tensor, options.reduceOp):
            return super().allreduce(tensors, options)
        array, put = _in_place(tensor)
        handle = self._job.allreduce_async(array, mean=_is_mean(options), out=array)
        return self._under_way(handle, tensors, put)

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> Any:
        """The rank's part of the sum of `input`, in `output`."""
        options = c10d.ReduceScatterOptions() if opts is None else opts
        if self._job is None or not _summable(input, options.reduceOp):
            return _inherited(self, "reduce_scatter_single", "_reduce_scatter_base")(
                output, input, options
            )
        array, put = _in_place(output)
        handle = self._job.reduce_scatter_async(_array(input), mean=_is_mean(options), out=array)
        return self._under_way(handle, [output], put)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> Any:
        """The same with a tensor for each rank."""
        options = c10d.ReduceScatterOptions() if opts is None else opts
        if not _same_sizes(inputs[0]) or not _summable(inputs[0][0], options.reduceOp):
            return super().reduce_scatter(outputs, inputs, options)
        whole = torch.cat([each.detach().reshape(-1) for each in inputs[0]])
        return self.reduce_scatter_single(outputs[0], whole, options)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """All ranks' `input`, one behind the other in `output`."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if self._job is None or not _plain(input):
            return _inherited(self, "all_gather_single", "_allgather_base")(output, input, options)
        array, put = _in_place(output)
        return self._under_way(self._job.all_gather_async(_array(input), out=array), [output], put)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        """The same with a tensor for each rank."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if self._job is None or not _same_sizes(outputs[0]) or not _plain(inputs[0]):
            return super().allgather(outputs, inputs, options)
        whole = torch.empty(len(outputs[0]), outputs[0][0].numel(), dtype=inputs[0].dtype)
        handle = self._job.all_gather_async(_array(inputs[0]), out=_array(whole))

        def put() -> None:
            for place, part in zip(outputs[0], whole, strict=True):
                place.detach().copy_(part.view(place.shape))

        return self._under_way(handle, outputs[0], put)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        """Broadcast, as of any process group."""
        options = c10d.BroadcastOptions() if opts is None else opts
        (tensor,) = tensors
        if self._job is None or not _plain(tensor):
            return super().broadcast(tensors, options)
        array, put = _in_place(tensor)
        handle = self._job.broadcast_async(array, options.rootRank, out=array)
        return self._under_way(handle, tensors, put)

    def barrier(self, opts: Any = None) -> Any:
        """Barrier, as of any process group."""
        if self._job is None:
            return super().barrier(c10d.BarrierOptions() if opts is None else opts)
        return self._under_way(self._job.barrier_async(), [], _nothing)

    # Their names before PyTorch 2.13.
    _reduce_scatter_base = reduce_scatter_single
    _allgather_base = all_gather_single

    def shutdown(self) -> None:
        """Leave the job; the group is of no use any more."""
        self._pending.put(None)
        if self._thread.is_alive():
            self._thread.join(LAST_S)

    def _under_way(
        self, handle: client.Handle, tensors: list[torch.Tensor], put: Callable[[], None]
    ) -> InaWork:
        """put: called with the result."""
        work = InaWork(tensors)
        self._pending.put((handle, work, put))
        return work

    def _finish(self) -> None:
        """Wait for the collectives in the order in which they began, beside the program."""
        while (entry := self._pending.get()) is not None:
            handle, work, put = entry
            error: Exception | None = None
            try:
                handle.wait(self._timeout_s)
                put()
            except Exception as found:
                error = found
            work.finish(error)


def _inherited(group: InaGroup, *names: str) -> Any:
    """The method of a process group that has one of these names, for this group."""
    name = next(name for name in names if hasattr(dist.ProcessGroup, name))
    return getattr(super(InaGroup, group), name)


def _plain(tensor: torch.Tensor) -> bool:
    """True if a tensor's bytes can travel."""
    return (
        tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    )


def _summable(tensor: torch.Tensor, operation: Any) -> bool:
    """True if the network can apply this operation to a tensor."""
    is_float = tensor.dtype == torch.float32
    if operation == dist.ReduceOp.SUM:
        return _plain(tensor) and (is_float or tensor.dtype == torch.int32)
    return _plain(tensor) and is_float and operation == dist.ReduceOp.AVG


def _is_mean(options: Any) -> bool:
    return options.reduceOp == dist.ReduceOp.AVG


def _same_sizes(tensors: list[torch.Tensor]) -> bool:
    """True if all tensors have the same size, in a list that is the same on all ranks."""
    return all(each.numel() == tensors[0].numel() for each in tensors)


def _array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values as a flat array, not copied if they lie side by side; as bytes if numpy
    does not know their type."""
    flat = tensor.detach().contiguous().view(-1)
    try:
        return flat.numpy()
    except TypeError:
        return flat.view(torch.uint8).numpy()


def _in_place(tensor: torch.Tensor) -> tuple[np.ndarray, Callable[[], None]]:
    """A flat array for a result that belongs into a tensor, and what puts it there."""
    if tensor.is_contiguous():
        return _array(tensor), _nothing
    copy = tensor.detach().contiguous()
    return _array(copy), lambda: _copy(tensor, copy)


def _copy(tensor: torch.Tensor, result: torch.Tensor) -> None:
    tensor.detach().copy_(result)


def _nothing() -> None:
    pass


def new_group(store: Any, rank: int, size: int, timeout: timedelta) -> InaGroup:
    """Group of this backend; PyTorch calls this function for each process group."""
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
        if client.SOCKET in os.environ:
            _replace_init(dist.init_process_group)


def _replace_init(original: Callable[..., None]) -> None:
    """Replace `init_process_group` by one that follows the experiment, under every name that it
    has."""

    @functools.wraps(original)
    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: timedelta | None = None,
        *arguments: Any,
        **options: Any,
    ) -> None:
        if timeout is None:
            timeout = timedelta(seconds=float(os.environ[client.TIMEOUT_S]) + LATER_S)
        original(
            os.environ.get(client.BACKEND, backend), init_method, timeout, *arguments, **options
        )
        if wanted := os.environ.pop(client.RECORD, None):
            ina_recorder.attach_to_first(**json.loads(wanted))

    for name, module in [*sys.modules.items()]:
        known = getattr(module, "init_process_group", None)
        if name.startswith("torch.distributed") and known is original:
            module.init_process_group = init_process_group  # type: ignore[attr-defined]
