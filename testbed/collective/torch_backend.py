"""The backend `ina` of torch.distributed: collectives go through the switches' P4 programs.

    dist.init_process_group("ina")

DistributedDataParallel, FSDP and everything else that calls these collectives works unmodified.
All-reduce, reduce-scatter and reduce (sums of float32, bfloat16, float16 and int32 tensors,
averages and PREMUL_SUM of floats), all-gather and broadcast of any type, and barriers use the job
that the process belongs to (client.py). Everything else goes over gloo, on the same emulated
network, and the rank's log says so: other collectives, other types and operations of sums, tensors
of different sizes, and groups for which the experiment has no communicator. With TESTBED_STRICT=1
that is an error.

If the job cannot go on, because a rank has died for instance, waiting for a collective raises
CollectiveError. DistributedDataParallel waits in C++, where it is a RuntimeError with the same
text.

client.py cuts a call's array into blocks. testbed/workload/feed.py, on the host, lays a block out
as fragments, whose number testbed/experiment/program_jobs.py has chosen (`block_fragments`).

PyTorch imports this module by its entry point (`torch.backends`), so a script need not. In a job of
an experiment it also puts the experiment's keys `backend` and `collective_timeout` into
`init_process_group`, and records the job where that is wanted (ina_recorder.py).
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from p4fabric.base.errors import UserError
from torch import Tensor

from testbed.collective import client, ina_recorder, own_rank, tally

NAME = "ina"
# The testbed ends a job whose ranks wait in vain, and names the late one. Where it can't see that
# they wait, PyTorch does so, this much later.
LATER_S = 30
LAST_S = 5  # time that the end of a process waits for collectives that nobody waits for

FLOATS = (torch.float32, torch.bfloat16, torch.float16)  # types whose sums the switches make
STRICT = "TESTBED_STRICT"  # environment variable; not 0: what would go over gloo is an error

# None: the caller has said that it waits, and the collective is done.
Begun: TypeAlias = "c10d.Work | None"
Group: TypeAlias = "dist.ProcessGroup | None"
Result: TypeAlias = "torch.futures.Future[Tensors]"
Tensors: TypeAlias = list[Tensor]
GatherOptions: TypeAlias = "c10d.AllgatherOptions | None"
ScatterOptions: TypeAlias = "c10d.ReduceScatterOptions | None"
Options: TypeAlias = (
    "c10d.AllreduceOptions | c10d.AllreduceCoalescedOptions | c10d.ReduceScatterOptions"
    " | c10d.AllgatherOptions | c10d.BroadcastOptions | c10d.ReduceOptions | c10d.BarrierOptions"
)

_in_use = False  # True: a group of this process has the job


def _nothing() -> None:
    pass


class InaWork(c10d.Work):
    """A collective that is under way, as PyTorch sees it."""

    def __init__(self, tensors: Tensors, line: _Line) -> None:
        super().__init__()
        self._tensors = tensors
        self._line = line
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._future: Result = torch.futures.Future()
        # What a callback raises is an error of its future in C++, too.
        self._checked = self._future.then(self._value)

    def finish(self, error: BaseException | None) -> None:
        """Mark the work as done, or as failed with `error`."""
        self._error = error
        self._future.set_result(self._tensors)
        self._over.set()

    def _value(self, future: Result) -> Tensors:
        if self._error is not None:
            raise self._error
        return self._tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Until it is done; raises CollectiveError if the job cannot go on."""
        limit_s = timeout.total_seconds() if timeout else None  # 0: PyTorch's word for none
        if limit_s is None and not self._over.is_set():
            self._line.serve(self)
        if not self._over.wait(limit_s):
            raise TimeoutError(f"a collective is not done after {limit_s:g} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Result:
        return self._checked

    def is_completed(self) -> bool:
        return self._over.is_set()

    def is_success(self) -> bool:
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Tensors:
        return self._tensors


class _Line:
    """The works of a group that are under way, in the order in which they began, which is that in
    which they are done.

    Whoever waits for one takes in the results, as that wakes no other thread. A thread beside the
    program does it for those that nobody waits for yet."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._works: deque[tuple[client.Handle | _Together, InaWork, Callable[[], None]]] = deque()
        self._serving = threading.Lock()
        self._more = threading.Condition(threading.Lock())
        self._closed = False
        self._thread: threading.Thread | None = None

    def append(
        self, handle: client.Handle | _Together, work: InaWork, put: Callable[[], None]
    ) -> None:
        """put: called with the result."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._go_on, name="ina", daemon=True)
            self._thread.start()
            # A thread that is inside PyTorch when Python ends would abort the process.
            atexit.register(self.close)
        self._works.append((handle, work, put))
        with self._more:
            self._more.notify()

    def serve(self, last: InaWork | None = None) -> None:
        """Wait for the works up to `last`, unless another thread does so."""
        while self._works and not (last and last.is_completed()):
            if not self._serving.acquire(blocking=False):
                return
            try:
                while self._works and not (last and last.is_completed()):
                    self._serve_first()
            finally:
                self._serving.release()
        if self._works:
            with self._more:
                self._more.notify()

    def _serve_first(self) -> None:
        handle, work, put = self._works.popleft()
        error: BaseException | None = None
        try:
            handle.wait(self._timeout_s)
            put()
        except Exception as found:
            error = found
        except BaseException as found:
            work.finish(found)
            raise
        work.finish(error)

    def _go_on(self) -> None:
        while True:
            with self._more:
                while not self._works and not self._closed:
                    self._more.wait()
            if not self._works:
                return
            self.serve()
            with self._more:
                if self._works and self._serving.locked():  # who serves says what is left to do
                    self._more.wait()

    def close(self) -> None:
        """End the thread when all works are done."""
        with self._more:
            self._closed = True
            self._more.notify()
        if self._thread is not None:
            self._thread.join(LAST_S)


class _Together:
    """Several works of gloo as one handle."""

    def __init__(self, works: list[c10d.Work]) -> None:
        self._works = works

    def wait(self, timeout_s: float) -> None:
        for work in self._works:
            work.wait(timedelta(seconds=timeout_s))


class InaGroup(dist.ProcessGroup):
    """A process group whose collectives go through the switches, if `job` is not None; `why_not`
    says why, otherwise.

    PyTorch's C++ calls these methods through a class that holds Python's global lock until they
    return, in its own methods, too. Gloo's threads take that lock while they hold gloo's mutex, so
    whoever waits for the mutex with the lock never goes on. So each method that C++ calls is here,
    and calls gloo by its Python binding, which gives the lock away."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        job: client.Job | None,
        why_not: str = "the process belongs to no job",
        label: str = tally.ALL,
    ) -> None:
        super().__init__(rank, size)
        self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._store = store
        self._parts: dict[tuple[int, ...], InaGroup] = {}
        self._job = job
        self._why_not = why_not
        self._label = label
        self._bypasses: set[tuple[str, torch.dtype | None]] = set()
        self._timeout_s = timeout.total_seconds()
        self._line = _Line(self._timeout_s)

    def getBackendName(self) -> str:
        return NAME

    def allreduce(self, tensors: Tensors, opts: c10d.AllreduceOptions | None = None) -> Begun:
        """All-reduce, as of any process group; see the module."""
        options = dist.AllreduceOptions() if opts is None else opts
        if why := self._unfit("all_reduce", tensors, options.reduceOp):
            return self._gloo_in_place("all_reduce", tensors, options, why)
        (tensor,) = tensors
        array, put = _for_sum(tensor, _factor(options))
        handle = self._joined.allreduce_async(
            array, mean=_is_mean(options), out=array, kind=_name(tensors[0].dtype)
        )
        return self._under_way(_counted(handle, tensors), tensors, put, options)

    def allreduce_coalesced(
        self, tensors: Tensors, opts: c10d.AllreduceCoalescedOptions | None = None
    ) -> Begun:
        """All-reduces of several tensors of a type, as one."""
        options = dist.AllreduceCoalescedOptions() if opts is None else opts
        if why := self._unfit("all_reduce", tensors, options.reduceOp):
            return self._over_gloo("all_reduce", tensors, why).allreduce_coalesced(tensors, options)
        whole = torch.cat([each.detach().reshape(-1) for each in tensors])
        array, put_whole = _for_sum(whole, _factor(options))
        handle = self._joined.allreduce_async(
            array, mean=_is_mean(options), out=array, kind=_name(tensors[0].dtype)
        )

        def put() -> None:
            put_whole()
            _hand_out(whole, tensors)

        return self._under_way(_counted(handle, tensors), tensors, put, options)

    def reduce_scatter_single(
        self,
        output: Tensor,
        input: Tensor,
        opts: ScatterOptions = None,
    ) -> Begun:
        """The rank's part of the sum of `input`, in `output`."""
        options = c10d.ReduceScatterOptions() if opts is None else opts
        if why := self._unfit("reduce_scatter", [input], options.reduceOp):
            return self._gloo_reduce_scatter([output], [input], options, why)
        _check_sizes("reduce_scatter", [input], [output], self._joined.size)
        return self._part_of_sum(output, input, options, [output])

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: ScatterOptions = None
    ) -> Begun:
        """The same of several tensors of a type."""
        options = c10d.ReduceScatterOptions() if opts is None else opts
        if len(inputs) == 1:
            return self.reduce_scatter_single(outputs[0], inputs[0], options)
        if why := self._unfit("reduce_scatter", inputs, options.reduceOp):
            return self._gloo_reduce_scatter(outputs, inputs, options, why)
        _check_sizes("reduce_scatter", inputs, outputs, self._joined.size)
        whole = torch.cat([each.detach().reshape(self._joined.size, -1) for each in inputs], 1)
        part = whole.new_empty(whole.shape[1])
        return self._part_of_sum(part, whole, options, outputs)

    def reduce_scatter(
        self, outputs: Tensors, inputs: list[Tensors], opts: ScatterOptions = None
    ) -> Begun:
        """The same with a tensor for each rank."""
        options = c10d.ReduceScatterOptions() if opts is None else opts
        why = self._unfit("reduce_scatter", inputs[0], options.reduceOp)
        if why := why or _uneven(inputs[0]):
            gloo = self._over_gloo("reduce_scatter", inputs[0], why)
            return gloo.reduce_scatter(outputs, inputs, options)
        _check_sizes("reduce_scatter", inputs[0], outputs * self._joined.size)
        whole = torch.cat([each.detach().reshape(-1) for each in inputs[0]])
        return self._part_of_sum(outputs[0], whole, options, outputs)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: GatherOptions = None) -> Begun:
        """All ranks' `input`, one behind the other in `output`."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if why := self._unfit("all_gather", [input]):
            gloo = self._over_gloo("all_gather", [input], why)
            return gloo._allgather_base(output, input, options)
        _check_sizes("all_gather", [output], [input], self._joined.size)
        return self._gathered(output, input, options, [output])

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: GatherOptions = None
    ) -> Begun:
        """The same of several tensors, of any types."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if len(inputs) == 1:
            return self.all_gather_single(outputs[0], inputs[0], options)
        if why := self._unfit("all_gather", inputs):
            gloo = self._over_gloo("all_gather", inputs, why)
            pairs = zip(outputs, inputs, strict=True)
            works = [gloo._allgather_base(*pair, options) for pair in pairs]
            return self._under_way(_Together(works), outputs, _nothing, options)
        _check_sizes("all_gather", outputs, inputs, self._joined.size)
        return self._gathered_together(outputs, inputs, options, outputs, _nothing)

    def allgather(
        self, outputs: list[Tensors], inputs: Tensors, opts: GatherOptions = None
    ) -> Begun:
        """The same with a tensor for each rank."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if why := self._unfit("all_gather", inputs) or _uneven(outputs[0]):
            return self._over_gloo("all_gather", inputs, why).allgather(outputs, inputs, options)
        _check_sizes("all_gather", outputs[0], inputs * len(outputs[0]))
        whole = torch.empty(len(outputs[0]), outputs[0][0].numel(), dtype=inputs[0].dtype)
        return self._gathered(
            whole, inputs[0], options, outputs[0], lambda: _hand_out(whole, outputs[0])
        )

    def allgather_coalesced(
        self, outputs: list[Tensors], inputs: Tensors, opts: GatherOptions = None
    ) -> Begun:
        """Several tensors of each rank, in a list for each rank."""
        options = c10d.AllgatherOptions() if opts is None else opts
        if why := self._unfit("all_gather", inputs):
            gloo = self._over_gloo("all_gather", inputs, why)
            return gloo.allgather_coalesced(outputs, inputs, options)
        flat = [each for rank in outputs for each in rank]
        _check_sizes("all_gather", flat, inputs * self._joined.size)
        wholes = [each.new_empty(self._joined.size, each.numel()) for each in inputs]

        def put() -> None:
            for whole, parts in zip(wholes, zip(*outputs, strict=True), strict=True):
                _hand_out(whole, parts)

        return self._gathered_together(wholes, inputs, options, flat, put)

    def broadcast(self, tensors: Tensors, opts: c10d.BroadcastOptions | None = None) -> Begun:
        """Broadcast, as of any process group."""
        return self._from_root("broadcast", tensors, opts)

    def dispatch(self, tensors: Tensors, opts: c10d.BroadcastOptions | None = None) -> Begun:
        """The root's tokens to the experts of all others (docs/experts.md), as by a broadcast."""
        return self._from_root("dispatch", tensors, opts)

    def _from_root(self, kind: str, tensors: Tensors, opts: c10d.BroadcastOptions | None) -> Begun:
        options = c10d.BroadcastOptions() if opts is None else opts
        if why := self._unfit(kind, tensors):
            return self._gloo_in_place(kind, tensors, options, why)
        (tensor,) = tensors
        array, put = _in_place(tensor)
        begin = getattr(self._joined, f"{kind}_async")
        handle = begin(array, options.rootRank, out=array)
        return self._under_way(_counted(handle, tensors), tensors, put, options)

    def reduce(self, tensors: Tensors, opts: c10d.ReduceOptions | None = None) -> Begun:
        """Sum at a root, as of any process group."""
        options = c10d.ReduceOptions() if opts is None else opts
        return self._to_root("reduce", tensors, options, mean=_is_mean(options))

    def combine(self, tensors: Tensors, opts: c10d.ReduceOptions | None = None) -> Begun:
        """The sum at a root of what all others give."""
        options = c10d.ReduceOptions() if opts is None else opts
        if options.rootRank == self.rank():
            tensors[0].detach().zero_()
        return self._to_root("combine", tensors, options)

    def _to_root(
        self, kind: str, tensors: Tensors, options: c10d.ReduceOptions, **more: bool
    ) -> Begun:
        if why := self._unfit(kind, tensors, options.reduceOp):
            return self._gloo_in_place(kind, tensors, options, why)
        (tensor,) = tensors
        array, put = _for_sum(tensor, _factor(options))
        root, is_root = options.rootRank, options.rootRank == self.rank()
        out, begin = array if is_root else None, getattr(self._joined, f"{kind}_async")
        handle = begin(array, root, out=out, kind=_name(tensor.dtype), **more)
        put = put if is_root else _nothing
        return self._under_way(_counted(handle, tensors), tensors, put, options)

    def barrier(self, opts: c10d.BarrierOptions | None = None) -> Begun:
        """Barrier, as of any process group."""
        options = c10d.BarrierOptions() if opts is None else opts
        if why := self._unfit("barrier", []):
            return self._over_gloo("barrier", [], why).barrier(options)
        return self._under_way(self._joined.barrier_async(), [], _nothing, options)

    def all_to_all_single(
        self, output: Tensor, input: Tensor, *others: object, **options: object
    ) -> Begun:
        """Over gloo, as everything that follows."""
        gloo = self._over_gloo("all_to_all", [input])
        return gloo.alltoall_base(output, input, *others, **options)

    def alltoall(
        self, outputs: Tensors, inputs: Tensors, *others: object, **options: object
    ) -> Begun:
        return self._over_gloo("all_to_all", inputs).alltoall(outputs, inputs, *others, **options)

    def gather(
        self, outputs: list[Tensors], inputs: Tensors, *others: object, **options: object
    ) -> Begun:
        return self._over_gloo("gather", inputs).gather(outputs, inputs, *others, **options)

    def scatter(
        self, outputs: Tensors, inputs: list[Tensors], *others: object, **options: object
    ) -> Begun:
        return self._over_gloo("scatter", outputs).scatter(outputs, inputs, *others, **options)

    def send(self, tensors: Tensors, rank: int, tag: int) -> Begun:
        return self._over_gloo("send", tensors).send(tensors, rank, tag)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> Begun:
        return self._over_gloo("recv", tensors).recv(tensors, rank, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Begun:
        return self._over_gloo("recv", tensors).recv_anysource(tensors, tag)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        self._over_gloo("monitored_barrier", []).monitored_barrier(
            timeout or timedelta(seconds=self._timeout_s), wait_all_ranks
        )

    # Their names before PyTorch 2.13.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single

    def shutdown(self) -> None:
        """Leave the job; the group is of no use any more."""
        for part in self._parts.values():
            part.shutdown()
        self._line.close()

    @property
    def in_network(self) -> bool:
        """True: calls go through the switches, if their types allow it."""
        return self._job is not None

    def part(self, ranks: tuple[int, ...]) -> InaGroup:
        """The group of some of its ranks, with a communicator of its own if there is one left. All
        of them call this; it is made once."""
        if len(ranks) == self.size():
            return self
        if ranks not in self._parts:
            name = f"{self.group_name}.{'.'.join(map(str, ranks))}"
            place, timeout = ranks.index(self.rank()), timedelta(seconds=self._timeout_s)
            store = dist.PrefixStore(name, self._store)
            made = _further_group(store, place, len(ranks), timeout, name)
            made._set_group_name(name)
            if (known := c10d._world.pg_group_ranks.get(self)) is not None:
                # The numbers among all ranks, so that PyTorch knows whose group it is.
                numbers = [each for own in ranks for each, at in known.items() if at == own]
                c10d._world.pg_group_ranks[made] = {each: at for at, each in enumerate(numbers)}
            self._parts[ranks] = made
        return self._parts[ranks]

    @property
    def _joined(self) -> client.Job:
        assert self._job is not None
        return self._job

    def _unfit(
        self, kind: str, tensors: Sequence[Tensor], operation: dist.ReduceOp | None = None
    ) -> str:
        """Why a collective does not go through the switches; "" if it does. operation: of a sum."""
        if self._job is None:
            return self._why_not
        for tensor in tensors:
            if not _plain(tensor):
                return f"a tensor is {tensor.layout} on {tensor.device}"
        if operation is None:
            return ""
        if len(types := {tensor.dtype for tensor in tensors}) > 1:
            return "its tensors have different types"
        (dtype,) = types
        if operation == dist.ReduceOp.SUM and dtype in (*FLOATS, torch.int32):
            return ""
        of_floats = operation == dist.ReduceOp.AVG or operation == dist.ReduceOp.PREMUL_SUM
        if of_floats and dtype in FLOATS:
            return ""
        names = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
        name = next(each for each in names if operation == getattr(dist.ReduceOp, each))
        return f"the switches do not compute {name} of {_name(dtype)}"

    def _over_gloo(
        self, kind: str, tensors: Sequence[Tensor], why: str = "the switches do not do it"
    ) -> dist.ProcessGroupGloo:
        """Gloo's group, for a collective that does not go through the switches. The first one of
        each kind and type is named in the rank's log. Raises CollectiveError if that is forbidden
        (TESTBED_STRICT)."""
        dtype = tensors[0].dtype if tensors else None
        name = "" if dtype is None else _name(dtype)
        if any(tensor.is_meta for tensor in tensors):
            raise ValueError(f"{kind} cannot take tensors on the device meta: they have no values")
        size = sum(_bytes(tensor) for tensor in tensors)
        tally.TALLY.add(self._label, kind, name, size, None, tally.GLOO)
        if (kind, dtype) in self._bypasses or (self._job is None and self.size() == 1):
            return self._gloo
        what = kind if dtype is None else f"{kind} of {name}"
        ranks = f"{self.size()} rank{'s' if self.size() > 1 else ''}"
        text = f"{what} in a group of {ranks} goes over gloo, past the switches: {why}"
        if os.environ.get(STRICT, "0") != "0":
            raise client.CollectiveError(f"{text} ({STRICT} forbids it)")
        self._bypasses.add((kind, dtype))
        if client.in_job():
            print(f"ina: {text}", file=sys.stderr, flush=True)
        return self._gloo

    def _gloo_in_place(self, kind: str, tensors: Tensors, options: Options, why: str) -> Begun:
        """Collective `kind`, whose tensors have its result, over gloo. Gloo takes what lies in the
        gaps of a tensor for its values, so tensors with gaps go as copies."""
        of_gloo = {"dispatch": "broadcast", "combine": "reduce"}.get(kind, kind.replace("_", ""))
        call = getattr(self._over_gloo(kind, tensors, why), of_gloo)
        gaps = [each.layout == torch.strided and not each.is_contiguous() for each in tensors]
        if not any(gaps):
            return call(tensors, options)
        copies = [each.detach().contiguous() for each in tensors]

        def put() -> None:
            for tensor, copy in zip(tensors, copies, strict=True):
                _copy(tensor, copy)

        return self._under_way(_Together([call(copies, options)]), tensors, put, options)

    def _gloo_reduce_scatter(
        self, outputs: Tensors, inputs: Tensors, options: Options, why: str
    ) -> Begun:
        gloo = self._over_gloo("reduce_scatter", inputs, why)
        pairs = zip(outputs, inputs, strict=True)
        works = [gloo._reduce_scatter_base(*pair, options) for pair in pairs]
        if len(works) == 1:
            return works[0]
        return self._under_way(_Together(works), outputs, _nothing, options)

    def _part_of_sum(
        self, part: Tensor, whole: Tensor, options: Options, outputs: Tensors
    ) -> Begun:
        """This rank's part of the sum of `whole`, which `outputs` share if it is none of them."""
        given, _ = _for_sum(whole, _factor(options))
        array, put_part = _for_sum(part)

        def put() -> None:
            put_part()
            if outputs[0] is not part:
                _hand_out(part, outputs)

        mean, kind = _is_mean(options), _name(whole.dtype)
        handle = self._joined.reduce_scatter_async(given, mean=mean, out=array, kind=kind)
        return self._under_way(_counted(handle, [whole]), outputs, put, options)

    def _gathered(
        self,
        whole: Tensor,
        own: Tensor,
        options: Options,
        outputs: Tensors,
        then: Callable[[], None] = _nothing,
        givens: Tensors | None = None,
    ) -> Begun:
        """All ranks' `own`, the bytes of `givens`, in `whole`; `then` makes `outputs` of it."""
        array, put_whole = _in_place(whole)

        def put() -> None:
            put_whole()
            then()

        handle = self._joined.all_gather_async(_array(own), out=array)
        return self._under_way(_counted(handle, givens or [own]), outputs, put, options)

    def _gathered_together(
        self,
        wholes: Tensors,
        owns: Tensors,
        options: Options,
        outputs: Tensors,
        then: Callable[[], None],
    ) -> Begun:
        """The same of several tensors, whose bytes travel as one."""
        own = torch.cat([torch.from_numpy(_array(each).view(np.uint8)) for each in owns])
        gathered = own.new_empty(self._joined.size, own.numel())

        def put() -> None:
            parts = gathered.split([each.nbytes for each in owns], 1)
            for whole, part in zip(wholes, parts, strict=True):
                values = part.clone(memory_format=torch.contiguous_format).view(-1)
                whole.detach().copy_(values.view(whole.dtype).view(whole.shape))
            then()

        return self._gathered(gathered, own, options, outputs, put, owns)

    def _under_way(
        self,
        handle: client.Handle | _Together,
        tensors: Tensors,
        put: Callable[[], None],
        options: Options | None = None,
    ) -> Begun:
        """The work of a collective; None if the caller has said that it waits for the end, which
        this method then does. put: called with the result. options: of the call."""
        if not getattr(options, "asyncOp", True):
            handle.wait(self._timeout_s)
            put()
            return None
        work = InaWork(tensors, self._line)
        self._line.append(handle, work, put)
        return work


def _plain(tensor: Tensor) -> bool:
    """True if a tensor's bytes can travel."""
    return (
        tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    )


def _bytes(tensor: Tensor) -> int:
    """Bytes that a tensor gives; of a sparse one those of its indices and values."""
    if tensor.layout == torch.sparse_coo:
        return tensor._indices().nbytes + tensor._values().nbytes
    return tensor.nbytes


def _check_sizes(
    kind: str, wholes: Sequence[Tensor], parts: Sequence[Tensor], ratio: int = 1
) -> None:
    """Refuse what gloo refuses. Raises ValueError unless each of `wholes` has the type of its part
    and `ratio` times its values."""
    shown = [[(_name(each.dtype), each.numel()) for each in tensors] for tensors in (wholes, parts)]
    for whole, part in itertools.zip_longest(*shown, fillvalue=("nothing", 0)):
        if whole != (part[0], ratio * part[1]):
            raise ValueError(
                f"{kind}: the types and sizes of input and output do not fit: {whole[1]} values of"
                f" {whole[0]} for {ratio} x {part[1]} of {part[0]}"
            )


def _is_mean(options: Options) -> bool:
    return options.reduceOp == dist.ReduceOp.AVG


def _uneven(tensors: Sequence[Tensor]) -> str:
    """Reason if tensors, the same list on all ranks, have different sizes; else ""."""
    same = all(each.numel() == tensors[0].numel() for each in tensors)
    return "" if same else "the ranks' tensors have different sizes"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _array(tensor: Tensor) -> np.ndarray:
    """A tensor's values as a flat array, not copied if they lie side by side; as bytes if numpy
    does not know their type."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    try:
        return flat.numpy()
    except TypeError:
        return flat.view(torch.uint8).numpy()


def _in_place(tensor: Tensor) -> tuple[np.ndarray, Callable[[], None]]:
    """A flat array for a result that belongs into a tensor, and what puts it there."""
    if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        return _array(tensor), _nothing
    copy = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return _array(copy), lambda: _copy(tensor, copy)


def _factor(options: Options) -> float | Tensor | None:
    """By what a rank multiplies its values before they are added (PREMUL_SUM); None: by nothing."""
    operation = options.reduceOp
    return operation.__getstate__()[1] if operation == dist.ReduceOp.PREMUL_SUM else None


def _for_sum(
    tensor: Tensor, factor: float | Tensor | None = None
) -> tuple[np.ndarray, Callable[[], None]]:
    """The same for a sum, whose 16-bit floats travel as float32 and are rounded at the end.
    factor: of `_factor`."""
    if factor is None and tensor.dtype in (torch.float32, torch.int32):
        return _in_place(tensor)
    copy = tensor.detach().to(torch.float32, memory_format=torch.contiguous_format)
    if factor is not None:
        copy = copy * factor
    return _array(copy), lambda: _copy(tensor, copy)


def _counted(handle: client.Handle, tensors: Sequence[Tensor]) -> client.Handle:
    """A handle of what these tensors give, which may travel as another type."""
    size = sum(tensor.nbytes for tensor in tensors)
    handle.counted_as = _name(tensors[0].dtype) if tensors else "", size
    return handle


def _copy(tensor: Tensor, result: Tensor) -> None:
    tensor.detach().copy_(result)


def _hand_out(values: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy values that lie one behind the other into tensors."""
    parts = values.view(-1).split([each.numel() for each in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.detach().copy_(part.view(tensor.shape))


def new_group(
    options: c10d._DistributedBackendOptions, more: Mapping[str, str] | None = None
) -> InaGroup:
    """Group of this backend; PyTorch calls this function for each process group, with its
    `_DistributedBackendOptions` and `pg_options`: {"sum": FORMAT} for sums of the group in another
    format (`client.Job.add_in`). The first one of all ranks joins the job; each other one gets a
    communicator of its own, if there is one. Raises UserError for other options."""
    if more and set(more) != {"sum"}:
        raise UserError(f"pg_options of {NAME} are {{'sum': FORMAT}}, not {more}")
    global _in_use
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    made = functools.partial(InaGroup, options.store, rank, size, timeout)
    if size == 1:
        return made(None, "it has a single rank", "")
    if not _in_use and size == int(os.environ.get("WORLD_SIZE", size)):
        _in_use = True
        if (job := _join(rank, size)) is not None:
            options.store.set(f"worker {rank}", str(job.worker))
            job.seat([int(options.store.get(f"worker {each}")) for each in range(size)])
            if more:
                job.add_in(more["sum"])
            return made(job)
    return _further_group(options.store, rank, size, timeout, options.group_id, more)


def _further_group(
    store: dist.Store,
    rank: int,
    size: int,
    timeout: timedelta,
    name: str,
    more: Mapping[str, str] | None = None,
) -> InaGroup:
    """A group of some ranks, with a communicator if there is one. more: as of `new_group`."""
    made = functools.partial(InaGroup, store, rank, size, timeout)
    try:
        job = client.join_as(name, rank, size, timeout.total_seconds())
    except client.Refused as error:
        return made(None, str(error), f"{size} ranks, {name}")
    if more:
        job.add_in(more["sum"])
    return made(job, label=job.label)


def _join(rank: int, size: int) -> client.Job | None:
    """The job; None if an earlier process of this rank has left it, as when torchrun restarts
    all."""
    try:
        # PyTorch's ranks may be others than the job's: torchrun numbers hosts in its own order.
        job = client.join(rank)
    except client.Refused as error:
        if error.ended:
            return None
        raise
    if job.size != size:
        raise UserError(
            f"the process group has {size} ranks, and the job has {job.size}, one on each of its"
            f" hosts: give the job `workers: {size}`, or start a process for each worker. With"
            " `launch: ranks` the testbed starts them, so --nproc-per-node of torchrun is 1; with"
            " `launch: servers` it is the number of the job's workers on each server"
        )
    return job


def register() -> None:
    """Make the backend known to PyTorch; more than once does no harm."""
    if dist.is_available() and NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, new_group, extended_api=True, devices=["cpu"])
        own_rank.adopt()  # before gloo looks for its interface
        if client.in_job():
            _replace_init(dist.init_process_group)
            _replace_monitored_barrier(dist.monitored_barrier)
            _replace_split_group(dist.split_group)


def _replace(original: Callable[..., object], by: Callable[..., object]) -> None:
    """Replace a function of torch.distributed under every name that it has."""
    for name, module in [*sys.modules.items()]:
        known = getattr(module, original.__name__, None)
        if name.startswith("torch.distributed") and known is original:
            setattr(module, original.__name__, by)


def _replace_init(original: Callable[..., None]) -> None:
    """Replace `init_process_group` by one that follows the experiment."""

    @functools.wraps(original)
    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: timedelta | None = None,
        *arguments: object,
        **options: object,
    ) -> None:
        if timeout is None:
            timeout = timedelta(seconds=float(os.environ[client.TIMEOUT_S]) + LATER_S)
        original(
            os.environ.get(client.BACKEND, backend), init_method, timeout, *arguments, **options
        )
        if wanted := os.environ.pop(client.RECORD, None):
            ina_recorder.start(**json.loads(wanted))

    _replace(original, init_process_group)


def _replace_monitored_barrier(original: Callable[..., None]) -> None:
    """Replace `monitored_barrier`, which refuses groups that are not called gloo."""

    @functools.wraps(original)
    def monitored_barrier(
        group: dist.ProcessGroup | None = None,
        timeout: timedelta | None = None,
        wait_all_ranks: bool = False,
    ) -> None:
        found = dist.group.WORLD if group is None else group
        if isinstance(found, InaGroup):
            found.monitored_barrier(timeout, wait_all_ranks)
        else:
            original(group, timeout, wait_all_ranks)

    _replace(original, monitored_barrier)


def _replace_split_group(original: Callable[..., Group]) -> None:
    """Replace `split_group`, which refuses groups of processors."""

    @functools.wraps(original)
    def split_group(
        parent_pg: Group = None,
        split_ranks: list[list[int]] | None = None,
        timeout: timedelta | None = None,
        *more: object,
        **named: object,
    ) -> Group:
        parent = dist.group.WORLD if parent_pg is None else parent_pg
        if not isinstance(parent, InaGroup) or not split_ranks:
            return original(parent_pg, split_ranks, timeout, *more, **named)
        ranks = dist.get_process_group_ranks(parent)
        for part in split_ranks:
            if parent.rank() in part:
                chosen = [ranks[each] for each in sorted(part)]
                return dist.new_group(chosen, timeout, NAME, use_local_synchronization=True)
        return None

    _replace(original, split_group)


register()
